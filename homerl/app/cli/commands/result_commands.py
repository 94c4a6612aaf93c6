"""What is done with what was played: `homerl compare`, `seeds`, `view episode`, `reverify`, `export-data`, `push-data`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Column, Table

from homerl.envs.core.documents import InputError
from homerl.host.recipe_files import find_shipped_run
from homerl.host.terminal import Command, OutPage, RunFolder, complete_run, console, count_with_noun

if TYPE_CHECKING:
    from homerl.report.pages.episode_pages import EpisodeFile

RUN = "a run's folder, a stage's, one of `homerl bench run`, or a results.jsonl"


def compare(
    run_a: Annotated[Path, typer.Argument(help=RUN, autocompletion=complete_run)],
    run_b: Annotated[Path, typer.Argument(help="another one, which played the same tasks", autocompletion=complete_run)],
    out: Annotated[Path, typer.Option(help="the HTML file")] = Path("compare.html"),
) -> None:
    """Compare two runs: which is better and by how much, where their recipes differ, and their curves in one page."""
    from homerl.envs.core.documents import ensure_writable
    from homerl.report.pages.compare_runs import compare_runs as compared
    from homerl.report.pages.compare_runs import comparison_tables, write_comparison

    ensure_writable(out)
    run_a, run_b = find_shipped_run(run_a) or run_a, find_shipped_run(run_b) or run_b
    found = compared(run_a, run_b)
    console.print(comparison_tables(found))
    console.print(f"page: {write_comparison(found, out)}")


def seeds(
    runs: Annotated[
        list[Path], typer.Argument(help="folders of flywheel runs that differ in their seed", autocompletion=complete_run)
    ],
    suite: Annotated[str | None, typer.Option(help="one suite; default: each of the first run's")] = None,
) -> None:
    """Show the scores of several flywheel runs, with their mean and the interval of RLVE's gain over the runs."""
    from homerl.report.pages.compare_runs import build_seeds_table, find_scored_suites

    runs = [find_shipped_run(run) or run for run in runs]
    for name in [suite] if suite else find_scored_suites(runs[0]):
        console.print(build_seeds_table(runs, name))


def view_episode(
    source: Annotated[
        Path,
        typer.Argument(help="a run, a trajectories.jsonl or its folder, or a file of rollouts", autocompletion=complete_run),
    ],
    episode: Annotated[
        list[str] | None,
        typer.Option(help="id of an episode, its number, or numbers such as 1-6; may be repeated; default: the first"),
    ] = None,
    out: OutPage = None,
) -> None:
    """Replay episodes of any world in one HTML page: what was said and called, what it changed, and what each step earned.

    Of a whole run it lists what was played, and replays the last model's first successes and failures.
    """
    from homerl.report.pages.episode_pages import (
        FILE,
        describe_episodes,
        find_example_file,
        list_episode_files,
        write_episode_page,
    )

    folder = find_shipped_run(source) or source
    files = list_episode_files(folder) if folder.is_dir() and not (folder / FILE).is_file() else []
    if files:
        console.print(_list_files(folder, files))
        example = find_example_file(files).source
        if episode:
            raise InputError("a run has several files of episodes", "--episode", f"name one of them, such as {example}")
        console.print(f"to choose others: homerl view episode {shlex.quote(str(example))} --episode 1-6", soft_wrap=True)
    page, played = write_episode_page(folder, episode or [], out)
    if len(played) == 1:
        console.print(f"{page}: {next(describe_episodes(played))}")
        return
    console.print(f"{page} replays {count_with_noun(len(played), 'episode')}:")
    for line in describe_episodes(played):
        console.print(f"  {line}")


def _list_files(run: Path, files: Sequence[EpisodeFile]) -> Table:
    counts = Column("episodes", justify="right"), Column("success", justify="right")
    table = Table("played", *counts, f"in {run}", box=box.SIMPLE_HEAD, pad_edge=False)
    for file in files:
        table.add_row(file.played, f"{file.episodes:,}", f"{file.successes:,}", str(file.source.relative_to(run)))
    return table


def reverify(file: Annotated[Path, typer.Argument(help="a trajectories.jsonl, or a file of rollouts")]) -> None:
    """Replay every trajectory in a file and recompute its rewards. Any difference is an error."""
    from homerl.play.replay import reverify_file
    from homerl.worlds.registry import restore_situation

    console.print(reverify_file(file, restore_situation))


def export_data(
    source: Annotated[
        str,
        typer.Argument(
            help="a trajectories.jsonl, a run's folder, a suite, a recipe of tasks, or a world", show_default=False
        ),
    ],
    to: Annotated[Path, typer.Option(help="a folder, made if missing; an earlier export in it is replaced")],
    tasks: Annotated[int | None, typer.Option(min=1, help="tasks of a suite (default: all) or a recipe (1,000)")] = None,
    test_share: Annotated[float, typer.Option(help="share of the tasks that is kept for the split `test`")] = 0.1,
    license: Annotated[str, typer.Option(help="license of the data, as the hub names it")] = "apache-2.0",
) -> None:
    """Write dialogues or tasks to a folder as a Hugging Face dataset, and the same rows in OpenAI's form."""
    from homerl.report.cards.exported_data import write_data_export

    done = write_data_export(source, to, license, tasks, test_share)
    rows = ", ".join(f"{split} {number:,}" for split, number in done.rows.items())
    console.print(f"{to}: {done.kind} ({rows})", highlight=False)


def push_data(
    run: RunFolder,
    to: Annotated[str, typer.Option(help="a hub id such as org/name")],
    public: Annotated[bool, typer.Option(help="make a new hub repository public")] = False,
    license: Annotated[str, typer.Option(help="license of the data, as the hub names it")] = "apache-2.0",
) -> None:
    """Upload a finished synthesis to the Hugging Face hub as a dataset, tagged with its version."""
    from homerl.report.cards.dataset_card import push_dataset

    console.print(f"pushed to {push_dataset(run, to, private=not public, license=license)}")


COMMAND = (
    Command("compare", "measure", compare, "homerl compare runs/quickstart/sft/bench/heldout runs/seed1/sft/bench/heldout"),
    Command("seeds", "measure", seeds, "homerl seeds runs/seed0 runs/seed1 runs/seed2"),
    Command("view episode", "measure", view_episode, "homerl view episode runs/quickstart"),
    Command("reverify", "data", reverify, "homerl reverify runs/quickstart/synth/trajectories.jsonl"),
    Command("export-data", "data", export_data, "homerl export-data runs/quickstart/synth --to data/mine"),
    Command("push-data", "data", push_data, "homerl push-data runs/synth --to org/name"),
)
