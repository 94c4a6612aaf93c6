"""From the sequences of an update to passes (micro-batches) within the memory's budget. It has three parts.

1. `merge_sequences` merges sequences of token ids that begin alike: a common beginning is stored once.

Place t of a sequence is the input of token t, from which token t+1 is predicted. Two sequences share place t if their
first t+2 tokens are equal: then input and prediction are the same for both. So each place predicts one token. The last
token of a sequence is no input, since nothing follows it.

Example: `a b c d` and `a b x y` share the place of `a`, which predicts `b`. Then `b c` and `b x` begin a branch each.

Invariants: a tree has no padding; a segment follows its parent; the order of the sequences does not change the tree.

2. `split_into_passes` splits the sequences into passes: rows that are forwarded and backwarded one after the other.

Invariants:
- Every sequence is in one pass.
- A pass stays within the budget, unless one sequence alone exceeds it.
- Among such splits it is the cheapest, so a common beginning is seldom forwarded twice.
- The largest pass comes first, so that it is the first one that could run out of memory. A row on a GPU is filled up to a
  multiple of `STEP` besides.

3. `MemoryHeadroom` makes the budget of a pass from the memory that weights, gradients, the optimizer and the engine leave.

On a GPU the first passes of a run are smaller (`cautious_budget`); what they took makes the budget (`MemoryProfiler`).

Invariants: a number in the recipe wins over estimates and measurements, but not in passes without gradients, which keep no
activations; with `gradient_checkpointing: auto` a pass keeps its activations if they fit, and computes them again otherwise.
No part imports torch, since recipes are checked with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from homerl.train.model_settings import AUTO
from homerl.train.optim_settings import OptimSettings
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
    return max(0, (int(differs[0]) if len(differs) else length) - 1)


def merge_sequences(sequences: Sequence[Ids]) -> PrefixTree:
    """The tree of the sequences. Each has two tokens at least."""
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
        longer = [i for i in members if len(sequences[i]) - 1 > end]
        open_branches += _split_branches(longer, sequences, end, len(segments) - 1)
    return PrefixTree(
        np.concatenate(ids), np.concatenate(positions), tuple(segments), tuple(np.concatenate(parts) for parts in places)
    )


def _split_branches(members: Sequence[int], sequences: Sequence[Ids], depth: int, parent: int) -> list[Branch]:
    """The groups of members that share place `depth`, in reverse order, since the last one is taken first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i in members:
        groups.setdefault((int(sequences[i][depth]), int(sequences[i][depth + 1])), []).append(i)
    return [(group, depth, parent) for group in reversed(groups.values())]


RECOMPUTED = 0.33  # share of a pass's time that checkpointing adds: its forward pass is made twice
STEP = 128  # a budget, and on a GPU the length of a row, is a multiple of it: the allocator meets few sizes
START = 64  # tokens that cost as much time as beginning a pass


