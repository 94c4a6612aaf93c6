"""Rows of tokens for the model, and the scores that it gives to their targets.

Invariants: a score belongs to one target of one sequence, in the order in which both were given; only targets go through
the model's head; no complete logits exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import Module

from homerl.train.packing.attention import Device, Kernel, copy_to_device, make_attention_segments
from homerl.train.packing.micro_batches import PrefixTree, RowSegment, merge_sequences
from homerl.train.tensor_shapes import Ids, Indices, TargetValues

IGNORE_INDEX = -100  # the label of a place without a target


@dataclass(frozen=True)
class TokenSequence:
    """Token ids, and the indices (1 or more, ascending) of those that are predicted with a loss: its targets."""

    ids: Ids
    targets: Indices

    @classmethod
    def from_ids(cls, ids: Sequence[int], targets: Indices) -> TokenSequence:
        """One whose ids come as a list."""
        return cls(np.asarray(ids, dtype=np.int64), targets)


@dataclass(frozen=True)
class PackedRow:
    """What the model is called with, and the places in the row of all targets (int64, of shape (targets,))."""

    inputs: dict[str, Any]
    at: torch.Tensor

    @property
    def token_count(self) -> int:
        """The number of tokens that are forwarded."""
        return int(self.inputs["input_ids"].shape[1])


@dataclass(frozen=True)
class TargetScores:
    """For each target: its log-probability, the entropy of the prediction, and whether the target was the most probable
    token (None if it is not measured).
    """

    logps: TargetValues
    entropy: TargetValues | None
    top: TargetValues | None


def pack_row(
    sequences: Sequence[TokenSequence], kernel: Kernel | None, device: Device, step: int = 1, recomputed: bool = False
) -> PackedRow:
    """The row of some sequences, merged where they begin alike. Its length is a multiple of `step`.

    Without a `kernel` it is the row of a single sequence, to which the model attends as it always does. `recomputed` tells
    whether the pass is made with checkpointing.
    """
    tree = pad_prefix_tree(merge_sequences([sequence.ids for sequence in sequences]), step)
    labels = np.full(len(tree.ids), IGNORE_INDEX, dtype=np.int64)
    at = []
    for sequence, places in zip(sequences, tree.places, strict=True):
        place = places[sequence.targets - 1]
        labels[place] = sequence.ids[sequence.targets]
        at.append(place)

    inputs: dict[str, Any] = {
        "input_ids": copy_to_device(tree.ids, device)[None],
        "position_ids": copy_to_device(tree.positions, device)[None],
        "shift_labels": copy_to_device(labels, device)[None],
        "fused_lm_head": True,
    }
    if kernel is not None:
        inputs |= {"segments": make_attention_segments(tree, device, recomputed), "kernel": kernel}
        # transformers makes no mask of its own if it is given one of 4 dimensions
        inputs["attention_mask"] = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    return PackedRow(inputs, copy_to_device(np.concatenate(at), device))


def make_empty_row(kernel: Kernel | None, device: Device, recomputed: bool = False) -> PackedRow:
    """A row without targets, for a rank that has nothing left to forward while others do.

    It has two tokens: a row of one would be compiled anew.
    """
    return pack_row([TokenSequence.from_ids((0, 0, 0), np.zeros(0, dtype=np.int64))], kernel, device, recomputed=recomputed)


def pad_prefix_tree(tree: PrefixTree, step: int) -> PrefixTree:
    """The tree with a segment of zeros after it, up to a multiple of `step` tokens."""
    size = len(tree.ids)
    missing = -size % step
    if not missing:
        return tree
    zeros = np.zeros(missing, dtype=np.int64)
    return replace(
        tree,
        ids=np.concatenate([tree.ids, zeros]),
        positions=np.concatenate([tree.positions, zeros]),
        segments=(*tree.segments, RowSegment(size, size + missing, -1)),
    )


def score_row(model: Module, row: PackedRow) -> TargetScores:
    """Forward a row. The model has TRL's fused head."""
    output = model(**row.inputs)
    pick = partial(torch.index_select, dim=1, index=row.at)
    logps, entropy, top = (
        None if part is None else pick(part)[0] for part in (output.log_probs, output.entropy, output.is_top1)
    )
    return TargetScores(logps, entropy, top)
