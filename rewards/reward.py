"""What a file of `rewards/` defines: one complete reward.

Invariant: nothing outside the file knows the reward by name, except rewards that depend on its weight
(`Reward.switches`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import product
from typing import Any, get_type_hints

from homerl.envs.core.world import ContractError, StepFacts, ToolCall, name_example, require_clause


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


_CODE = "device('1').turn_on()"
SAMPLE_FACTS = (  # steps of every kind, as an episode may have them
    StepFacts(1, 0.0, 0.0),
    StepFacts(1, 0.0, 0.5, changed=("1.state",), calls=(ToolCall("turn_on", {"did": "1"}),), met=(0,), closes=False),
    StepFacts(2, 0.5, 0.5, blocked=("unknown_device",), calls=(ToolCall("turn_on", {"did": "x"}),) * 9, closes=False),
    StepFacts(4, 0.5, 0.0, code=_CODE, code_tokens=2000, error="it failed", changed=("2.state",), side_effects_after=3),
    StepFacts(5, 0.5, 1.0, last=True, opens_turn=False, met=(0, 1), intent=1),
    StepFacts(5, 0.0, 0.0, last=True, closing_flaw="false claim", side_effects_before=2, side_effects_after=1),
)


def check_reward(reward: Reward) -> None:
    """Check what recipes and stored trajectories need of a reward, on steps of every kind.

    Raises:
        ContractError: The reward breaks its contract. The message names the clause and the step.
    """
    require_clause(reward.weight >= 0 and math.isfinite(reward.weight), "the weight is below 0", reward.weight)
    require_clause(isinstance(reward.card, str) and reward.card.strip(), "`card` says nothing", reward.card)
    try:
        settings = {name: setting.default for name, setting in reward.recipe_settings.items()}
        reward.check(settings)
    except ValueError as error:
        raise ContractError(f"the settings cannot be used: {error}") from error
    for (number, facts), on in product(enumerate(SAMPLE_FACTS, 1), (False, True)):
        given = settings | dict.fromkeys(reward.switches, on)
        what, example = f"step {number} of {len(SAMPLE_FACTS)}", _SampleCall(facts, given)
        with name_example(reward.earn, what, example):
            earned, again = (reward.earn(facts, **given) for _ in range(2))
            finite = isinstance(earned, int | float) and math.isfinite(earned)
            require_clause(finite, f"it earns {earned!r}, which is no finite number", example, what)
            differs = f"the same step earns {earned!r}, and {again!r} the second time"
            require_clause(earned == again, differs, example, what)


@dataclass(frozen=True)
class _SampleCall:
    """What a reward was given, of which a message shows what differs from the defaults."""

    facts: StepFacts
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        first = StepFacts(0, 0.0, 0.0)
        said = {one.name: getattr(self.facts, one.name) for one in fields(self.facts)}
        told = {name: value for name, value in said.items() if name == "turn" or value != getattr(first, name)}
        return ", ".join(f"{name}={value!r}" for name, value in {**told, **self.settings}.items())
