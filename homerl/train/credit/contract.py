"""The contract of a credit mode, which is defined completely in one file, and the modes that there are.

Invariants:
- A mode is discovered by its file (see `homerl.train.credit`). Importing it is cheap, and never imports torch.
- A rule is a pure function of a group and the recipe. It gives one advantage for each step.
  Of tokens it knows numbers alone.
- It is asked only about groups whose returns vary (`credit_group` of `homerl/train/data/rollout_batches.py`).
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import homerl.train.credit
from homerl.envs.core.model import Model
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.envs.core.world import name_example, require_clause

Keys = TypeVar("Keys", bound=Model)


@dataclass(frozen=True)
class CreditInput:
    """What a credit mode needs to know of a rollout.

    `rewards` and `states` (hashes of the states that the agent decided from) have one entry for each step of the policy;
    `states` may be empty if they are not known. `counts` is false if a fault that is not the agent's ended the rollout.
    """

    rewards: Sequence[float]
    counts: bool = True
    states: Sequence[str] = ()


Group = Sequence[CreditInput]
TOLERANCE = 1e-9  # smaller differences of returns, and smaller advantages, are rounding errors of zero


class CreditMode(ABC, Generic[Keys]):
    """One value of `rlve.credit`, defined as `MODE` in a file of its own.

    To override: `name`, `sentence` and `rule`; and, if the mode needs them, `keys`, `order`, `refuse` and `metrics`. Who
    makes the groups owns the rest: rollouts that do not count are left out, and a group whose returns do not vary gets
    zeros.

    Example:
        class LastStep(CreditMode[Model]):
            name, sentence = "last", "Only the last step is credited, with the rollout's return less the group's mean."

            def rule(self, group: Group, settings: Model) -> list[list[float]]:
                returns = [sum(played.rewards) for played in group]
                mean = sum(returns) / len(returns)
                return [
                    [0.0] * (len(played.rewards) - 1) + [value - mean] for played, value in zip(group, returns, strict=True)
                ]

        MODE = LastStep()
    """

    name: str  # the value of `rlve.credit`
    sentence: str  # a description for model cards and docs
    order: int = 100  # listings are sorted by it, ascending
    keys: type[Model] = Model  # a pydantic model of the mode's own keys, each with a default; the recipe's `rlve` has them

    @abstractmethod
    def rule(self, group: Group, settings: Keys) -> list[list[float]]:
        """The advantage of every step.

        Args:
            group: two rollouts or more of one blueprint. All of them count, and their returns vary.
            settings: the recipe's `rlve`, with this mode's `keys`.

        Returns:
            For each rollout one number for each of its rewards. All sampled tokens of a step have the step's advantage.
        """

    def refuse(self, settings: Keys, group: int) -> Iterable[str]:
        """Yield the reasons why this mode cannot be used with the settings, and with groups of so many rollouts."""
        return ()

    def metrics(self, groups: Sequence[Group], settings: Keys) -> Mapping[str, float]:
        """Metrics of an update to log, each named `<mode>/...`. `groups` are those of all ranks."""
        return {}


@cache
def list_credit_modes() -> Mapping[str, CreditMode[Any]]:
    """Every credit mode by name."""
    return sort_plugins(discover(homerl.train.credit, "MODE", CreditMode, ("contract",)))


SAMPLE_GROUPS: tuple[Group, ...] = (
    (CreditInput([1.0]), CreditInput([0.0])),
    (CreditInput([0.5, -0.2, 1.0]), CreditInput([0.0]), CreditInput([0.5, 0.5]), CreditInput([-0.2, 0.0, 0.0, 0.0])),
    (
        CreditInput([1.0, 0.0], states=["a", "b"]),
        CreditInput([0.0, 0.5], states=["a", "c"]),
        CreditInput([0.0], states=["a"]),
    ),
)


def _check_rule(mode: CreditMode[Any], settings: Any, group: Group, what: str) -> None:
    """Check the rule of a mode on a group. Raises `ContractError`."""
    given = copy.deepcopy(group)
    credit, again = (mode.rule(given, settings) for _ in range(2))
    require_clause(given == group, "`rule` changed the group that it was given", group, what)
    require_clause(len(credit) == len(group), f"`rule` gives {len(credit)} rollouts for {len(group)}", group, what)
    for number, (row, played) in enumerate(zip(credit, group, strict=True), 1):
        of = f"`rule` gives {len(row)} advantages for {len(played.rewards)} steps of rollout {number}"
        require_clause(len(row) == len(played.rewards), of, group, what)
    finite = all(isinstance(value, int | float) and math.isfinite(value) for row in credit for value in row)
    require_clause(finite, f"an advantage is no finite number: {credit}", group, what)
    same = [*map(list, credit)] == [*map(list, again)]
    require_clause(same, f"`rule` gives something else the second time: {credit}, then {again}", group, what)


def check_credit_mode(mode: CreditMode[Any], settings: Any) -> None:
    """Check what the trainer needs of a credit mode, on groups of different lengths, with and without states.

    Args:
        mode: The mode.
        settings: A recipe's `rlve`, with the mode's keys.

    Raises:
        ContractError: The mode breaks its contract. The message names the clause and the group.
    """
    require_clause(isinstance(mode.sentence, str) and mode.sentence.strip(), "`sentence` says nothing", mode.sentence)
    mode.keys()  # each key has a default
    refusals = [*mode.refuse(settings, 8)]
    require_clause(all(isinstance(why, str) for why in refusals), "`refuse` yields something that is no text", refusals)
    for number, group in enumerate(SAMPLE_GROUPS, 1):
        what = f"group {number} of {len(SAMPLE_GROUPS)}"
        with name_example(mode.rule, what, group):
            _check_rule(mode, settings, group, what)
    with name_example(mode.metrics, "groups", SAMPLE_GROUPS):
        figures = mode.metrics(SAMPLE_GROUPS, settings)
    named = all(name.startswith(f"{mode.name}/") for name in figures)
    require_clause(named, f"a metric is not named `{mode.name}/...`", [*figures])
