"""`homerl personalhome household`: a household, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envs.documents import write_atomic
from homerl.terminal.commands import Command, Seed
from homerl.terminal.console import console
from homerl.worlds.personalhome.commands._words import household_of


def household(
    seed: Seed = 0,
    language: Annotated[str, typer.Option(help="en or zh")] = "en",
    heldout: Annotated[bool, typer.Option(help="in held-out words, as in the benchmark")] = False,
    out: Annotated[Path | None, typer.Option(help="also write the household, with its typed facts, to this file")] = None,
) -> None:
    """Make the household of a seed and show it."""
    from homerl.worlds.personalhome.pages.household import household_view

    made = household_of(seed, language, heldout)
    console.print(household_view(made))
    if out is not None:
        write_atomic(out, made.model_dump_json(indent=1) + "\n")
        console.print(f"household: {out}")


COMMAND = Command("personalhome household", "measure", household, "homerl personalhome household --seed 7")
