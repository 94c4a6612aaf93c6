"""AdamW on bfloat16 weights moves their masters as torch's AdamW moves float32 weights, also from a restored state."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import Parameter

from homerl.train.parallel import adamw as module
from homerl.train.parallel.adamw import AdamW, use_float32_masters

SHAPES = [(30, 7), (5,), (), (0, 4), (3, 1, 8)]


def weights(dtype: torch.dtype, scale: float = 0.02) -> list[Parameter]:
    """The same weights in any dtype."""
    torch.manual_seed(0)
    return [Parameter((torch.randn(shape) * scale).bfloat16().to(dtype)) for shape in SHAPES]


def step(optimizer: torch.optim.Optimizer, seed: int, size: float = 1e-3) -> None:
    """A step on gradients that depend on the seed alone."""
    torch.manual_seed(seed)
    for group in optimizer.param_groups:
        for weight in group["params"]:
            weight.grad = (torch.randn(weight.shape) * size).bfloat16().to(weight.dtype)
    optimizer.step()


def exact(optimizer: AdamW) -> list[torch.Tensor]:
    """The masters of an optimizer's weights."""
    held = [weight for group in optimizer.param_groups for weight in group["params"]]
    with use_float32_masters(held, [optimizer.state[weight]["residual"] for weight in held]) as found:
        return [master.clone() for master in found]


@given(
    lr=st.floats(1e-7, 1e-2),
    beta1=st.floats(0, 0.99),
    beta2=st.floats(0.5, 0.9999),
    decay=st.floats(0, 0.5),
    scale=st.sampled_from([1e-4, 0.02, 1.0, 50.0]),
    steps=st.integers(1, 8),
    fused=st.sampled_from([None, True]),
    limit=st.integers(1, 300),
)
def test_masters_move_as_float32_weights(
    lr: float, beta1: float, beta2: float, decay: float, scale: float, steps: int, fused: bool | None, limit: int
) -> None:
    settings: dict[str, Any] = {"lr": lr, "betas": (beta1, beta2), "weight_decay": decay, "fused": fused}
    whole = torch.optim.AdamW(weights(torch.float32, scale), **settings)
    half = AdamW(weights(torch.bfloat16, scale), **settings)
    old, module.BUCKET = module.BUCKET, limit
    try:
        for number in range(steps):
            step(whole, number)
            step(half, number)
    finally:
        module.BUCKET = old
    for master, weight in zip(exact(half), whole.param_groups[0]["params"], strict=True):
        torch.testing.assert_close(master, weight.detach(), rtol=1e-6, atol=1e-6 * lr)


def test_small_steps_add_up_and_are_lost_without_masters() -> None:
    """A hundred steps of 1e-5, all in one direction, on weights of 0.02: 0.001 in all."""

    def moved(kind: type[torch.optim.AdamW]) -> torch.Tensor:
        weight = Parameter(torch.full((64,), 0.02, dtype=torch.bfloat16))
        optimizer, start = kind([weight], lr=1e-5, betas=(0.9, 0.999), weight_decay=0.0), weight.detach().clone()
        for _ in range(100):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        return (start - weight.detach()).float()

    assert moved(AdamW).mean() == pytest.approx(1e-3, rel=0.05)
    assert not moved(torch.optim.AdamW).any()


@pytest.mark.parametrize("fused", [None, True])
def test_float32_weights_are_torchs_to_the_bit(fused: bool | None) -> None:
    """Also beside bfloat16 ones."""
    settings: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1, "fused": fused}
    whole = torch.optim.AdamW(weights(torch.float32), **settings)
    mixed = AdamW([{"params": weights(torch.float32)}, {"params": weights(torch.bfloat16)}], **settings)
    for number in range(5):
        step(whole, number)
        step(mixed, number)
    for one, other in zip(whole.param_groups[0]["params"], mixed.param_groups[0]["params"], strict=True):
        assert torch.equal(one, other)


def test_a_saved_state_goes_on_to_the_bit() -> None:
    """Weights and state through a file, as a checkpoint has them."""
    settings: dict[str, Any] = {"lr": 1e-5, "betas": (0.9, 0.99), "weight_decay": 0.1}
    unbroken = AdamW(weights(torch.bfloat16), **settings)
    for number in range(3):
        step(unbroken, number)
    file = io.BytesIO()
    torch.save({"weights": unbroken.param_groups[0]["params"], "state": unbroken.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = AdamW(saved["weights"], **settings)
    resumed.load_state_dict(saved["state"])
    for number in range(3, 6):
        step(unbroken, number)
        step(resumed, number)
    assert all(map(torch.equal, exact(unbroken), exact(resumed)))
    state = resumed.state_dict()["state"][0]
    assert {name: value.dtype for name, value in state.items()} == {
        "exp_avg": torch.float32,
        "exp_avg_sq": torch.float32,
        "residual": torch.int16,
        "step": torch.float32,
    }


def test_a_weight_without_gradient_stays_and_counts_its_own_steps() -> None:
    still, moving = (Parameter(torch.ones(3, dtype=torch.bfloat16)) for _ in range(2))
    optimizer = AdamW([still, moving], lr=0.1, betas=(0.9, 0.999), weight_decay=0.0)
    moving.grad = torch.ones_like(moving)
    optimizer.step()
    assert torch.equal(still, torch.ones(3, dtype=torch.bfloat16)) and not optimizer.state[still]
    still.grad = torch.ones_like(still)
    optimizer.step()
    assert still[0].item() == pytest.approx(0.9, abs=2**-9) and moving[0].item() == pytest.approx(0.8, abs=2**-9)
