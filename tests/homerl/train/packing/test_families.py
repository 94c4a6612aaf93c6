"""Tiny models of many families: an update of each is that of its sequences alone, in one row or in rows of their own."""

from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from families import ALONE, PACKED, SIZES
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from homerl.envs.core.documents import InputError
from homerl.train.model_settings import find_packing_obstacle
from homerl.train.packing import packed_updates as self_check
from homerl.train.packing.packed_updates import PackedUpdates, TargetScores, TokenSequence
from homerl.train.packing.pass_budget import TokenBudget

PROMPT = [3 + i for i in range(20)]
SEQUENCES = [
    *(TokenSequence.from_ids([*PROMPT, *[5 + i] * 3, 40 + i, 7, 9, 11], np.arange(20, 27)) for i in range(2)),
    TokenSequence.from_ids([9, 8, 7, 6, 5, 4, 3, 9, 8, 10, 11, 12, 13], np.arange(5, 13)),
]


def made(family: str, **sizes: Any) -> Any:
    """A model whose weights are so large that a token more or less in sight shows."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **(SIZES | sizes))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager" if family == "gpt_oss" else "sdpa").float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.25)
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    return model


@pytest.mark.long
def test_rounding_to_bfloat16_in_36_layers_of_random_weights_is_not_taken_for_mixing():
    sizes = {"vocab_size": 20_000, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 36, "head_dim": 64}
    sizes |= {"num_attention_heads": 8, "num_key_value_heads": 4, "initializer_range": 0.0566}  # amplifies as Qwen3-8B's
    torch.manual_seed(0)
    model, ids = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", **sizes)), torch.randint(20_000, (1, 128))
    with torch.no_grad():
        rounded = model.bfloat16()(ids).logits[0].float().log_softmax(-1)
        exact = model.float()(ids).logits[0].log_softmax(-1)
    drawn = torch.distributions.Categorical(logits=exact).sample()[:, None]
    gap = (exact.gather(1, drawn) - rounded.gather(1, drawn)).abs().mean().item()
    assert gap > 0.02 and 2**0.5 * gap < self_check.IN_16_BITS  # two that are rounded, each in its own way


def alone(model: Any, one: TokenSequence) -> torch.Tensor:
    """The log-probabilities of a sequence's targets, by the model's own logits."""
    every = model(input_ids=torch.tensor(one.ids)[None], use_cache=False).logits[0].log_softmax(-1)
    return every[one.targets - 1].gather(1, torch.tensor(one.ids[one.targets])[:, None])[:, 0]


def mean_loss(members: list[int], scored: TargetScores) -> tuple[torch.Tensor, torch.Tensor]:
    return -scored.logps.sum(), torch.zeros(1)


def updates(model: Any, budget: TokenBudget, why: str | None) -> PackedUpdates:
    return PackedUpdates(Accelerator(cpu=True), budget, "auto", unpackable=why)


@pytest.mark.parametrize(("family", "sizes"), [*PACKED.items(), *ALONE.items()], ids=[*PACKED, *ALONE])
def test_an_update_is_that_of_the_sequences_alone(family, sizes):
    model = made(family, **sizes)
    why = find_packing_obstacle(model.config.to_dict())
    assert bool(why) == (family in ALONE), why
    loss = -torch.cat([alone(model, one) for one in SEQUENCES]).sum()
    loss.backward()
    expected = {name: part.grad.clone() for name, part in model.named_parameters() if part.grad is not None}
    assert expected
    for budget in (TokenBudget(1000, 1000), TokenBudget(0, 40)):  # with all activations kept, and with checkpointing
        model.zero_grad()
        found, _ = updates(model, budget, why).train_on_sequences(model, SEQUENCES, mean_loss)
        assert found.item() == pytest.approx(loss.item(), rel=1e-5)
        for name, gradient in expected.items():
            torch.testing.assert_close(
                model.get_parameter(name).grad,
                gradient,
                atol=1e-3,
                rtol=1e-3,
                msg=lambda text, name=name: f"{name}: {text}",
            )


@pytest.mark.parametrize("family", ["lfm2", "granitemoehybrid"])
def test_a_model_that_mixes_sequences_of_a_row_is_refused_before_its_first_update(family):
    """Also where its configuration does not tell."""
    model = made(family, **ALONE[family])
    with pytest.raises(InputError, match=r"model\.name: a packed row changes the log-probabilities"):
        updates(model, TokenBudget(1000, 1000), None).train_on_sequences(model, SEQUENCES, mean_loss)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_rounding_of_tf32_is_no_mixing(monkeypatch):
    """Of 28 layers it was 0.002 nats, with weights of which each token matters."""
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert self_check.largest_rounding_gap(half=False, device="cuda") / 5 > 0.002
    assert self_check.largest_rounding_gap(half=False, device="cpu") == self_check.IN_FLOAT32
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "highest")
    assert self_check.largest_rounding_gap(half=False, device="cuda") == self_check.IN_FLOAT32


def test_a_configuration_within_another_is_read():
    assert find_packing_obstacle({"text_config": {"layer_types": ["conv"]}}) == "its layers are not all attention (conv)"
    assert find_packing_obstacle({"text_config": {"layer_types": ["full_attention"]}, "attention_dropout": 0.5}) is None
