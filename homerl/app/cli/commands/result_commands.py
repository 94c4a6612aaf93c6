"""What is done with what was played: `homerl compare`, `seeds`, `view episode`, `reverify`, `export-data`, `push-data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, OutPage, RunFolder, console, count_with_noun

RUN = "a run's folder, a stage's, one of `homerl bench run`, or a results.jsonl"


def compare(
    run_a: Annotated[Path, typer.Argument(help=RUN)],
    run_b: Annotated[Path, typer.Argument(help="another one, which played the same tasks")],
    out: Annotated[Path, typer.Option(help="the HTML file")] = Path("compare.html"),
) -> None:
    """Compare two runs: which is better and by how much, where their recipes differ, and their curves in one page."""
    from homerl.envs.core.documents import ensure_writable
    from homerl.report.pages.compare_runs import compare_runs as compared
    from homerl.report.pages.compare_runs import comparison_tables, write_comparison

    ensure_writable(out)
    found = compared(run_a, run_b)
    console.print(comparison_tables(found))
    console.print(f"page: {write_comparison(found, out)}")


def seeds(
    runs: Annotated[list[Path], typer.Argument(help="folders of flywheel runs that differ in their seed")],
    suite: Annotated[str | None, typer.Option(help="one suite; default: each of the first run's")] = None,
) -> None:
    """Show the scores of several flywheel runs, with their mean and the interval of RLVE's gain over the runs."""
    from homerl.report.pages.compare_runs import build_seeds_table, find_scored_suites

    for name in [suite] if suite else find_scored_suites(runs[0]):
        console.print(build_seeds_table(runs, name))


def view_episode(
    source: Annotated[Path, typer.Argument(help="a trajectories.jsonl, a file of rollouts, or the folder of a run")],
    episode: Annotated[str, typer.Option(help="id of the episode, or its number from 1")] = "1",
    out: OutPage = None,
) -> None:
    """Draw a played episode of any world as one HTML page: what was said and called, and what it did."""
    from homerl.report.pages.world_pages import write_episode_page

    page, played = write_episode_page(source, episode, out)
    console.print(f"{page}: {played.blueprint['id']}, {played.outcome}, {count_with_noun(len(played.steps), 'step')}")


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
    Command("compare", "measure", compare, "homerl compare runs/step runs/trajectory --out compare.html"),
    Command("seeds", "measure", seeds, "homerl seeds runs/seed0 runs/seed1 runs/seed2"),
    Command("view episode", "measure", view_episode, "homerl view episode runs/mine/rlve/bench/heldout --episode 3"),
    Command("reverify", "data", reverify, "homerl reverify runs/mine/synth/trajectories.jsonl"),
    Command("export-data", "data", export_data, "homerl export-data runs/synth --to data/mine"),
    Command("push-data", "data", push_data, "homerl push-data runs/synth --to org/name"),
)
