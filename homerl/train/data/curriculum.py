"""Decides which blueprint is played next (`Curriculum`), and how a mixture of worlds shares the groups (`MixtureBalance`).

Invariants of the order:
- It is a function of the recipe, the seed and the results so far. It is the same on every rank.
- A pass visits every blueprint once, in an order of its own. With `by: success` a pass may skip a blueprint; skips are
  counted.
- Every group is drawn with the blueprints that replace it if it has zero variance. So a replacement depends on the group and
  on the state when it was drawn, never on who ended first. What no group needed is put back, and is drawn first.
- Groups that were drawn but not trained on are part of the state. A resumed run plays exactly these again.

A part of a mixture gets more groups if the policy solves it sometimes. With p the running success rate of a part and T the
temperature, a blueprint of the part is played with probability

    ((4 p (1 - p)) / m)^(1/T)

where m is the largest 4 p (1 - p) of all parts. A group of a part that is always or never solved has no signal, and
4 p (1 - p) is the variance of its outcome, scaled to 1. A high T leaves the parts' own weights as they are.

Invariants of the shares: a part whose rate is not known yet is played; no part is ever left out, because 4 p (1 - p) counts
as `LEAST` at least.
"""

from __future__ import annotations

import random
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from homerl.envs.core.documents import InputError
from homerl.play.trajectory import read_rows
from homerl.train.recipe import BlueprintSource, CurriculumSettings

LEAST = 0.1  # of 4 p (1 - p): also what is always or never solved is played now and then
KEPT = 0.8  # weight of the older rate after each update


K = TypeVar("K")


class MixtureBalance:
    """The running success rates of the parts. `part_of` names the part of a blueprint's seed."""

    def __init__(self, part_of: Callable[[int], str], temperature: float) -> None:
        self.part_of, self.temperature = part_of, temperature
        self.rates: dict[str, float] = {}

    def update_success_rates(self, results: Iterable[tuple[int, bool]]) -> None:
        """Update the rates from pairs (blueprint seed, success) of an update's rollouts."""
        for name, now in success_shares((self.part_of(seed), success) for seed, success in results).items():
            self.rates[name] = KEPT * self.rates[name] + (1 - KEPT) * now if name in self.rates else now

    def play_probability(self, seed: int) -> float:
        """The probability that the blueprint of this seed is played, in (0, 1]."""
        name = self.part_of(seed)
        if name not in self.rates:
            return 1.0
        signal = {part: max(LEAST, 4 * rate * (1 - rate)) for part, rate in self.rates.items()}
        most: float = (signal[name] / max(signal.values())) ** (1 / self.temperature)
        return most


def success_shares(results: Iterable[tuple[K, bool]]) -> dict[K, float]:
    """The share of successes by key."""
    by_key: dict[K, list[bool]] = defaultdict(list)
    for key, success in results:
        by_key[key].append(success)
    return {key: sum(successes) / len(successes) for key, successes in by_key.items()}


Place = tuple[int, int]  # a position of the order, and the blueprint seed there


@dataclass(frozen=True)
class GroupDraw:
    """A drawn group: its number in the run (from 0), and the seeds of its blueprint and of those that replace it in turn."""

    number: int
    seeds: tuple[int, ...]


