"""Which dialogues SFT learns in each update, and in which process.

Invariants: an epoch has every dialogue once, so its last update may be smaller; the order follows from seed and epoch alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeVar

from torch.utils.data import Sampler

T = TypeVar("T")
ALIKE = 0.5  # share of a prompt that another begins with, if both are of one home


@dataclass(frozen=True)
class RankBatches:
    """The dialogues of each process in each update: shuffled, or as in the dataset (`in_order`).

    `dialogues` is their number in one update. With `homes`, the home of each dialogue, up to `together` of one home are
    learnt by one process in one update.
    """

    lengths: Sequence[int]
    dialogues: int
    processes: int
    seed: int
    in_order: bool
    homes: Sequence[Hashable] = ()
    together: int = 1

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return -(-len(self.lengths) // self.dialogues)

    def epoch_batches(self, epoch: int) -> Iterator[list[list[int]]]:
        """Each update's dialogues, by process."""
        order, rng = list(range(len(self.lengths))), random.Random(f"dialogues {self.seed} {epoch}")
        if not self.in_order:
            rng.shuffle(order)
        home = self.homes.__getitem__ if self.together > 1 else lambda dialogue: dialogue
        if self.together > 1:
            order = gather_by_home(order, home, self.together, rng)
        for start in range(0, len(order), self.dialogues):
            parts = [list(part) for _, part in groupby(order[start : start + self.dialogues], home)]
            yield balance_over_ranks(parts, self.lengths, self.processes)


class RankBatchSampler(Sampler[list[int]]):
    """The dialogues that a rank learns in each update of the epoch that `updates_done()` has got to."""

    def __init__(self, rank_batches: RankBatches, rank: int, updates_done: Callable[[], int]) -> None:
        self.rank_batches, self.rank, self.updates_done = rank_batches, rank, updates_done

    def __len__(self) -> int:
        return len(self.rank_batches)

    def __iter__(self) -> Iterator[list[int]]:
        for update in self.rank_batches.epoch_batches(self.updates_done() // len(self.rank_batches)):
            yield update[self.rank]


def gather_by_home(order: Iterable[int], home: Callable[[int], Hashable], together: int, rng: random.Random) -> list[int]:
    """The order with up to `together` dialogues of a home one after the other, and such parts in random order."""
    by_home: dict[Hashable, list[int]] = {}
    for dialogue in order:
        by_home.setdefault(home(dialogue), []).append(dialogue)
    parts = [
        part for members in by_home.values() for part in split_into_runs(members, even_part_size(len(members), together))
    ]
    rng.shuffle(parts)
    return [*chain.from_iterable(parts)]


def split_into_runs(members: Sequence[T], most: int) -> list[Sequence[T]]:
    """The members in runs of at most so many."""
    return [members[start : start + most] for start in range(0, len(members), most)]


def even_part_size(count: int, most: int) -> int:
    """The size of as few parts as `most` allows, if all but the last are as large: 7 for 13 of at most 8."""
    return -(-count // -(-count // most))


def number_homes(prompts: Sequence[str]) -> list[int]:
    """A number for each prompt, the same for those of one home: two neighbours in lexical order whose common beginning is
    half of the longer one.
    """
    numbers, before, number = [0] * len(prompts), "", 0
    for at in sorted(range(len(prompts)), key=prompts.__getitem__):
        half = math.ceil(ALIKE * max(len(before), len(prompts[at])))
        number += before[:half] != prompts[at][:half]
        numbers[at], before = number, prompts[at]
    return numbers


def balance_over_ranks(parts: Iterable[Sequence[int]], lengths: Sequence[int], processes: int) -> list[list[int]]:
    """The dialogues by process, with each part in one: each gets about as many parts, with about as many tokens."""
    batches: list[list[int]] = [[] for _ in range(processes)]
    tokens = [0] * processes
    longest_first = sorted(parts, key=lambda part: (-sum(lengths[i] for i in part), part))
    for round_ in split_into_runs(longest_first, processes):
        for batch, part in zip(sorted(range(processes), key=tokens.__getitem__), round_, strict=False):
            batches[batch] += part
            tokens[batch] += sum(lengths[i] for i in part)
    return batches
