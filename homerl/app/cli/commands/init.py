"""`homerl init`: recipes to edit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import InputError
from homerl.host.terminal import Command, console


def init(out: Annotated[Path, typer.Option(help="a folder, which is new or empty")] = Path("recipes")) -> None:
    """Copy the shipped recipes to a folder, to edit them."""
    from homerl.app.recipe_reference import write_recipes

    if out.exists() and any(out.iterdir()):
        raise InputError("the folder is not empty", where=str(out), remedy="name a new one with --out")
    write_recipes(out)
    first = shlex.quote(str(out / "quickstart.yaml"))
    console.print(f"recipes written to {out}; start one with: accelerate launch {first}")


COMMAND = Command("init", "start here", init, "homerl init --out my_recipes")
