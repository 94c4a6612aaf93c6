"""Merges sequences of token ids that begin alike: a common beginning is stored once.

Place t of a sequence is the input of token t, from which token t+1 is predicted. Two sequences share place t if their
first t+2 tokens are equal: then input and prediction are the same for both. So each place predicts one token. The last
token of a sequence is no input, since nothing follows it.

Example: `a b c d` and `a b x y` share the place of `a`, which predicts `b`. Then `b c` and `b x` begin a branch each.

Invariants: a tree has no padding; a segment follows its parent; the order of the sequences does not change the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from homerl.train.tensor_shapes import Ids, Indices

Branch = tuple[list[int], int, int]  # sequences, the place at which they part from others, and the segment before it


@dataclass(frozen=True)
class RowSegment:
    """Places `start` to `end` of the row, which no sequence enters or leaves in between. `parent` is -1 at a root."""

    start: int
    end: int
    parent: int


@dataclass(frozen=True)
class PrefixTree:
    """A row of T places: token ids and positions, of shape (T,), and the segments that they form.

    `places[i][t]` is the place in the row of token t of sequence i, from which its token t+1 is predicted.
    """

    ids: Ids
    positions: Indices
    segments: tuple[RowSegment, ...]
    places: tuple[Indices, ...]

    def segment_paths(self) -> list[list[int]]:
        """The segments that each segment continues, from the root on, with itself last."""
        paths: list[list[int]] = []
        for number, segment in enumerate(self.segments):
            paths.append([*(paths[segment.parent] if segment.parent >= 0 else []), number])
        return paths


def lexical_order(sequences: Sequence[Ids]) -> list[int]:
    """The indices of the sequences in lexical order, so that neighbours share the most."""
    return sorted(range(len(sequences)), key=lambda i: sequences[i].tolist())


def count_shared_places(first: Ids, second: Ids) -> int:
    """The number of places that two sequences share."""
    length = min(len(first), len(second))
    differs = np.flatnonzero(first[:length] != second[:length])
    # k equal tokens are k - 1 places, since a place needs the token that it predicts too
    return max(0, (int(differs[0]) if len(differs) else length) - 1)


def merge_sequences(sequences: Sequence[Ids], step: int = 1) -> PrefixTree:
    """The tree of the sequences, with a segment of zeros after it, up to a multiple of `step` places.

    Each sequence has two tokens at least.
    """
    order = lexical_order(sequences)
    segments: list[RowSegment] = []
    ids: list[np.ndarray] = []
    positions: list[np.ndarray] = []
    places: list[list[np.ndarray]] = [[] for _ in sequences]
    open_branches = _split_branches(order, sequences, 0, -1)
    while open_branches:
        # a segment reaches as far as its first and last member agree: those between do in lexical order
        members, depth, parent = open_branches.pop()
        first, last = sequences[members[0]], sequences[members[-1]]
        end = count_shared_places(first, last)
        start = segments[-1].end if segments else 0
        segments.append(RowSegment(start, start + end - depth, parent))
        ids.append(first[depth:end])
        positions.append(np.arange(depth, end))
        for i in members:
            places[i].append(np.arange(start, segments[-1].end))
        # members that end here have all their places; the others part from each other at `end`
        longer = [i for i in members if len(sequences[i]) - 1 > end]
        open_branches += _split_branches(longer, sequences, end, len(segments) - 1)
    size = segments[-1].end  # zeros are a root of their own, so that no sequence sees them
    if missing := -size % step:
        segments.append(RowSegment(size, size + missing, -1))
        ids.append(np.zeros(missing, dtype=np.int64))
        positions.append(np.zeros(missing, dtype=np.int64))
    return PrefixTree(
        np.concatenate(ids), np.concatenate(positions), tuple(segments), tuple(np.concatenate(parts) for parts in places)
    )


def _split_branches(members: Sequence[int], sequences: Sequence[Ids], depth: int, parent: int) -> list[Branch]:
    """The groups of members that share place `depth`, in reverse order, since the last one is taken first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i in members:
        groups.setdefault((int(sequences[i][depth]), int(sequences[i][depth + 1])), []).append(i)
    return [(group, depth, parent) for group in reversed(groups.values())]
