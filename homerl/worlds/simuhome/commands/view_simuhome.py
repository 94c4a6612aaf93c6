"""`homerl view simuhome`: an episode of SimuHome as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.pages.templates import page_of
from homerl.terminal.commands import Command, OutPage
from homerl.terminal.console import console, counted, one_of


def view_simuhome(
    file: Annotated[Path, typer.Argument(help="an episode file, or a trajectories.jsonl of SimuHome")],
    out: OutPage = None,
    row: Annotated[int, typer.Option(min=1, help="number of the trajectory in a JSONL file")] = 1,
    agent: Annotated[str, typer.Option(help="the scripted agent that plays an episode file")] = "expert",
) -> None:
    """Draw an episode of SimuHome as one HTML page: rooms, devices, workflows and calls over virtual time."""
    from homerl.worlds.simuhome.agents import BASELINES
    from homerl.worlds.simuhome.pages.episode import write_page

    one_of("--agent", agent, BASELINES)
    page = page_of(file, out)
    trajectory = write_page(file, page, row, agent)
    console.print(f"{page}: {trajectory.blueprint['id']}, {trajectory.outcome}, {counted(len(trajectory.steps), 'message')}")


COMMAND = Command("view simuhome", "measure", view_simuhome, "homerl view simuhome episode.json --agent expert")
