"""Tasks: homerl's suites, or blueprints of a recipe, as data that can be sent to workers."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

import homerl


class HomeData(vf.TaskData):
    """Where a task comes from, so that any process can start it. Neither goals nor plans are in it."""

    suite: str
    setting: str | None
    tasks: str | None
    split: Literal["train", "heldout"]
    count: int | None
    at: int
    seed: int


class HomeConfig(vf.TasksetConfig):
    suite: str = "smarthome-bench"
    """A benchmark of homerl: its name, or a file that `homerl bench build` wrote."""
    setting: str | None = None
    """One of the suite's settings, which decides on tools and prompt; None is the suite's first."""
    tasks: str | None = None
    """Tasks that are made, in place of `suite`: a recipe, the name of a world, or JSON of a recipe's blueprints."""
    split: Literal["train", "heldout"] = "train"
    """Of `tasks`: "heldout" has homes and sentences that no training has."""
    count: int | None = None
    """The number of tasks; None is all of a suite, and 10,000 of `tasks`."""
    seed: int = 0
    """The seed of the episodes."""


class HomeTask(vf.Task[HomeData]):
    """What an episode is scored by. The harness has left it in `trace.info`."""

    @property
    def key(self) -> str:
        return f"{self.data.id}/{self.data.seed}"

    @vf.reward
    async def success(self, trace: vf.Trace) -> float:
        """Whether all was done that was asked: the score of `homerl bench run`."""
        return float(trace.info["outcome"] == "success")

    @vf.reward(weight=0.0)
    async def step_rewards(self, trace: vf.Trace) -> float:
        """The sum of the rewards of all steps."""
        return sum(sum(parts.values()) for parts in trace.info["step_rewards"])

    @vf.metric
    async def progress(self, trace: vf.Trace) -> float:
        """The share of the goals that hold at the end."""
        return trace.info["progress"]

    @vf.metric
    async def steps(self, trace: vf.Trace) -> float:
        """The number of messages of the agent."""
        return float(len(trace.info["step_rewards"]))


class HomeTaskset(vf.Taskset[HomeTask, HomeConfig]):
    def load(self) -> Iterator[HomeTask]:
        asked = self.config
        source = {"suite": asked.suite, "setting": asked.setting, "tasks": asked.tasks, "split": asked.split}
        tasks = load_home_tasks(**source, count=asked.count)
        for at, task in enumerate(tasks):
            data = HomeData(
                id=task.id, name=task.id, description=task.sentence, prompt=task.start(asked.seed).messages,
                **source, count=asked.count, at=at, seed=asked.seed,
            )  # fmt: skip
            yield HomeTask(data, asked.task)


@functools.cache
def load_home_tasks(
    suite: str, setting: str | None, tasks: str | None, split: Literal["train", "heldout"], count: int | None
) -> homerl.TaskList:
    """The tasks that a taskset's configuration names."""
    if tasks is None:
        return homerl.load_suite(suite, setting, count)
    source = json.loads(tasks) if tasks.lstrip().startswith("{") else tasks
    return homerl.load_tasks(source, split=split) if count is None else homerl.load_tasks(source, count, split=split)


def find_home_task(data: HomeData) -> homerl.Task:
    """The task of a row."""
    return load_home_tasks(data.suite, data.setting, data.tasks, data.split, data.count)[data.at]
