"""What an intent family is asked for, and what it hands over: actions and factors, before they are put into words."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from envs.homeenv.home import Home
from homerl.blueprints.actions import Action
from homerl.blueprints.blueprint import Factors, Wording


@dataclass(frozen=True)
class Ask:
    """How to word an intent, the devices that it may not touch, and how many it names if it names several."""

    wording: Wording
    taken: frozenset[str] = frozenset()
    devices: tuple[int, int] = (2, 3)


@dataclass(frozen=True)
class Draft:
    """One intent before verbalisation."""

    family: str
    subcategory: str
    actions: tuple[Action, ...]
    factors: Factors


Family = Callable[[Home, random.Random, Ask], Draft | None]
