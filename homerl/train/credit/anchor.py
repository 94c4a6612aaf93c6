"""`anchor`: GiGPO (Feng et al. 2025) with exact states instead of equal texts.

The advantage of an action is Q(s, a) - V(s). Several steps of a group may be taken from one decision state s: the same
goals met, the same state of the devices that open wishes concern, and the same speaker before it. Their returns-to-go are
samples of Q(s, a) for the actions taken, and the mean of these estimates V(s). So (G - mean G) / (std G + ε) over these
steps is an advantage at this decision. A state from which only one step was taken (a singleton) gives 0. The advantage of
the trajectory is added, so that such steps learn too:

    A[i][t] = A_trajectory[i] + A_state[i][t]

Unlike equal observations, equal states never mix different homes. The metrics `coverage` and `singletons` tell how often
states recur in a group. If none recurs, this mode equals `trajectory`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from homerl.envs.core.model import Model
from homerl.train.credit.contract import CreditMode, Group
from homerl.train.credit.step import PerStep, compute_returns_to_go, normalise_values
from homerl.train.credit.trajectory import compute_trajectory_credit

States = Sequence[Sequence[str]]


def compute_anchor_credit(group: PerStep, states: States) -> list[list[float]]:
    """Advantages by rollout and step. `states[i][t]` names the state of step t of rollout i."""
    credit = compute_trajectory_credit(group)
    returns = [compute_returns_to_go(rewards) for rewards in group]
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, row in enumerate(states):
        for t, state in enumerate(row):
            places[state].append((i, t))
    for same in places.values():
        values = np.array([returns[i][t] for i, t in same])
        for (i, t), value in zip(same, normalise_values(values, values), strict=True):
            credit[i][t] += float(value)
    return credit


def measure_state_recurrence(groups: Sequence[States]) -> dict[str, float]:
    """`coverage`: the share of steps whose state recurs. `singletons`: the share of states that occur once."""
    counts = [Counter(state for row in group for state in row) for group in groups]
    steps = sum(count.total() for count in counts)
    states = sum(map(len, counts))
    alone = sum(times == 1 for count in counts for times in count.values())
    return {"anchor/coverage": 1 - alone / steps if steps else 0.0, "anchor/singletons": alone / states if states else 0.0}


class AnchorCredit(CreditMode[Model]):
    """The credit mode `anchor`."""

    name, order = "anchor", 2
    sentence = (
        "Every step gets its rollout's normalised return, plus its return-to-go against steps of the same state (GiGPO)."
    )

    def rule(self, group: Group, settings: Model) -> list[list[float]]:
        """Advantages of the trajectory plus those of the state."""
        return compute_anchor_credit([played.rewards for played in group], [played.states for played in group])

    def metrics(self, groups: Sequence[Group], settings: Model) -> Mapping[str, float]:
        """How often states recur."""
        return measure_state_recurrence([[played.states for played in group] for group in groups])


MODE = AnchorCredit()
