"""`homerl view personalhome`: a household as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import write_atomic
from homerl.host.terminal import Command, Seed, check_option_value, console


def view_personalhome(
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="the HTML file; default: household_SEED.html")] = None,
    language: Annotated[str, typer.Option(help="en or zh")] = "en",
    heldout: Annotated[bool, typer.Option("--heldout", help="in held-out words, as in the benchmark")] = False,
) -> None:
    """Make the household of a seed, and draw it as one HTML page: people, rooms, two years and the last day."""
    from homerl.envs.personalhome.pages.household_page import render_household
    from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household

    check_option_value("--language", language, ("en", "zh"))
    household = make_household(seed, HouseholdRecipe(language=language, lexicon="heldout" if heldout else "train"))
    page = out or Path(f"household_{seed}.html")
    write_atomic(page, render_household(household).encode("utf-8", "replace"))
    held = f"{len(household.members)} people, {len(household.memories)} memories"
    console.print(f"{page}: {household.household_id}, {held}")


COMMAND = Command(
    "view personalhome", "measure", view_personalhome, "homerl view personalhome --seed 7 --out household.html"
)
