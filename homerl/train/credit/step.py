"""`step`: step-wise credit (HomeFlow 3.4.2 gives a reward at every step).

Step t can only influence rewards from t on. So its signal is G[i][t]; earlier rewards are noise, which `trajectory`
keeps. There are two baselines. `index`, the default, is the mean over the members that reached step t. It compares steps
at the same position, and gives 0 to a step that only one member reached. `state` compares with the value of the state in
which the step was taken, and half trusts the value of the next one (`advantages.py`): a step is judged by what it changed,
and less by what came later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from homerl.envs.core.model import Model
from homerl.train.credit.advantages import EPSILON, PerStep, compute_returns_to_go, compute_state_credit, normalise_values
from homerl.train.credit.contract import CreditMode, Group


class StepKeys(Model):
    """The recipe keys of `credit: step`."""

    baseline: Literal["index", "state"] = Field(
        "index",
        description="Of `credit: step`: a return-to-go is compared with those at the same `index`, or from "
        "the same `state`.",
    )


def compute_step_credit(group: PerStep) -> list[list[float]]:
    """A[i][t] = (G[i][t] - b_t) / (std + ε), with the mean b_t at the index; the deviation is that of all steps."""
    returns = [compute_returns_to_go(rewards) for rewards in group]
    longest = max(map(len, returns))
    means = [np.mean([row[t] for row in returns if len(row) > t]) for t in range(longest)]
    centred = [np.array([value - means[t] for t, value in enumerate(row)]) for row in returns]
    pool = np.concatenate(centred)
    return [normalise_values(row, pool).tolist() for row in centred]


def measure_lone_steps(groups: Sequence[PerStep]) -> dict[str, float]:
    """`alone`: the share of steps that are the only one of their group at their index, so that `index` gives them 0."""
    reached = [Counter(t for rewards in group for t in range(len(rewards))) for group in groups]
    steps = sum(count.total() for count in reached)
    return {"step/alone": sum(times == 1 for count in reached for times in count.values()) / max(1, steps)}


def scale_advantages(credit: PerStep) -> list[list[float]]:
    """Each advantage over (the deviation of all of them + ε). They are centred already, each state by its own value."""
    pool = [value for row in credit for value in row]
    deviation = float(np.std(pool, ddof=1)) if len(pool) > 1 else 0.0
    return [[value / (deviation + EPSILON) for value in row] for row in credit]


class StepCredit(CreditMode[StepKeys]):
    """The credit mode `step`."""

    name, order, keys = "step", 1, StepKeys
    sentence = "Every step gets its return-to-go, compared with those of its group."

    def rule(self, group: Group, settings: StepKeys) -> list[list[float]]:
        """Normalised returns-to-go, or the advantages of states over their deviation."""
        if settings.baseline == "state":
            return scale_advantages(compute_state_credit(group))
        return compute_step_credit([played.rewards for played in group])

    def metrics(self, groups: Sequence[Group], settings: StepKeys) -> Mapping[str, float]:
        """How many steps `baseline: index` cannot compare."""
        return measure_lone_steps([[played.rewards for played in group] for group in groups])


MODE = StepCredit()
