"""`counterfactual`: at chosen steps the world is forked, and siblings sample that step alone.

Some rollouts of a group are roots, which are played to their ends. At a chosen step t of a root, in state s, m siblings copy
the state, sample their own step from there, and are cut. A sibling costs the tokens of one step and not of an episode; with
`tokens`, the steps are chosen so that all siblings together are expected to sample at most that share of what the roots
sampled. With V the value of a state, estimated from the roots (`values`), the action of member j is worth

    Q_j = r_j + γ V(s'_j)

where s'_j is the state in which j is left; V after the end is 0. The forked root itself is left out of V, so that all Q_j
are judged by one V that knows nothing of them.

**Steps drawn before play** (`by: random`). The root's own action is one more sample of π(·|s). All m + 1 members get

    A_j = (Q_j - mean_{i≠j} Q_i) / (m + 1)

which is leave-one-out: E[A_j ∇log π(a_j)] is the gradient of the state by Q, and the members' shares sum to 1.

**Steps chosen after play** (`by: surprise`: the least likely actions of the roots, by the mean -log p of their tokens). The
choice depends on the root's own action a_t. Given that its step was chosen, a_t is no sample of π(·|s) any more: it is a
rare one. If its term were kept, E[A ∇log π] would not be the gradient of the state. The siblings are sampled after the
choice, so given s they are samples of π(·|s), whatever was chosen. The corrected estimator therefore leaves a_t out, as a
sample and in the mean:

    A_j = (Q_j - mean_{i≠j, siblings} Q_i) / m,    0 for the root's step

Two biases remain. The actions at steps that were not chosen are likelier than π's are, so their own terms are biased the
other way; this shrinks with the share of steps that are chosen. And where V is wrong, Q is: a bias as large as the error of
V, as with `baseline: state` and λ = 0.

Other steps of the roots get the advantage of `step` with `baseline: state`, or 0 if all roots earned the same: their ways
may differ then, but nothing says which is better. At last all advantages are divided by their deviation.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from pydantic import Field

from envs.model import Model
from homerl.train.credit.common import returns_vary
from homerl.train.credit.contract import CreditInput, CreditMode, Fork, ForkPlan, Group
from homerl.train.credit.step import scaled
from homerl.train.credit.values import Values, state_credit


class CounterfactualSettings(Model):
    """`credit: counterfactual`: of a group's rollouts, `roots` are played to their ends; the others sample one step each."""

    roots: int = Field(4, ge=2, description="Number of rollouts of a group that are played from the start to the end.")
    siblings: int = Field(2, ge=2, description="Number of other actions that are sampled at a chosen step.")
    by: Literal["surprise", "random"] = Field(
        "surprise",
        description="Which steps of the roots: those whose tokens were least likely (`surprise`), or steps drawn before "
        "play (`random`).",
    )
    tokens: float | None = Field(
        None,
        gt=0,
        description="Of `by: surprise`: most tokens that the siblings are expected to sample, as a share of the roots' "
        "tokens; a sibling is expected to sample as many as the root did in its step. Steps that cost too much are passed "
        "over, and places of the group may stay empty. Null fills the group whatever it costs.",
    )
    horizon: int = Field(6, ge=1, description="Of `by: random`: last step that is drawn; steps count from 0.")


class CounterfactualKeys(Model):
    """The recipe keys of `credit: counterfactual`."""

    counterfactual: CounterfactualSettings = Field(
        CounterfactualSettings(), description="Of `credit: counterfactual`: how steps are chosen and sampled again."
    )


EMPTY = Fork(0, 0, 0)  # a place of the group for which there were no tokens


def drawn(settings: CounterfactualSettings, group: int, rng: random.Random) -> list[Fork | None]:
    """Roots, and forks at random steps; roots alone if the steps are chosen after play."""
    forks: list[Fork | None] = [None] * settings.roots
    while settings.by == "random" and len(forks) < group:
        fork = Fork(len(forks) % settings.roots, rng.randint(0, settings.horizon), 1)
        forks += [fork] * min(settings.siblings, group - len(forks))
    return forks


