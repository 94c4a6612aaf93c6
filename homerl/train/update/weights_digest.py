"""A digest of a model's weights. It tells rollouts that these weights have played from those of other weights."""

from __future__ import annotations

import hashlib
import json

import torch
from torch import Tensor
from torch.nn import Module

from homerl.train.parallel.sharding import gather_whole_weights

AT_ONCE = 1 << 24  # numbers that are widened at a time


@torch.no_grad()
def digest_weights(policy: Module) -> str:
    """The digest of a model's weights, whole or in shards. Equal weights have equal ones. All processes call it together.

    The weights stay where they are: of each, the sums of its numbers and of their squares are taken, as integers.
    """
    sums = [(list(weight.shape), str(weight.dtype), *_sum_bits(weight)) for _, weight in gather_whole_weights(policy)]
    return hashlib.sha256(json.dumps(sorted(sums)).encode()).hexdigest()[:16]  # without names, which wrappers change


def _sum_bits(weight: Tensor) -> list[int]:
    """The sum of a weight's numbers as integers, and that of their squares, both modulo 2**64."""
    sums = torch.zeros(2, dtype=torch.int64, device=weight.device)
    for part in weight.reshape(-1).view(getattr(torch, f"int{8 * weight.element_size()}")).split(AT_ONCE):
        wide = part.to(torch.int64)
        sums += torch.stack([wide.sum(), (wide * wide).sum()])
    found: list[int] = sums.tolist()
    return found
