"""`step`: step-wise credit (HomeFlow 3.4.2 gives a reward at every step).

Step t can only influence rewards from t on. So its signal is G[i][t]; earlier rewards are noise, which `trajectory`
keeps. There are two baselines. `pooled` is the mean over all steps of the group, so a step that only one member reached
still has a signal. `index` is the mean over the members that reached step t. It compares steps at the same position, and
gives 0 to a step that only one member reached.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from envs.model import Model
from homerl.train.credit.common import Steps, normalised, returns_to_go
from homerl.train.credit.contract import CreditMode, Group


class StepKeys(Model):
    """The recipe keys of `credit: step`."""

    baseline: Literal["pooled", "index"] = Field(
        "pooled",
        description="Of `credit: step`: what a return-to-go is compared with, all steps of the group (`pooled`) or those at "
        "the same index (`index`).",
    )


def step_credit(group: Steps, gamma: float = 1.0, baseline: str = "pooled") -> list[list[float]]:
    """A[i][t] = (G[i][t] - b_t) / (std + ε), where the deviation is that of all steps of the group."""
    returns = [returns_to_go(rewards, gamma) for rewards in group]
    pool = np.array([value for row in returns for value in row])
    if baseline == "pooled":
        return [normalised(np.array(row), pool).tolist() for row in returns]
    longest = max(map(len, returns))
    means = [np.mean([row[t] for row in returns if len(row) > t]) for t in range(longest)]
    centred = [np.array([value - means[t] for t, value in enumerate(row)]) for row in returns]
    pool = np.concatenate(centred)
    return [normalised(row, pool).tolist() for row in centred]


class StepCredit(CreditMode):
    """The credit mode `step`."""

    name, order, keys = "step", 1, StepKeys
    sentence = "Every step gets its return-to-go, normalised over the steps of its group."

    def rule(self, group: Group, settings: Any) -> list[list[float]]:
        """Normalised returns-to-go."""
        return step_credit([played.rewards for played in group], settings.gamma, settings.baseline)


MODE = StepCredit()
