"""Reads the folder that `homerl bench run` wrote, as far as this world's figures need it.

Invariant: nothing is written; trajectories are read one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.results import blueprint_of_trajectory, final_words
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeBlueprint
from homerl.play import results
from homerl.play.trajectory import Trajectory, read_trajectories

Key = tuple[str, int]  # the id of an instance, and the number of the run


@dataclass(frozen=True)
class PlayedTask:
    """A played task: its blueprint, and the agent's last words."""

    key: Key
    blueprint: PersonalHomeBlueprint
    text: str
    trajectory: Trajectory


@dataclass(frozen=True)
class RunResults:
    """A run's folder. `name` tells it from the others beside it."""

    folder: Path
    model: str
    setting: str
    rows: tuple[Mapping[str, Any], ...]
    name: str

    def played_tasks(self, kinds: Sequence[str]) -> Iterator[PlayedTask]:
        """The tasks of some kinds, such as `plans`, whose outcomes say something about the agent."""
        path = self.folder / "trajectories.jsonl"
        for row, trajectory in zip(self.rows, read_trajectories(path), strict=True):
            if row["families"][0] in kinds and trajectory.outcome.is_counted:
                yield PlayedTask(result_key(row), blueprint_of_trajectory(trajectory), final_words(trajectory), trajectory)


def result_key(row: Mapping[str, Any]) -> Key:
    """What tells a result from the others of its run."""
    return row["id"], row.get("run", 0)


def read_named_results(folders: Sequence[Path]) -> list[RunResults]:
    """The results in some folders, under names that differ: model, setting, and the folder where these are equal.

    Raises `InputError` for a folder that has no results of this world.
    """
    found = [_read(folder) for folder in folders]
    names = [result.name for result in found]
    found = [replace(one, name=f"{one.name}, {one.folder}") if names.count(one.name) > 1 else one for one in found]
    if len({one.name for one in found}) < len(found):
        raise InputError("one folder is named twice", str(folders[0]), "name each folder once")
    return found


def _read(folder: Path) -> RunResults:
    run, rows = results.read_run_facts(folder, "run.json"), results.read_bench_results(folder)
    if not all({"category", "calls", "errors"} <= set(row) for row in rows):
        raise InputError("these are results of another world", str(folder), "name runs of personalhome-bench")
    model, setting = run.get("served") or run["model"], run["setting"]
    return RunResults(folder, model, setting, rows, f"{model}, {setting}")
