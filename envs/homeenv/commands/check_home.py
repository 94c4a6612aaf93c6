"""`homerl check-home`: a home file, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, console, count_with_noun


def check_home(file: Annotated[Path, typer.Argument(help="a home file")]) -> None:
    """Check a home file and summarise it."""
    from homerl.envs.homeenv.sim.home_file import load_home

    home = load_home(file)
    held = f"{count_with_noun(len(home.plan.rooms), 'room')}, {count_with_noun(len(home.plan.devices), 'device')}"
    console.print(f"{file}: {held}. The file is sound")
    console.print(f"state key {home.state_key()}: the same for every home in the same state", style="dim")


COMMAND = Command("check-home", "data", check_home, "homerl check-home home.json")
