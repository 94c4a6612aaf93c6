"""What a file of `rewards/` defines: a reward whole.

Invariant: nothing outside the file knows the reward by name, but rewards that it switches (`Reward.switches`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_type_hints


def not_negative(settings: Mapping[str, Any]) -> None:
    """The check of settings where a reward has none of its own: no number is below 0."""
    for name, value in settings.items():
        if isinstance(value, (int, float)) and value < 0:
            raise ValueError(f"reward setting '{name}' is {value}; it is at least 0")


@dataclass(frozen=True)
class Setting:
    """A further key of a recipe's `rewards:`."""

    type: Any
    default: Any


@dataclass(frozen=True)
class Reward:
    """A reward.

    `earn` maps the facts of a step to what the step earns at weight 1. Each further argument of it is a setting, with a
    type and a default. `switches` names the arguments that are no settings: each is true while the weight of another
    reward is above 0 (`{"preserve": "collateral"}`). `weight` is the default; `card` is the text in the model card, after
    the name. `check` gets the settings by name and raises `ValueError` for what cannot be used. Rewards stand by `order`,
    then by name, in recipes and in stored trajectories.
    """

    earn: Callable[..., float]
    weight: float
    card: str
    switches: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] = not_negative
    order: int = 100

    @cached_property
    def settings(self) -> Mapping[str, Setting]:
        """Settings by name; `ValueError` for one that lacks a type or a default."""
        hints = get_type_hints(self.earn, include_extras=True)
        _, *arguments = inspect.signature(self.earn).parameters.values()
        own = [argument for argument in arguments if argument.name not in self.switches]
        for argument in own:
            if argument.name not in hints or argument.default is inspect.Parameter.empty:
                raise ValueError(f"the setting '{argument.name}' lacks a type or a default")
        return {argument.name: Setting(hints[argument.name], argument.default) for argument in own}
