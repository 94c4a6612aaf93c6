"""How often an update waits for its device: what comes after cannot be started meanwhile, so a GPU idles."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from homerl.train.packing.packed_updates import PackedUpdates, TargetScores, TokenSequence
from homerl.train.packing.pass_budget import TokenBudget


class Waits(TorchDispatchMode):
    """Counts what makes the host wait: a number that is read, and a mask whose count decides a shape."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        masked = name == "index" and any(at is not None and at.dtype == torch.bool for at in args[1])
        if name in ("_local_scalar_dense", "nonzero") or masked:
            self.count["number" if name == "_local_scalar_dense" else "mask"] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("budget", "passes"), [(TokenBudget(1000, 1000), 1), (TokenBudget(30, 30), 4)])
def test_an_update_reads_one_number_and_trls_head_two_masks_a_pass(budget, passes):
    config = Qwen3Config(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        head_dim=16,
        num_attention_heads=2,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    model = Qwen3ForCausalLM(config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    sequences = [TokenSequence.from_ids([first, *range(25)], np.arange(5, 26)) for first in range(4)]
    updates, losses = PackedUpdates(Accelerator(cpu=True), budget, "auto"), []

    def objective(members: list[int], scored: TargetScores) -> tuple[torch.Tensor, torch.Tensor]:
        return -scored.logps.sum(), scored.entropy.sum()[None].detach()

    updates.train_on_sequences(model, sequences, objective)  # the first one also checks the model
    waits = Waits()
    with waits:
        updates.train_on_sequences(model, sequences, objective, lambda loss: losses.append(loss.item()))
    assert len(losses) == 1 and waits.count == {"number": 1, "mask": 2 * passes}
