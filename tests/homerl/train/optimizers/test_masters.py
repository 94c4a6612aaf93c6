"""Float32 masters as a weight in bfloat16 and a residual: every number comes back, and weights are the nearest ones."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from homerl.train.parallel import adamw as module
from homerl.train.parallel.adamw import split_into_buckets, use_float32_masters


def stored(bits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A weight and its residual after its master was given these bits; and the master that is read from them."""
    weight, residual = torch.zeros(bits.shape, dtype=torch.bfloat16), torch.zeros(bits.shape, dtype=torch.int16)
    with use_float32_masters([weight], [residual]) as (master,):
        master.view(torch.int32).copy_(bits)
    with use_float32_masters([weight], [residual]) as (master,):
        return weight, residual, master.clone()


def nearest(weight: torch.Tensor, master: torch.Tensor) -> bool:
    """Whether no other bfloat16 number is nearer, where the nearest is finite."""
    finite = master.isfinite() & master.bfloat16().isfinite() & weight.isfinite()
    own, best = (rounded.double() - master.double() for rounded in (weight, master.bfloat16()))
    return torch.equal(own[finite].abs(), best[finite].abs())


@given(hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=3), elements=st.integers(-(2**31), 2**31 - 1)))
def test_every_float32_number_comes_back_to_the_bit(drawn: np.ndarray) -> None:
    bits = torch.from_numpy(np.array(drawn))
    weight, _, master = stored(bits)
    assert torch.equal(master.view(torch.int32), bits) and nearest(weight, master)


def test_all_lower_halves_come_back_and_round_to_the_nearest() -> None:
    for upper in (0, 0x3F80, 0x3F81, 0x7F7F, -0x8000, -0x4080):
        bits = torch.arange(1 << 16, dtype=torch.int32) + (upper << 16)
        weight, _, master = stored(bits)
        assert torch.equal(master.view(torch.int32), bits) and nearest(weight, master)


def test_a_residual_of_zeros_is_the_weight_itself() -> None:
    weight = torch.randn(100).bfloat16()
    with use_float32_masters([weight], [torch.zeros(100, dtype=torch.int16)]) as (master,):
        assert torch.equal(master, weight.float())


@given(st.lists(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9), max_size=6), st.integers(1, 50))
def test_buckets_hold_every_element_once_in_order(shapes: list[tuple[int, ...]], limit: int) -> None:
    tensors = [torch.randn(shape) for shape in shapes]
    old, module.BUCKET = module.BUCKET, limit
    try:
        found = list(split_into_buckets((tensor, tensor) for tensor in tensors))
    finally:
        module.BUCKET = old
    pieces = [piece for bucket in found for piece, _ in bucket]
    joined = torch.cat([torch.zeros(0), *(piece.flatten() for piece in pieces)])
    assert torch.equal(joined, torch.cat([torch.zeros(0), *(tensor.flatten() for tensor in tensors)]))
    row = max([1, *(piece[0].numel() for piece in pieces if len(piece) == 1)])
    assert all(sum(piece.numel() for piece, _ in bucket) <= max(limit, row) for bucket in found)
    assert all(piece.data_ptr() == twin.data_ptr() for bucket in found for piece, twin in bucket), "no view"