class Curriculum:
    """The order of blueprints: `draw_groups`, `mark_trained` when their training begins, `update_success_rates` from their
    results.
    """

    def __init__(
        self, settings: CurriculumSettings, source: BlueprintSource, seed: int, difficulty: Mapping[int, float] | None = None
    ) -> None:
        self.settings, self.source, self.seed = settings, source, seed
        parts = source.recipe.part_of if settings.temperature else None
        self.balance = MixtureBalance(parts, settings.temperature) if parts and settings.temperature else None
        self.difficulty = difficulty or {}
        self.position = self.skipped = self.count = 0
        self.success_rates: dict[int, tuple[float, int]] = {}
        self.drawn: dict[int, list[Place]] = {}
        self.unfinished: deque[tuple[int, Place]] = deque()
        self.returned: list[Place] = []  # drawn and not needed, ascending
        self.epoch: tuple[int, list[int]] | None = None

    def draw_groups(self, count: int) -> list[GroupDraw]:
        """The next `count` groups. Those that an interrupted run had drawn come first, with their numbers."""
        # numbers decide the seeds of episodes, so a resumed group keeps the number that it had
        again = [self.unfinished.popleft() for _ in range(min(count, len(self.unfinished)))]
        fresh = range(self.count, self.count + count - len(again))
        self.count = fresh.stop
        groups = again + list(zip(fresh, self._take_places(len(fresh)), strict=True))
        # replacements are drawn for all groups at once, a column for each time that a group may be replaced
        columns = [[place for _, place in groups], *(self._take_places(count) for _ in range(self.settings.refill))]
        self.drawn |= {number: [column[i] for column in columns] for i, (number, _) in enumerate(groups)}
        return [GroupDraw(number, tuple(seed for _, seed in self.drawn[number])) for number, _ in groups]

    def mark_trained(self, replaced: Mapping[int, int]) -> None:
        """Note that training on groups has begun, so that a resumed run does not play them again.

        `replaced` has how often each was replaced, by number. Replacements that were not needed are put back.
        """
        for number, times in replaced.items():
            for place in self.drawn.pop(number)[1 + times :]:
                insort(self.returned, place)  # by position, so that what was put back is drawn in the order of the pass

    def _take_places(self, count: int) -> list[Place]:
        """The next `count` places whose blueprints are played; what was put back comes first."""
        places: list[Place] = []
        while len(places) < count:
            if self.returned:
                place = self.returned.pop(0)
            else:
                place = self.position, self._seed_at(self.position)
                self.position += 1
            if self._is_played(*place):
                places.append(place)
            else:
                self.skipped += 1
        return places

    def update_success_rates(self, results: Iterable[tuple[int, bool]]) -> None:
        """Update the running success rates from pairs (blueprint seed, success) of rollouts.

        An older rate counts half after each update, since the policy changes.
        """
        results = list(results)
        if self.balance:
            self.balance.update_success_rates(results)
        for seed, now in success_shares(results).items():
            before, plays = self.success_rates.get(seed, (0.0, 0))
            self.success_rates[seed] = (now if not plays else (before + now) / 2, plays + 1)

    def curriculum_metrics(self) -> dict[str, float]:
        """The number of passes made so far (fractional), and the share of positions that were skipped."""
        share = self.skipped / self.position if self.position else 0.0
        gone = self.position - len(self._unused_places())  # of the places that were drawn, those that were played
        return {"curriculum/passes": gone / self.source.count, "curriculum/passed_over": share}

    def checkpoint_state(self) -> dict[str, Any]:
        """The state as plain data, for `restore_state`."""
        tally = [[seed, *result] for seed, result in self.success_rates.items()]
        unfinished = [*((number, places[0]) for number, places in self.drawn.items()), *self.unfinished]
        return {
            "position": self.position,
            "passed_over": self.skipped,
            "count": self.count,
            "tally": tally,
            "parts": dict(self.balance.rates) if self.balance else {},
            "held": [list(place) for place in self._unused_places()],
            "unfinished": [[number, *place] for number, place in sorted(unfinished)],
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `checkpoint_state` returned."""
        self.position, self.skipped, self.count = state["position"], state["passed_over"], state["count"]
        self.success_rates = {seed: (success, plays) for seed, success, plays in state["tally"]}
        self.returned = [(position, seed) for position, seed in state["held"]]
        if self.balance:
            self.balance.rates = dict(state.get("parts", {}))
        self.drawn, self.unfinished = {}, deque((number, (place, seed)) for number, place, seed in state["unfinished"])

    def _unused_places(self) -> list[Place]:
        """The places that were drawn for replacements, and have not been played."""
        return sorted([*self.returned, *(place for places in self.drawn.values() for place in places[1:])])

    def _is_played(self, position: int, seed: int) -> bool:
        """Whether to play a blueprint. With `by: success` the probability is 4p(1-p), which grows with the variance of the
        outcome.

        A blueprint without a known success rate p is always played, as far as the balance of worlds lets it.
        """
        chance = self.balance.play_probability(seed) if self.balance else 1.0
        if self.settings.by == "success" and seed in self.success_rates:
            success, _ = self.success_rates[seed]
            chance *= max(LEAST, 4 * success * (1 - success))
        # a generator for each position: whether one is skipped does not depend on how many were asked about before
        return chance == 1.0 or random.Random(f"take {self.seed} {position}").random() < chance

    def _seed_at(self, position: int) -> int:
        """The blueprint seed at a position. A pass is shuffled, then sorted from easy to hard where that is known."""
        epoch, place = divmod(position, self.source.count)
        if self.epoch is None or self.epoch[0] != epoch:
            seeds = list(range(self.source.first_seed, self.source.first_seed + self.source.count))
            random.Random(f"blueprints {self.seed} {epoch}").shuffle(seeds)
            self.epoch = epoch, sorted(seeds, key=lambda seed: self.difficulty.get(seed, 0.0))
        return self.epoch[1][place]


def read_difficulties(settings: CurriculumSettings, source: BlueprintSource) -> dict[int, float]:
    """The difficulty of each blueprint seed: 1 - its verified success rate in a synthesis of the same blueprints.

    Where servers failed it is not known, so such a blueprint has the mean of the others. It is empty unless the recipe
    orders by difficulty. Raises `InputError` if the synthesis lacks a blueprint.
    """
    if settings.by != "difficulty":
        return {}
    path = Path(settings.synthesis or "")
    path = path / "blueprints.jsonl" if path.is_dir() else path
    rows: dict[str, float | None] = {}
    for number, row in enumerate(read_rows(path), 1):
        id, difficulty = row.get("id"), row.get("difficulty", -1)
        is_number = isinstance(difficulty, int | float) and not isinstance(difficulty, bool)
        if not (isinstance(id, str) and is_number and 0 <= difficulty <= 1):
            what = "the line is no blueprint with its id and its difficulty from 0 to 1"
            remedy = "name a synthesis (`run: synth`), or its blueprints.jsonl"
            raise InputError(what, f"{path}:{number}", remedy)
        rows[id] = None if row.get("rollouts") == 0 else float(difficulty)  # None if it was never played
    seeds = range(source.first_seed, source.first_seed + source.count)
    by_seed = {seed: rows[f"train-{seed}"] for seed in seeds if f"train-{seed}" in rows}
    if len(by_seed) < source.count:
        raise InputError(
            f"{path} has the difficulty of {len(by_seed)} of the {source.count} blueprints",
            where="rlve.curriculum.synthesis",
            remedy="synthesise the same ones: synth.recipe, synth.first_seed and synth.blueprints as in `blueprints`",
        )
    mean = fmean([known for known in by_seed.values() if known is not None] or [0.5])
    return {seed: mean if known is None else known for seed, known in by_seed.items()}
