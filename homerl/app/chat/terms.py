"""With whom a person talks, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from homerl.play.episode import EpisodeLimits
from homerl.play.loop import Agent

GUEST = {"prompt": "full"}  # the recipe of a model of which nothing is known: it is told what its tools are for


@dataclass(frozen=True)
class ChatPartner:
    """The agent. `agent` makes one for a sentence; with equal seeds it answers alike."""

    name: str
    agent: Callable[[int], Agent]


@dataclass(frozen=True)
class ChatTerms:
    """The home's recipe, how replies are sampled, and what the agent knows from training.

    `recipes` are recipes of blueprints, as plain data, by the name of a mixture's part; a run has at least one. `steps` is
    the most messages of the agent for a sentence, and `turns` the number of turns that it reads.
    """

    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": GUEST})
    temperature: float = 0.0
    max_tokens: int = 512
    steps: int = EpisodeLimits().steps_per_turn
    turns: int = EpisodeLimits().turns or 1
