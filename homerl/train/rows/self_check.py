"""Checks on a model itself that its sequences can share a row, before it is trained: a configuration may not tell.

The first sequences of a run are scored in one row, and each alone as the model always attends. A layer that mixes the
sequences of a row, or an attention that ours does not stand in for, gives other log-probabilities.

Invariant: all ranks forward as many rows of as many sequences, since weights may be in shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from accelerate import Accelerator
from accelerate.utils import gather
from torch.nn import Module

from homerl.envs.core.documents import InputError
from homerl.models.policy.memory_errors import is_out_of_memory
from homerl.train.rows.attention import Kernel
from homerl.train.rows.rows import TokenSequence, make_empty_row, pack_row, score_row
from homerl.train.rows.trees import lexical_order

Packed = Callable[[], AbstractContextManager[None]]
MEMBERS = 2  # sequences that are compared
# mean difference of log-probabilities, in nats. Rounding to bfloat16 gives 0.07 for 36 layers of random weights, which is
# the worst case: that of a trained model is a tenth of it
IN_16_BITS, IN_TF32, IN_FLOAT32 = 0.2, 0.02, 1e-3


@torch.no_grad()
def refuse_mixed_sequences(
    model: Module,
    sequences: Sequence[TokenSequence],
    kernel: Kernel,
    packed: Packed,
    accelerator: Accelerator,
    half: bool,
    in_shards: bool = False,
) -> None:
    """Raise `InputError` if sequences that share a row have other log-probabilities than alone, on any rank.

    Within `packed()` the model attends to packed rows by `kernel`; `half` tells of a 16-bit number format. A rank whose
    memory is too small for so short sequences compares nothing; its update says what to do. Where weights are `in_shards`
    the others wait for it within a layer, so it raises `InputError` then.
    """
    model.eval()
    gap = torch.zeros(1, device=accelerator.device)
    some = choose_neighbours([one for one in sequences if len(one.targets)])
    try:
        with accelerator.autocast():
            gap += _gap(model, some, kernel, packed, accelerator.device)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        if in_shards:
            what = f"out of memory with {MEMBERS} sequences of {max(len(one.ids) for one in some)} tokens at most"
            raise InputError(what, "parallel", "train on more GPUs, or with shorter sequences") from error
    worst = gather(gap).max().item()
    if not worst <= largest_rounding_gap(half, accelerator.device.type):  # nor is it a number where a model gives none
        what = f"a packed row changes the log-probabilities of this model's sequences, by {worst:.2g} nats in the mean"
        raise InputError(what, "model.name", "train a model all of whose layers are attention, and report this one")


def largest_rounding_gap(half: bool, device: str) -> float:
    """The most that rounding may change. A GPU may multiply matrices of float32 as TF32, with the digits of float16."""
    if half:
        return IN_16_BITS
    return IN_TF32 if device == "cuda" and torch.get_float32_matmul_precision() != "highest" else IN_FLOAT32


def _gap(
    model: Module, some: Sequence[TokenSequence], kernel: Kernel, packed: Packed, device: torch.device
) -> torch.Tensor | float:
    """The mean difference of the sequences' log-probabilities in a row and alone; 0 without sequences."""
    rows = [pack_row([one], None, device) for one in some] + [make_empty_row(None, device)] * (MEMBERS - len(some))
    with packed():
        together = score_row(model, pack_row(some, kernel, device) if some else make_empty_row(kernel, device)).logps.float()
    alone = torch.cat([score_row(model, row).logps.float() for row in rows])
    return (together - alone).abs().mean() if len(alone) else 0.0


def choose_neighbours(sequences: Sequence[TokenSequence]) -> list[TokenSequence]:
    """The shortest `MEMBERS` that follow each other in lexical order, so that they share a prompt where any do."""
    ordered = [sequences[i] for i in lexical_order([one.ids for one in sequences])]
    groups = [ordered[start : start + MEMBERS] for start in range(max(1, len(ordered) - MEMBERS + 1))]
    return min(groups, key=lambda group: sum(len(one.ids) for one in group))
