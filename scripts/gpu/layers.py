"""Updates of Qwen3-8B with adapters by the ways to run its layers: as they are, compiled, and with Liger's kernels.

One model with random weights makes all of them, without a recipe, a data set or a disk, so that the part takes two minutes.
"""

from __future__ import annotations

import time
from typing import Any

from gpu.machine import ROOT, Machine
from gpu.weights import made_at_random

TOKENS, SEQUENCES = 8192, 20  # of a row
UPDATES = {"plain": 4, "compiled": 7, "liger": 6}  # the first warms up, and compiles


def layers(machine: Machine) -> dict[str, Any]:
    """For each way: seconds of the first update and of the fastest, its tokens a second, and where those of one more go."""
    from peft import get_peft_model
    from trl.trainer.utils import add_fused_lm_head

    from homerl.app.runs.recipe import load_recipe
    from homerl.train.model_settings import fuse_liger_kernels, make_lora_config
    from homerl.train.packing.compiled_layers import CompiledLayers

    base = made_at_random(machine, machine.shape("Qwen3-8B"))
    add_fused_lm_head(base, outputs=("log_probs", "entropy", "is_top1"))
    model, found = get_peft_model(base, make_lora_config(load_recipe(ROOT / "recipes/sft_8b_lora.yaml").model, base)), {}
    for way in UPDATES if not machine.tiny else ("plain", "compiled"):
        if way == "liger":
            fuse_liger_kernels(base)  # last, since it cannot be undone
        compiled = CompiledLayers(model, machine.pick("inductor", "eager")) if way == "compiled" else None
        found[way] = _updates(machine, model, compiled, UPDATES[way])
        machine.keep("layers_8b", found)
    return found


def _updates(machine: Machine, model: Any, compiled: Any, count: int) -> dict[str, Any]:
    """Time updates on random dialogues, of which the second half is trained."""
    import numpy as np
    import torch
    from accelerate import Accelerator

    from homerl.train.packing.packed_updates import PackedUpdates, TokenSequence
    from homerl.train.packing.pass_budget import TokenBudget

    state = Accelerator(cpu=machine.tiny, mixed_precision=machine.pick("bf16", "no"))
    budget = TokenBudget(2 * TOKENS, 2 * TOKENS)
    updates = PackedUpdates(state, budget, "auto", half=not machine.tiny, compiled=compiled)
    trained = [part for part in model.parameters() if part.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=not machine.tiny)
    size, vocabulary, random = machine.pick(TOKENS, 400) // SEQUENCES, model.config.vocab_size, np.random.default_rng(0)

    def update() -> tuple[int, float]:
        sizes = random.integers(size * 6 // 7, size * 8 // 7, SEQUENCES)
        texts = [TokenSequence.from_ids(random.integers(0, vocabulary, n).tolist(), np.arange(n // 2, n)) for n in sizes]
        machine.wait()
        begin = time.perf_counter()
        updates.train_on_sequences(model, texts, lambda members, scored: (-scored.logps.mean(), scored.logps.new_zeros(1)))
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        machine.wait()
        return int(sizes.sum()), time.perf_counter() - begin

    _, first = update()
    tokens, seconds = min((update() for _ in range(count - 1)), key=lambda timed: timed[1])
    return {
        "first_seconds": first,
        "seconds_per_update": seconds,
        "tokens_per_second": tokens / seconds,
        "peak_gb": machine.peak_gb(),
    } | _profiled(machine, model, update)


def _profiled(machine: Machine, model: Any, update: Any) -> dict[str, Any]:
    """Where the time of one more update goes."""
    from gpu.breakdown import annotated, breakdown, events

    with annotated(model), machine.profiler() as profiler:
        _, seconds = update()
    spent = breakdown(events(profiler), seconds, model.config.vocab_size)
    return {"busy_seconds": spent.busy, "by_group": spent.groups, "kernels": spent.kernels}
