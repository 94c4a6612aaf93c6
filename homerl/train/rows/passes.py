"""Splits the sequences of an update into passes: rows that are forwarded and backwarded one after the other.

Invariants:
- Every sequence is in one pass.
- A pass stays within the budget, unless one sequence alone exceeds it.
- Among such splits it is the cheapest, so a common beginning is seldom forwarded twice.
- The largest pass comes first, so that it is the first one that could run out of memory. A row on a GPU is filled up to a
  multiple of `STEP` besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from homerl.train.rows.trees import Ids, count_shared_places, lexical_order

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
    sizes, shared = _sizes([sequences[i] for i in order])
    own = list(accumulate((size - common for size, common in zip(sizes, shared, strict=True)), initial=0))
    best, begin = [0.0] + [float("inf")] * len(order), [0] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        for start in range(end - 1, -1, -1):
            tokens = own[end] - own[start] + shared[start]
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


def _sizes(ordered: Sequence[Ids]) -> tuple[list[int], list[int]]:
    """The places of each sequence, and how many of them it shares with the one before it."""
    shared = [0, *(count_shared_places(one, other) for one, other in zip(ordered, ordered[1:], strict=False))]
    return [len(ids) - 1 for ids in ordered], shared[: len(ordered)]
