"""`homerl view personalhome`: a household as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envs.documents import InputError, write_atomic
from homerl.play.trajectory import at_row
from homerl.terminal.commands import Command
from homerl.terminal.console import console, counted, one_of

if TYPE_CHECKING:
    from envs.personalhome.household import Household


def view_personalhome(
    source: Annotated[
        Path | None, typer.Argument(help="a trajectories.jsonl, or a run's folder; default: the seed makes a household")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="of a made household; default: 0")] = None,
    out: Annotated[
        Path | None, typer.Option(help="the HTML file; default: beside the input, or household_SEED.html")
    ] = None,
    episode: Annotated[str | None, typer.Option(help="id of the episode, or its number from 1; default: the first")] = None,
    language: Annotated[str | None, typer.Option(help="of a made household: en or zh; default: en")] = None,
    heldout: Annotated[
        bool, typer.Option("--heldout", help="a made household in held-out words, as in the benchmark")
    ] = False,
) -> None:
    """Draw a household as one HTML page: people, rooms, two years and the last day, and what an episode read and needed."""
    from homerl.worlds.personalhome.pages.household_page import render_household
    from homerl.worlds.personalhome.pages.replay import find_household, replayed

    if source is None:
        if episode is not None:
            raise InputError("a made household has no episodes", "--episode", "name a trajectories.jsonl or a run's folder")
        household, page = _household(seed or 0, language or "en", heldout), out or Path(f"household_{seed or 0}.html")
        write_atomic(page, render_household(household).encode("utf-8", "replace"))
        held = f"{len(household.members)} people, {len(household.memories)} memories"
        console.print(f"{page}: {household.household_id}, {held}")
        return
    if seed is not None or language is not None or heldout:
        raise InputError("a stored household is as it is", str(source), "leave out --seed, --language and --heldout")
    where, trajectory = find_household(source, episode or "1")
    with at_row(where):
        replay = replayed(trajectory, where)
        drawn = render_household(replay.blueprint.household, replay)
    page = out or (source / "household.html" if source.is_dir() else source.with_suffix(".html"))
    write_atomic(page, drawn.encode("utf-8", "replace"))
    console.print(f"{page}: {replay.blueprint.id}, {trajectory.outcome}, {counted(len(trajectory.steps), 'step')}")


def _household(seed: int, language: str, heldout: bool) -> Household:
    """The household of a seed. Raises `InputError` for a language that there is not."""
    from envs.personalhome.generate import HouseholdRecipe, make_household

    one_of("--language", language, ("en", "zh"))
    return make_household(seed, HouseholdRecipe(language=language, lexicon="heldout" if heldout else "train"))


COMMAND = Command(
    "view personalhome", "measure", view_personalhome, "homerl view personalhome --seed 7 --out household.html"
)
