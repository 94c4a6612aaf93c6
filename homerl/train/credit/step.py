"""`step`: step-wise credit (HomeFlow 3.4.2 gives a reward at every step), and the arithmetic that other modes share.

Notation: r[i][t] is the reward of step t of rollout i, and G[i][t] its return-to-go. Step t can only influence rewards from
t on. So its signal is G[i][t]; earlier rewards are noise, which `trajectory` keeps. There are two baselines. `index`, the
default, is the mean over the members that reached step t. It compares steps at the same position, and gives 0 to a step that
only one member reached. `state` compares with the value of the state in which the step was taken, and half trusts the value
of the next one: a step is judged by what it changed, and less by what came later.

The value V(s) of a state is estimated from a group. It is the mean return-to-go of the steps that others took from s.

The states of a home tell what is still to be done (Φ, exactly), so rollouts of one blueprint meet in the same states.
Let n be the number of steps that other rollouts of the group took from s, m the mean of their returns-to-go, and b the
mean return-to-go of the other rollouts' steps at the same index. Then

    V(s) = (n m + κ b) / (n + κ)

is b for a state that nobody else met, and goes to m as visits grow: the mean of a normal prior around b that weighs as
much as κ visits. RTMC (arXiv 2604.11037) shrinks in the same way.

Invariant: V at a step of rollout i is computed from the other rollouts only. So it is independent of the actions of i
given the state, and a baseline made of it does not bias the gradient.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import Field

from homerl.envs.core.model import Model
from homerl.train.credit.contract import CreditInput, CreditMode, Group

PerStep = Sequence[Sequence[float]]  # numbers by rollout and step
EPSILON = 1e-4  # as in TRL: bounds the advantages of a nearly constant group
LAMBDA = 0.5  # λ: how much of what came after the next step counts, beside the value of the next state
SHRINKAGE = 4.0  # κ, in visits


class StepKeys(Model):
    """The recipe keys of `credit: step`."""

    baseline: Literal["index", "state"] = Field(
        "index",
        description="Of `credit: step`: a return-to-go is compared with those at the same `index`, or from "
        "the same `state`.",
    )


def compute_returns_to_go(rewards: Sequence[float]) -> list[float]:
    """G_t = Σ_{u>=t} r_u for every step; the result is as long as `rewards`."""
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total += reward
        returns.append(total)
    return returns[::-1]


def normalise_values(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """(value - mean of the pool) / (the pool's sample deviation + ε); zeros if the pool does not vary."""
    if len(pool) < 2 or np.allclose(pool, pool[0]):
        return np.zeros_like(values, dtype=float)
    return np.asarray((values - pool.mean()) / (pool.std(ddof=1) + EPSILON))


def compute_step_credit(group: PerStep) -> list[list[float]]:
    """A[i][t] = (G[i][t] - b_t) / (std + ε), with the mean b_t at the index; the deviation is that of all steps."""
    returns = [compute_returns_to_go(rewards) for rewards in group]
    longest = max(map(len, returns))
    means = [np.mean([row[t] for row in returns if len(row) > t]) for t in range(longest)]
    centred = [np.array([value - means[t] for t, value in enumerate(row)]) for row in returns]
    pool = np.concatenate(centred)  # one deviation for all indices, since few rollouts reach the late ones
    return [normalise_values(row, pool).tolist() for row in centred]


def measure_lone_steps(groups: Sequence[PerStep]) -> dict[str, float]:
    """`alone`: the share of steps that are the only one of their group at their index, so that `index` gives them 0."""
    reached = [Counter(t for rewards in group for t in range(len(rewards))) for group in groups]
    steps = sum(count.total() for count in reached)
    return {"step/alone": sum(times == 1 for count in reached for times in count.values()) / max(1, steps)}


@dataclass
class ReturnSum:
    """A sum of returns and their number, over all rollouts and by rollout."""

    total: float = 0.0
    count: int = 0
    own: dict[int, tuple[float, int]] = field(default_factory=lambda: defaultdict(lambda: (0.0, 0)))

    def add_return(self, rollout: int, value: float) -> None:
        """Note a return of a rollout."""
        self.total, self.count = self.total + value, self.count + 1
        own, times = self.own[rollout]
        self.own[rollout] = own + value, times + 1

    def returns_of_others(self, rollout: int) -> tuple[float, int]:
        """The sum and the number of the returns of all rollouts but one."""
        own, times = self.own.get(rollout, (0.0, 0))
        return self.total - own, self.count - times


class StateValues:
    """V for the states of a group."""

    def __init__(self, group: Group, shrinkage: float = SHRINKAGE) -> None:
        self.shrinkage = shrinkage
        self.states: dict[str, ReturnSum] = defaultdict(ReturnSum)
        self.indices: dict[int, ReturnSum] = defaultdict(ReturnSum)
        for i, played in enumerate(group):
            for t, (state, value) in enumerate(
                zip(_step_states(played), compute_returns_to_go(played.rewards), strict=True)
            ):
                self.states[state].add_return(i, value)
                self.indices[t].add_return(i, value)

    def estimate_state_value(self, rollout: int, step: int, state: str, unmet: float) -> float:
        """V of a state at a step of a rollout, from the other rollouts; `unmet` if no other was in it or came so far."""
        sum_state, visits = self.states[state].returns_of_others(rollout) if state in self.states else (0.0, 0)
        sum_index, reached = self.indices[step].returns_of_others(rollout) if step in self.indices else (0.0, 0)
        prior = sum_index / reached if reached else None  # b of the formula above, and `weight` its κ
        weight = self.shrinkage if prior is not None else 0.0
        if visits + weight == 0:
            return unmet if prior is None else prior
        return (sum_state + weight * (prior or 0.0)) / (visits + weight)


def compute_state_credit(group: Group, lam: float = LAMBDA, shrinkage: float = SHRINKAGE) -> list[list[float]]:
    """Advantages by rollout and step, not yet scaled: generalized advantage estimation with V from siblings.

    With δ_t = r_t + V(s_{t+1}) - V(s_t), the advantage is A_t = Σ_k λ^k δ_{t+k}; λ is `lam`. V after the end is 0.
    λ = 1 gives G_t - V(s_t), which is unbiased whatever V is. A smaller λ trusts V for what comes later: less of the
    noise of later steps, and a bias as large as the error of V.
    """
    values = StateValues(group, shrinkage)
    credit = []
    for i, played in enumerate(group):
        states = zip(_step_states(played), compute_returns_to_go(played.rewards), strict=True)
        known = [values.estimate_state_value(i, t, state, unmet=value) for t, (state, value) in enumerate(states)]
        known.append(0.0)  # V after the end
        advantage, backwards = 0.0, []
        for t in range(len(played.rewards) - 1, -1, -1):
            advantage = played.rewards[t] + known[t + 1] - known[t] + lam * advantage
            backwards.append(advantage)
        credit.append(backwards[::-1])
    return credit


def _step_states(played: CreditInput) -> Sequence[str]:
    """The state of every step; its index if states are not known."""
    return played.states or [f"step {t}" for t in range(len(played.rewards))]


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
