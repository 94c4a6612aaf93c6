"""The commands `homerl personalhome`: figures of runs, the judges, reflection, and a look at a household.

`homerl view personalhome` draws a household as a page.

The docstrings of the commands are their help texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envs.documents import InputError, write_atomic
from homerl.play.trajectory import at_row
from homerl.terminal.console import console, one_of
from homerl.worlds.contract import CommandLine

if TYPE_CHECKING:
    from envs.personalhome.household import Household

Folders = Annotated[list[Path], typer.Argument(help="folders of `homerl bench run personalhome-bench`")]
Folder = Annotated[Path, typer.Argument(help="a folder of `homerl bench run personalhome-bench`")]
JudgeUrl = Annotated[str, typer.Option(help="URL of the judge, http://host/v1 (several with commas)")]
JudgeModel = Annotated[str, typer.Option(help="the judge's model")]
Judge = Annotated[str | None, typer.Option("--judge-model", help="the judge whose verdicts count, if there are several")]


def add(cli: CommandLine) -> None:
    """Add the commands to `homerl` and `homerl view`."""
    app = typer.Typer(no_args_is_help=True)
    app.command("scores")(scores_command)
    app.command("judge")(judge_command)
    app.command("reflect")(reflect_command)
    app.command("check-judge")(check_command)
    app.command("household")(household_command)
    cli.app.add_typer(app, name="personalhome", help="PersonalHomeBench: figures, judges, reflection; look at a household.")
    cli.view.command("personalhome")(view_personalhome)


def scores_command(
    results: Folders,
    html: Annotated[Path | None, typer.Option(help="also write this HTML page")] = None,
    judge_model: Judge = None,
) -> None:
    """Show the paper's figures of one or several runs, beside those that it prints. Nobody is asked."""
    from homerl.worlds.personalhome.bench.report import report
    from homerl.worlds.personalhome.pages.scores import render_scores
    from homerl.worlds.personalhome.pages.scores_terminal import tables

    found = report(results, judge_model)
    console.print(tables(found, console.width))
    if html is not None:
        write_atomic(html, render_scores(found))
        console.print(f"page: {html}")


def judge_command(
    results: Folders,
    judge_url: JudgeUrl,
    judge_model: JudgeModel,
    relative: Annotated[bool, typer.Option(help="also order the plans of all runs")] = False,
) -> None:
    """Ask the judges about plans and undecided answers. Verdicts are stored beside the results; start again to go on."""
    from homerl.worlds.personalhome.bench.hearings import judge_runs

    heard = judge_runs(results, judge_url, judge_model, relative)
    console.print(f"{heard.answered} of {heard.asked} questions have a verdict of {judge_model}")
    raise typer.Exit(0 if heard.answered == heard.asked else 1)


def reflect_command(
    results: Folder,
    url: Annotated[str, typer.Option(help="URL of the agent, http://host/v1 (several with commas)")],
    model: Annotated[str, typer.Option(help="the agent's model")],
    judge_url: JudgeUrl,
    judge_model: JudgeModel,
) -> None:
    """Let an agent revise each plan once, by what judge and tools say of it. Start again to go on; `scores` shows both."""
    from homerl.worlds.personalhome.bench.hearings import reflect_run

    heard, missing = reflect_run(results, url, model, judge_url, judge_model)
    console.print(f"{heard.answered} of {heard.asked} revised plans are rated; {missing} were spoiled by a server")
    raise typer.Exit(0 if heard.answered == heard.asked and not missing else 1)


def check_command(
    results: Folder,
    out: Annotated[Path, typer.Option(help="a folder for the page and the sheet of marks")],
    marks: Annotated[list[Path] | None, typer.Option(help="a filled sheet, named after its person; may be repeated")] = None,
    judge_model: Judge = None,
    size: Annotated[int, typer.Option(min=1, help="number of plans")] = 40,
    seed: int = 0,
) -> None:
    """Write a page on which people check the judge; with --marks print how far they agree."""
    from homerl.worlds.personalhome.bench.checking import PAGE, SHEET, read_check, write_check
    from homerl.worlds.personalhome.pages.marks import marks_tables

    if marks:
        console.print(marks_tables(read_check(results, marks, judge_model, size, seed)))
        return
    count = write_check(results, out, judge_model, size, seed)
    console.print(f"{out / PAGE}: {count} plans to check; marks go to a copy of {out / SHEET}")


def household_command(
    seed: int,
    language: Annotated[str, typer.Option(help="en or zh")] = "en",
    heldout: Annotated[bool, typer.Option(help="in held-out words, as in the benchmark")] = False,
    json: Annotated[Path | None, typer.Option(help="also write the household, with its typed facts, to this file")] = None,
) -> None:
    """Make the household of a seed and show it."""
    from homerl.worlds.personalhome.pages.household import household_view

    household = _household(seed, language, heldout)
    console.print(household_view(household))
    if json is not None:
        write_atomic(json, household.model_dump_json(indent=1) + "\n")
        console.print(f"household: {json}")


def view_personalhome(
    source: Annotated[str, typer.Argument(help="a household's seed, a trajectories.jsonl, or a run's folder")],
    out: Annotated[
        Path | None, typer.Option(help="the HTML file; default: beside the input, or household_SEED.html")
    ] = None,
    episode: Annotated[str | None, typer.Option(help="id of the episode, or its number from 1; default: the first")] = None,
    language: Annotated[str | None, typer.Option(help="of a seed's household: en or zh; default: en")] = None,
    heldout: Annotated[bool, typer.Option(help="a seed's household in held-out words, as in the benchmark")] = False,
) -> None:
    """Draw a household as one HTML page: people, rooms, two years and the last day, and what an episode read and needed."""
    from homerl.worlds.personalhome.pages.household_page import render_household
    from homerl.worlds.personalhome.pages.replay import find_household, replayed

    if source.isdecimal():
        if episode is not None:
            raise InputError("a seed has no episodes", "--episode", "name a trajectories.jsonl or a run's folder")
        household, page = _household(int(source), language or "en", heldout), out or Path(f"household_{source}.html")
        write_atomic(page, render_household(household).encode("utf-8", "replace"))
        console.print(
            f"{page}: {household.household_id}, {len(household.members)} people, {len(household.memories)} memories"
        )
        return
    if language is not None or heldout:
        raise InputError("a stored household has its words", source, "leave out --language and --heldout")
    where, trajectory = find_household(Path(source), episode or "1")
    with at_row(where):
        replay = replayed(trajectory, where)
        drawn = render_household(replay.blueprint.household, replay)
    page = out or (Path(source) / "household.html" if Path(source).is_dir() else Path(source).with_suffix(".html"))
    write_atomic(page, drawn.encode("utf-8", "replace"))
    steps = len(trajectory.steps)
    console.print(f"{page}: {replay.blueprint.id}, {trajectory.outcome}, {steps} step{'s' if steps != 1 else ''}")


def _household(seed: int, language: str, heldout: bool) -> Household:
    """The household of a seed. Raises `InputError` for a language that there is not."""
    from envs.personalhome.generate import HouseholdRecipe, make_household

    one_of("--language", language, ("en", "zh"))
    return make_household(seed, HouseholdRecipe(language=language, lexicon="heldout" if heldout else "train"))
