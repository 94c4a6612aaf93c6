"""All tasks that the models of a flywheel played, for the table of its report, and the pages to which the table leads: the
dialogues of each model on each suite.

Invariants:
- A reward is the sum over the steps of a dialogue. Benchmarks store none, so it is what the run's recipe gives.
- The pages need no network and no other file; the report only links to them. Writing them is atomic.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import write_atomic
from homerl.play.bench_results import read_bench_results
from homerl.play.trajectory import ShownDialogue, locate_row_errors, read_rows, read_trajectory_row
from homerl.report.pages.episode_pages import FILE, PLAYERS, find_run_rewards, with_run_rewards
from homerl.report.pages.world_pages import load_report_template, readable_dialogue
from homerl.rewards.composite import RewardWeights
from homerl.worlds.registry import world_of

FOLDER = "dialogues"  # of a run: the pages
KINDS = ("families", "category", "subcategories", "subcategory")  # what a result says of its task, the first that is there


@dataclass(frozen=True)
class PlayedDialogue:
    """What became of a task that one model played: the outcome, and the sum of its rewards."""

    outcome: str
    reward: float


@dataclass(frozen=True)
class PlayedTask:
    """A task of a suite: what the user says first, its kinds (families), and what became of it by model."""

    suite: str
    id: str
    sentence: str
    kinds: tuple[str, ...]
    by_model: dict[str, PlayedDialogue] = field(default_factory=dict)

    @property
    def quoted_id(self) -> str:
        """The id as a shell takes it."""
        return shlex.quote(self.id)


def dialogue_page_name(model: str, suite: str) -> str:
    """The file in the folder of pages that has the dialogues of a model on a suite."""
    return f"{model}-{suite}.html"


def write_dialogue_pages(run: Path, suites: Mapping[str, Mapping[str, Any]]) -> list[PlayedTask]:
    """Write the pages of all dialogues of a run, and return its tasks in the order of the suites.

    `suites` are the suites' scores by model, as the report has them.
    """
    tasks: dict[tuple[str, str], PlayedTask] = {}
    for suite, by_model in suites.items():
        for model in (model for model in PLAYERS if model in by_model):
            folder = run / model / "bench" / suite
            if (folder / FILE).is_file():
                if not (shown := list(_read_dialogues(folder, suite, model, tasks))):
                    continue
                page = _render_dialogue_page(run, folder, suite, model, shown)
                write_atomic(run / FOLDER / dialogue_page_name(model, suite), page.encode("utf-8", "replace"))
    return list(tasks.values())


def _read_dialogues(
    folder: Path, suite: str, model: str, tasks: dict[tuple[str, str], PlayedTask]
) -> Iterator[tuple[PlayedTask, ShownDialogue]]:
    """(task, dialogue) of each episode of a benchmark; the tasks are kept in `tasks`."""
    path, weights = folder / FILE, find_run_rewards(folder / FILE) or RewardWeights()
    results = {row["id"]: row for row in read_bench_results(folder)} if (folder / "results.jsonl").is_file() else {}
    for number, row in enumerate(read_rows(path), 1):
        where = f"{path}:{number}"
        trajectory = with_run_rewards(read_trajectory_row(row, where), weights)
        with locate_row_errors(where):
            dialogue = readable_dialogue(trajectory)
        result = results.get(str(row["id"]), {})
        kinds = next((result[key] for key in KINDS if result.get(key)), ())
        said = dialogue.turns[0][0] if dialogue.turns else dialogue.id
        named = (kinds,) if isinstance(kinds, str) else tuple(dict.fromkeys(kinds))
        task = tasks.setdefault((suite, dialogue.id), PlayedTask(suite, dialogue.id, said, named))
        reward = sum(value for parts in trajectory.rewards for value in parts.values())
        task.by_model[model] = PlayedDialogue(dialogue.outcome, reward)
        yield task, dialogue


def _render_dialogue_page(
    run: Path, folder: Path, suite: str, model: str, shown: list[tuple[PlayedTask, ShownDialogue]]
) -> str:
    blueprint = read_trajectory_row(next(read_rows(folder / FILE)), str(folder / FILE)).blueprint
    return load_report_template("dialogues.html.jinja", world_of(blueprint)).render(
        run=run.resolve().name,
        suite=suite,
        model=model,
        player=PLAYERS[model],
        shown=shown,
        kinds=list_kinds(task for task, _ in shown),
        outcomes=sorted({task.by_model[model].outcome for task, _ in shown}),
        command=f"homerl view episode {shlex.quote(str(folder))} --episode",
    )


def list_kinds(tasks: Iterable[PlayedTask]) -> list[str]:
    """The kinds of tasks, in the order of the alphabet."""
    return sorted({kind for task in tasks for kind in task.kinds})
