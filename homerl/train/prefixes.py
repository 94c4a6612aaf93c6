"""Groups that begin within a dialogue of the world's expert, at a node that a search would have found.

A policy that seldom reaches the end of a long dialogue seldom sees its reward. Begun a few steps before the end, it does;
as the share of such groups fades, it starts from ever farther away. HomeFlow's single-turn ablation (D.1) begins every group
at the last turn of a finished dialogue.

Invariants: all rollouts of a group begin at one and the same state, and the expert's steps are context, never trained on;
where a group begins is a function of the recipe, the seed and the group's number; only prefixes of dialogues that succeed
are taken, so the rest can be solved.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from homerl.play.episode import Episode
from homerl.train.demonstration import demonstration
from homerl.train.recipe import PrefixSettings


@dataclass(frozen=True)
class Prefix:
    """Where one group begins."""

    at: str
    seed: str

    async def __call__(self, opening: Episode) -> Episode:
        """A copy of the opening, played by the expert up to a step; the opening itself if the expert does not succeed."""
        rng = random.Random(self.seed)
        points = (await demonstration(opening, rng.getrandbits(31)))[:-1]
        if self.at == "last":
            turn = max((point.turn for point in points), default=0)
            return next((point for point in points if point.turn == turn), opening)
        return rng.choice(points[1:-1] or [opening])


def prefix_of(settings: PrefixSettings | None, seed: int, number: int, groups: int) -> Prefix | None:
    """Where group `number` (from 0) of a run of `groups` begins; None at the start of the dialogue."""
    if settings is None:
        return None
    share = settings.share * (1 - number / groups if settings.fade else 1.0)
    rng = random.Random(f"prefix {seed} {number}")
    return Prefix(settings.at, f"prefix point {seed} {number}") if rng.random() < share else None
