"""What a file of `rewards/` defines: one complete reward.

Invariant: nothing outside the file knows the reward by name, except rewards that depend on its weight
(`Reward.switches`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_type_hints


def refuse_negative_settings(settings: Mapping[str, Any]) -> None:
    """The default check of settings: raises `ValueError` for a number below 0."""
    for name, value in settings.items():
        if isinstance(value, (int, float)) and value < 0:
            raise ValueError(f"reward setting '{name}' is {value}; it is at least 0")


@dataclass(frozen=True)
class RewardSetting:
    """A further key in a recipe's `rewards:`, with its type and default."""

    type: Any
    default: Any


@dataclass(frozen=True)
class Reward:
    """A reward. A file of `rewards/` defines one as `REWARD`, and the file's name is the reward's name.

    Attributes:
        earn: Maps the facts of a step to its reward at weight 1. Each further argument is a setting, with a type and a
            default, which recipes can set.
        weight: The default weight.
        card: The text after the name in the model card.
        switches: Arguments of `earn` that are not settings: each is true while the weight of another reward is above 0, as
            in `{"preserve": "collateral"}`.
        check: Gets the settings by name. It raises `ValueError` if they cannot be used.
        older: Values of settings that are younger than the reward: those by which it was computed before it had them.
            Trajectories that do not store a setting are verified with them.
        facts: Facts that the reward alone needs, and that are as young as it. Where it has a weight, a file holds them or
            they have their default, and a replay compares them.
        order: Recipes and stored trajectories list rewards by `order`, then by name.

    Example:
        def brevity(facts: StepFacts, max_calls: int = 2) -> float:
            return -float(len(facts.calls) > max_calls)

        REWARD = Reward(brevity, weight=0.1, card="lost for a step with too many calls")
    """

    earn: Callable[..., float]
    weight: float
    card: str
    switches: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] = refuse_negative_settings
    order: int = 100
    older: Mapping[str, Any] = field(default_factory=dict)
    facts: tuple[str, ...] = ()

    @cached_property
    def recipe_settings(self) -> Mapping[str, RewardSetting]:
        """The settings of `earn`.

        Returns:
            The settings by name, in the order of the arguments.

        Raises:
            ValueError: A setting has no type or no default, or `older` names one that there is not.
        """
        hints = get_type_hints(self.earn, include_extras=True)
        _, *arguments = inspect.signature(self.earn).parameters.values()
        own = [argument for argument in arguments if argument.name not in self.switches]
        for argument in own:
            if argument.name not in hints or argument.default is inspect.Parameter.empty:
                raise ValueError(f"the setting '{argument.name}' lacks a type or a default")
        if unknown := self.older.keys() - {argument.name for argument in own}:
            raise ValueError(f"there is no setting '{min(unknown)}', which `older` names")
        return {argument.name: RewardSetting(hints[argument.name], argument.default) for argument in own}
