"""`branch`: forks of the world, sibling rollouts from one state, and a leave-one-out baseline.

Some rollouts of a group are roots, which are played from the start. A fork copies a root's exact state before step t
(home, dialogue, intents). Siblings sample their own step t from there, and each is played to its end. They share the
root's prefix, which is trained on once, with the root. A sibling's own steps begin at t.

A segment of a rollout goes from the start, or from a fork, to the next fork or to the end. Let Y be the return from the
first step of a segment on, where a later fork counts as the mean of its members (an estimate of the state's value from
several samples). The members of a fork, the root included, are independent given the state. So for member i

    A_i = (Y_i - mean_{j≠i} Y_j) / (s_1 ... s_k)

for all steps of its segment. The baseline b = mean_{j≠i} Y_j is independent of the actions of i: E[b ∇log π(a_i)] = 0.
For a later step u of the segment, adding the rewards before u to both G_u and b does not change this. So u has the
advantage of its segment. A fork with s members samples its state s times, while
the state's share of the gradient must stay 1. Hence the division by the sizes s_1 ... s_k of all forks on the way. Roots
are members of a fork at the start, with weight 1.

So Σ A ∇log π has the expectation (number of roots) · ∇J, under two conditions. Nothing in a root's future decides where
it is forked: `plan` draws the steps before any play, and one more root replaces a fork that a short root never reached.
And the loss weights all tokens alike (`dapo`, `dr_grpo`). There is no division by a standard deviation, since that would
make b depend on a_i.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.train.credit.common import PerStep, returns_to_go
from homerl.train.credit.contract import CreditMode, Fork, ForkPlan, Group


class BranchSettings(Model):
    """`credit: branch`: `roots` begin at the start, the others of the `group` at forks of a root."""

    roots: int = Field(2, ge=2, description="Rollouts that begin at the start.")
    siblings: int = Field(3, ge=2, description="Rollouts that share a fork, the root among them.")
    horizon: int = Field(4, ge=1, description="Last step at which a root may be forked, from 1.")


class BranchKeys(Model):
    """The recipe keys of `credit: branch`."""

    branch: BranchSettings = Field(BranchSettings(), description="Of `credit: branch`: how a group is forked.")


def plan(roots: int, siblings: int, horizon: int, group: int, rng: random.Random) -> list[Fork | None]:
    """Where each of `group` rollouts begins: None for a root, else its fork.

    The first `roots` rollouts are roots. The others fork from the roots in turn, at a random step from 1 to `horizon`,
    and `siblings` counts the members of a fork with the root. Two forks at one step of a root form one larger fork.
    """
    forks: list[Fork | None] = [None] * roots
    for parent in cycle(range(roots)):
        if len(forks) >= group:
            return forks
        forks += [Fork(parent, rng.randint(1, horizon))] * min(siblings - 1, group - len(forks))
    return forks


def branch_credit(group: PerStep, forks: Sequence[Fork | None]) -> list[list[float]]:
    """Advantages by rollout and step; 0 for the steps of a prefix that belongs to another rollout."""
    credit = [[0.0] * len(rewards) for rewards in group]
    below: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, fork in enumerate(forks):
        if fork is not None:
            below[fork.parent][fork.step].append(i)
    returns = [returns_to_go(rewards) for rewards in group]
    roots = [i for i, fork in enumerate(forks) if fork is None]
    values = {i: _grow(i, group[i], returns, below[i], credit) for i in roots}
    first = {i: min(below[i], default=len(group[i])) for i in roots}
    for i in roots:
        credit[i][: first[i]] = [_against_others(values, i)] * first[i]
    return credit


def _grow(
    root: int, rewards: Sequence[float], returns: PerStep, below: Mapping[int, Sequence[int]], credit: list[list[float]]
) -> float:
    """Set the credit of the segments after a root's forks, from the end backwards; return Y of its first segment."""
    value, end, shares = 0.0, len(rewards), 1.0
    for step in below:
        shares *= 1 + len(below[step])
    for step in sorted(below, reverse=True):
        value += sum(rewards[step:end])
        members = {root: value} | {i: returns[i][step] for i in below[step]}
        for i in members:
            stop = end if i == root else len(returns[i])
            credit[i][step:stop] = [_against_others(members, i) / shares] * (stop - step)
        shares /= len(members)
        value, end = sum(members.values()) / len(members), step
    return value + sum(rewards[:end])


def _against_others(values: Mapping[int, float], i: int) -> float:
    """Y_i minus the mean of the other members' values; 0 if there are no others."""
    others = [value for j, value in values.items() if j != i]
    return values[i] - sum(others) / len(others) if others else 0.0


class BranchCredit(CreditMode[BranchKeys]):
    """The credit mode `branch`."""

    name, order, keys = "branch", 3, BranchKeys
    sentence = "Every segment between forks of the world gets what it earned less the mean of its siblings', undivided."

    def rule(self, group: Group, settings: BranchKeys) -> list[list[float]]:
        """Advantages of segments against their siblings."""
        return branch_credit([played.rewards for played in group], [played.fork for played in group])

    def refuse(self, settings: BranchKeys, group: int) -> Iterable[str]:
        """Refuse a group that has no rollouts left for forks."""
        if group <= settings.branch.roots:
            yield f"a group of {group} with {settings.branch.roots} roots leaves nothing to branch"

    def forks(self, settings: BranchKeys) -> ForkPlan | None:
        """The plan that draws the forks of a group."""
        return planned(settings.branch)


def planned(branch: BranchSettings) -> ForkPlan:
    """The fork plan of a recipe, for a group of any size."""
    return lambda group, rng: plan(branch.roots, branch.siblings, branch.horizon, group, rng)


MODE = BranchCredit()