@dataclass(frozen=True)
class TokenBudget:
    """The most tokens of a pass: `plain` with all activations kept, `most` with checkpointing, if that is `allowed`.

    `scored` are those of a pass without gradients, if these are more than `most`.
    """

    plain: int
    most: int
    allowed: bool = True
    scored: int = 0

    def __str__(self) -> str:
        scored = f"; {self.scored} without gradients" if self.scored > self.most else ""
        if self.plain == self.most:
            return f"{self.most}, with all activations kept{scored}"
        kept = f"{self.plain} with all activations kept, " if self.plain else ""
        return f"{kept}{self.most} with checkpointing{scored}"

    def halved_budget(self, scoring: bool = False) -> TokenBudget:
        """Half of it, after a pass ran out of memory; of its passes without gradients alone, if `scoring` did."""
        if scoring and self.scored > self.most:
            return replace(self, scored=self.scored // 2)
        return replace(self, plain=self.plain // 2, most=max(1, self.most // 2), scored=self.scored // 2)

    def without_gradients(self) -> TokenBudget:
        """The budget of passes that keep no activations."""
        return TokenBudget(max(self.most, self.scored), max(self.most, self.scored))

    def needs_checkpointing(self, tokens: int) -> bool:
        """Whether a pass of so many tokens must compute its activations again."""
        return self.allowed and tokens > self.plain

    def pass_cost(self, tokens: int) -> float:
        """The time of a pass, in tokens."""
        return START + tokens * (1 + RECOMPUTED * self.needs_checkpointing(tokens))


@dataclass(frozen=True)
class PassSplit:
    """The passes as lists of indices of the sequences, the tokens of each, and the places of all sequences if each is
    counted once.
    """

    passes: list[list[int]]
    tokens: list[int]
    unique: int


def split_into_passes(sequences: Sequence[Ids], budget: TokenBudget) -> PassSplit:
    """The passes of an update; none without sequences."""
    order = lexical_order(sequences)
    ordered = [sequences[i] for i in order]
    sizes = [len(ids) - 1 for ids in ordered]  # places of each sequence, and below those that it shares with the one before
    shared = [0, *(count_shared_places(first, second) for first, second in pairwise(ordered))][: len(order)]
    own = list(accumulate((size - common for size, common in zip(sizes, shared, strict=True)), initial=0))
    # by dynamic programming: the least cost of the first `end` sequences, and where the last pass of these begins
    best, begin = [0.0] + [float("inf")] * len(order), [0] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        for start in range(end - 1, -1, -1):
            # what the first sequence of a pass shares with the one before it is forwarded again
            tokens = own[end] - own[start] + shared[start]
            # an earlier start only adds own tokens, so none further back fits either
            if own[end] - own[start] > budget.most and start < end - 1:
                break
            if tokens > budget.most and start < end - 1:
                continue
            cost = best[start] + budget.pass_cost(tokens)
            if cost < best[end]:
                best[end], begin[end] = cost, start
    passes, end = [], len(order)
    while end:
        start = begin[end]
        passes.append((own[end] - own[start] + shared[start], order[start:end]))
        end = start
    passes.sort(key=lambda one: -one[0])
    return PassSplit([members for _, members in passes], [tokens for tokens, _ in passes], own[-1])


def one_pass_each(sequences: Sequence[Ids]) -> PassSplit:
    """A pass for each sequence, for a model whose sequences cannot share a row."""
    sizes = [len(ids) - 1 for ids in sequences]
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return PassSplit([[i] for i in order], [sizes[i] for i in order], sum(sizes))


LARGEST, LARGEST_ON_CPU = 32_768, 4096  # tokens; a larger pass is no faster, or leaves the processor's caches
SCORED = 65_536  # the same without gradients, on a GPU: fewer passes share more beginnings
SPARE = 0.9  # share of the free memory that is used, since some is lost between blocks


@dataclass(frozen=True)
class TokenBytes:
    """Bytes of the activations of one token: what the forward pass keeps if it keeps all (`kept`), or the input of each
    layer and one complete layer (`recomputed`); and what the largest `layer` keeps.

    While a layer's backward pass runs, its gradients take as much again as the layer kept, at the most.
    """

    kept: float
    recomputed: float
    layer: float = 0.0

    @property
    def plain_peak(self) -> float:
        """The most bytes at a time, if all activations are kept."""
        return self.kept + self.layer

    @property
    def checkpointed_peak(self) -> float:
        """The most bytes at a time with checkpointing."""
        return self.recomputed + self.layer

    @property
    def scoring_peak(self) -> float:
        """The most bytes at a time without gradients: no more than a layer keeps with them."""
        return self.layer or self.recomputed

    def multiplied_by(self, factor: float) -> TokenBytes:
        """So many times these bytes."""
        return TokenBytes(self.kept * factor, self.recomputed * factor, self.layer * factor)


@dataclass(frozen=True)
class MemoryHeadroom:
    """What a budget is made from: the recipe's settings, a token's bytes, the free bytes, and whether it is for a CPU."""

    settings: OptimSettings
    token: TokenBytes
    free: float
    cpu: bool

    def make_budget(self) -> TokenBudget:
        """The budget of a pass."""
        asked, checkpointing = self.settings.tokens_per_step, self.settings.gradient_checkpointing
        largest = LARGEST_ON_CPU if self.cpu else LARGEST
        plain, most = (
            max(STEP, min(largest, int(SPARE * self.free / each) // STEP * STEP))
            for each in (self.token.plain_peak, self.token.checkpointed_peak)
        )
        scored = 0 if self.cpu else max(STEP, min(SCORED, int(SPARE * self.free / self.token.scoring_peak) // STEP * STEP))
        if asked != AUTO:
            plain, most = (asked if checkpointing is False else min(plain, asked)), asked
        if checkpointing == AUTO:
            return TokenBudget(plain, max(plain, most), scored=scored)
        return (
            TokenBudget(0, most, scored=scored) if checkpointing else TokenBudget(plain, plain, allowed=False, scored=scored)
        )

    @property
    def needs_measurement(self) -> bool:
        """Whether the budget is to follow from a measured pass."""
        return not self.cpu and self.settings.tokens_per_step == AUTO

    def cautious_budget(self) -> TokenBudget:
        """The budget before a pass was measured: half of what the estimate allows."""
        return self.make_budget().halved_budget()

    def expected_bytes(self, tokens: int, recomputed: bool) -> float:
        """The bytes that a pass of so many tokens is expected to take."""
        return tokens * (self.token.checkpointed_peak if recomputed else self.token.plain_peak)
