"""Compares credit modes at equal numbers of rollouts, with policies that are tables (a softmax a state) on tasks of a dozen
states. What differs between two rows is the credit rule alone, `homerl.train.credit`, as the trainer calls it. It takes
minutes and says nothing about language models.

Adam takes the scale out of the advantages, so that one learning rate is fair to all.

Tasks: `long`: twelve subtasks in a row, a wrong action costs one of four spare steps. `decisive`: six steps, of which only
the third matters, among penalties drawn at random. `misleading`: an early reward that leads to a dead end, or nothing at
first and the whole goal behind two right actions. `eight`: eight independent steps, each right in one of four ways; its
figure is the share of right steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from differences import chance, holm, interval, markdown

from homerl.train.credit.contract import CreditInput
from homerl.train.data.rollout_batches import credit_group
from homerl.train.recipe import RLVESettings

MODES = {
    "trajectory": {"credit": "trajectory"},
    "index": {"credit": "step", "baseline": "index"},
    "state": {"credit": "step", "baseline": "state"},
    "anchor": {"credit": "anchor"},
}
GROUP, GROUPS, RATE, TESTS = 8, 4, 0.08, 200
ACTIONS = 4


@dataclass(frozen=True)
class Task:
    """`step(state, action, noise)` -> (next state or None at the end, reward, success). `seen` is what the
    policy sees of a state; a credit mode is told all of it."""

    states: int
    step: Callable[[tuple, int, float], tuple[tuple | None, float, float]]
    start: tuple = (0, 0)
    seen: Callable[[tuple], tuple] = lambda state: state


def long(state: tuple, action: int, noise: float) -> tuple[tuple | None, float, float]:
    done, steps = state[0] + (action == state[0] % ACTIONS), state[1] + 1
    if done == 12:
        return None, 1 / 12 + 1.0, True
    return (done, steps) if steps < 16 else None, (done - state[0]) / 12, False


def decisive(state: tuple, action: int, noise: float) -> tuple[tuple | None, float, float]:
    stage, right = state
    right = right or (stage == 2 and action == 3)
    reward = -0.4 * (noise < 0.5)
    if stage == 5:
        return None, reward + right, bool(right)
    return (stage + 1, int(right)), reward, False


def misleading(state: tuple, action: int, noise: float) -> tuple[tuple | None, float, float]:
    branch, stage = state
    if branch == 0:
        return [((1, 0), 0.3, False), (None, 0.0, False), (None, 0.0, False), ((2, 0), 0.0, False)][action]
    if branch == 1:
        return (None if stage == 2 else (1, stage + 1)), 0.0, False
    if action != stage:
        return None, 0.0, False
    return (None, 2.0, True) if stage == 1 else ((2, stage + 1), 0.0, False)


def eight(state: tuple, action: int, noise: float) -> tuple[tuple | None, float, float]:
    stage, right = state[0] + 1, state[1] + (action == state[0] * 3 % ACTIONS)
    reward = (right - state[1]) / 8 - 0.2 / 8 * (right == state[1])
    return (None, reward + (right == 8), right / 8) if stage == 8 else ((stage, right), reward, 0.0)


def first(state: tuple) -> tuple:
    return state[:1]


TASKS = {
    "long": Task(12, long, seen=first),
    "decisive": Task(12, decisive),
    "misleading": Task(12, misleading),
    "eight": Task(8, eight, seen=first),
}


class Policy:
    """Logits by what the agent sees (of `long` the subtask, not how many steps are left), with Adam."""

    def __init__(self) -> None:
        self.logits: dict[tuple, np.ndarray] = {}
        self.moments: dict[tuple, list] = {}
        self.updates = 0

    def chances(self, seen: tuple) -> np.ndarray:
        logits = self.logits.setdefault(seen, np.zeros(ACTIONS))
        shares = np.exp(logits - logits.max())
        return shares / shares.sum()

    def learn(self, gradients: dict[tuple, np.ndarray]) -> None:
        self.updates += 1
        for seen, gradient in gradients.items():
            first, second, age = self.moments.get(seen, [0.0, 0.0, 0])
            first, second, age = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2, age + 1
            self.moments[seen] = [first, second, age]
            self.logits[seen] += RATE * (first / (1 - 0.9**age)) / (np.sqrt(second / (1 - 0.99**age)) + 1e-8)


@dataclass
class Episode:
    """States, actions and rewards up to here."""

    states: list[tuple]
    actions: list[int]
    rewards: list[float]
    success: float = 0.0


def seen(task: str, state: tuple) -> tuple:
    return TASKS[task].seen(state)


def play(task: str, policy: Policy, rng: np.random.Generator) -> Episode:
    episode = Episode([TASKS[task].start], [], [])
    state: tuple | None = episode.states[-1]
    while state is not None:
        action = int(rng.choice(ACTIONS, p=policy.chances(seen(task, state))))
        state, reward, episode.success = TASKS[task].step(state, action, rng.random())
        episode.actions.append(action)
        episode.rewards.append(reward)
        if state is not None:
            episode.states.append(state)
    return episode


@cache
def rule(mode: str):
    """The rule of a recipe with these keys, as the trainer calls it."""
    return partial(credit_group, settings=RLVESettings(**MODES[mode], group=GROUP))


def credited(mode: str, task: str, policy: Policy, rng: np.random.Generator) -> tuple[list[Episode], list[list[float]]]:
    episodes = [play(task, policy, rng) for _ in range(GROUP)]
    states = [[repr(state) for state in episode.states[: len(episode.actions)]] for episode in episodes]
    group = [CreditInput(e.rewards, states=s) for e, s in zip(episodes, states, strict=True)]
    return episodes, rule(mode)(group)


def curve(mode: str, task: str, seed: int, updates: int) -> list[float]:
    """Success of fresh episodes, before the first update and after every second one."""
    rng, policy = np.random.default_rng([seed, len(task)]), Policy()
    tests = np.random.default_rng([seed, 99])
    found = [success(task, policy, tests)]
    for update in range(1, updates + 1):
        gradients: dict[tuple, np.ndarray] = {}
        for _ in range(GROUPS):
            episodes, credit = credited(mode, task, policy, rng)
            for episode, values in zip(episodes, credit, strict=True):
                for state, action, value in zip(episode.states, episode.actions, values, strict=False):
                    slope = -policy.chances(seen(task, state))
                    slope[action] += 1
                    gradients[seen(task, state)] = gradients.get(seen(task, state), 0.0) + value * slope
        policy.learn(gradients)
        if update % 2 == 0:
            found.append(success(task, policy, tests))
    return found


def success(task: str, policy: Policy, rng: np.random.Generator) -> float:
    return sum(play(task, policy, rng).success for _ in range(TESTS)) / TESTS


def table(found: dict[tuple[str, str], np.ndarray], tasks: Sequence[str], modes: Sequence[str]) -> str:
    """Success on the way / at the end by mode; for modes other than `trajectory`, how much more than it by seed."""
    others = [(task, mode) for task in tasks for mode in modes if mode != "trajectory" and "trajectory" in modes]
    gaps = {pair: (found[pair] - found[pair[0], "trajectory"]).mean(1) for pair in others}
    stars = dict(zip(gaps, holm([chance(values) for values in gaps.values()]), strict=True))
    rows = []
    for mode in modes:
        cells = [f"{found[task, mode].mean():.2f} / {found[task, mode][:, -1].mean():.2f}" for task in tasks]
        more = [f"; {interval(gaps[t, mode], stars[t, mode])}" if (t, mode) in gaps else "" for t in tasks]
        rows.append([mode, *(cell + gap for cell, gap in zip(cells, more, strict=True))])
    return markdown(["mode", *tasks], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares credit modes on tables, at equal numbers of rollouts.")
    parser.add_argument("--tasks", choices=TASKS, nargs="+", default=list(TASKS))
    parser.add_argument("--credit", choices=MODES, nargs="+", default=list(MODES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=60)
    asked = parser.parse_args()
    found = {
        (task, mode): np.array([curve(mode, task, seed, asked.updates) for seed in range(asked.seeds)])
        for task in asked.tasks
        for mode in asked.credit
    }
    print("success, mean of the way / at the end; more than `trajectory` on the way, 95 % interval, * by Holm's correction")
    print(table(found, asked.tasks, asked.credit))


if __name__ == "__main__":
    main()