def most_surprising(settings: CounterfactualSettings, roots: Group, count: int) -> list[Fork]:
    """`count` forks at the steps of the roots with the highest surprise, `siblings` of them at each, in turn.

    With a budget of tokens, each step is forked at most once, and the rest of the forks are places that stay empty.
    """
    played = [(i, root) for i, root in enumerate(roots) if root.counts]
    steps = [(-surprise, i, t) for i, root in played for t, surprise in enumerate(root.surprise)]
    places = [Fork(i, t, 1) for _, i, t in sorted(steps)] or [Fork(0, 0, 1)]
    if settings.tokens is None:
        return [places[at // settings.siblings % len(places)] for at in range(count)]
    paid = islice(_affordable(places, roots, settings), count // settings.siblings)  # a sibling alone has none to compare
    forks = [place for place in paid for _ in range(settings.siblings)]
    return forks + [EMPTY] * (count - len(forks))


def _affordable(places: Iterable[Fork], roots: Group, settings: CounterfactualSettings) -> Iterator[Fork]:
    """The places, in their order, whose siblings fit into what is left of the budget."""
    left = (settings.tokens or 0.0) * sum(sum(root.tokens) for root in roots)
    for place in places:
        cost = settings.siblings * sum(roots[place.parent].tokens[place.step : place.step + 1])
        if 0 < cost <= left:
            left -= cost
            yield place


def counterfactual_credit(
    group: Group, settings: CounterfactualSettings, gamma: float = 1.0, trace: float = 0.5, shrink: float = 4.0
) -> list[list[float]]:
    """Advantages by rollout and step, not yet scaled; 0 for the steps that a sibling shares with its root."""
    roots = [i for i, played in enumerate(group) if played.fork is None]
    whole = [group[i] for i in roots]
    values = Values(whole, gamma, shrink)
    credit = [[0.0] * len(played.rewards) for played in group]
    if returns_vary([played.rewards for played in whole], gamma):
        for i, row in zip(roots, state_credit(whole, gamma, trace, shrink), strict=True):
            credit[i] = row
    for (root, step), siblings in _by_place(group).items():
        worth = {i: _worth(group[i], step, values, roots.index(root), gamma) for i in (root, *siblings)}
        kept = worth if settings.by == "random" else {i: worth[i] for i in siblings}
        credit[root][step] = 0.0
        for i in kept:
            credit[i][step] = _against_others(kept, i) / len(kept)
    return credit


def _by_place(group: Group) -> Mapping[tuple[int, int], Sequence[int]]:
    """The siblings at each (root, step)."""
    places: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, played in enumerate(group):
        if played.fork is not None and played.fork.steps:
            places[played.fork.parent, played.fork.step].append(i)
    return places


def _worth(played: CreditInput, step: int, values: Values, root: int, gamma: float) -> float:
    """Q of the action at a step: its reward, and the value of the state that it led to without the returns of `root`."""
    after = [*played.decisions[step + 1 :], *([] if played.cut is None else [played.cut])]
    return played.rewards[step] + gamma * (values.at(root, step + 1, after[0], unmet=0.0) if after else 0.0)


def _against_others(worth: Mapping[int, float], i: int) -> float:
    others = [value for j, value in worth.items() if j != i]
    return worth[i] - sum(others) / len(others) if others else 0.0


class CounterfactualCredit(CreditMode):
    """The credit mode `counterfactual`."""

    name, order, keys = "counterfactual", 4, CounterfactualKeys
    sentence = "At chosen steps, what an action is worth less what its siblings from the same state are worth."

    def rule(self, group: Group, settings: Any) -> list[list[float]]:
        """Advantages of actions against their siblings, and of states elsewhere, over the deviation of all."""
        found = counterfactual_credit(group, settings.counterfactual, settings.gamma, settings.trace, settings.shrink)
        own = [played.fork.step if played.fork else 0 for played in group]
        shared = [row[:first] for row, first in zip(found, own, strict=True)]
        return [zeros + row for zeros, row in zip(shared, scaled([r[f:] for r, f in zip(found, own)]), strict=True)]

    def refuse(self, settings: Any) -> Iterable[str]:
        """Refuse a group that has too few rollouts left to compare."""
        mine = settings.counterfactual
        if settings.group < mine.roots + mine.siblings:
            yield f"a group of {settings.group} with {mine.roots} roots leaves less than {mine.siblings} siblings"
        if mine.tokens is not None and mine.by == "random":
            yield "`counterfactual.tokens` needs `by: surprise`: what a step costs is known after play alone"
        if mine.tokens is not None and settings.loss in ("grpo", "dr_grpo"):
            yield f"`loss: {settings.loss}` averages over empty places, too: with `counterfactual.tokens`, use `dapo`"

    def forks(self, settings: Any) -> ForkPlan | None:
        """The plan that draws or chooses the steps."""
        mine = settings.counterfactual
        if mine.by == "random":
            return ForkPlan(lambda group, rng: drawn(mine, group, rng))
        return ForkPlan(
            lambda group, rng: drawn(mine, group, rng),
            lambda roots, count, rng: most_surprising(mine, roots, count),
        )

    def metrics(self, groups: Sequence[Group], settings: Any) -> Mapping[str, float]:
        """The shares of sampled steps and tokens that are siblings', and the mean surprise of the forked steps."""
        every = [(group, played) for group in groups for played in group]
        forks = [(group, played.fork) for group, played in every if played.fork is not None and played.fork.steps]
        at = [group[fork.parent].surprise[fork.step] for group, fork in forks if group[fork.parent].surprise]
        steps = sum(len(played.rewards) for _, played in every if played.fork is None)
        tokens = [(sum(played.tokens), played.fork is not None) for _, played in every]
        return {
            "counterfactual/share": len(forks) / max(1, steps + len(forks)),
            "counterfactual/tokens": sum(n for n, sibling in tokens if sibling) / max(1, sum(n for n, _ in tokens)),
            "counterfactual/surprise": sum(at) / max(1, len(at)),
        }


MODE = CounterfactualCredit()
