"""`homerl view episode`: a played episode as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, OutPage, console, count_with_noun


def view_episode(
    source: Annotated[Path, typer.Argument(help="a trajectories.jsonl, a file of rollouts, or the folder of a run")],
    episode: Annotated[str, typer.Option(help="id of the episode, or its number from 1")] = "1",
    out: OutPage = None,
) -> None:
    """Draw a played episode of any world as one HTML page: what was said and called, and what it did."""
    from homerl.report.pages.world_pages import write_episode_page

    page, played = write_episode_page(source, episode, out)
    console.print(f"{page}: {played.blueprint['id']}, {played.outcome}, {count_with_noun(len(played.steps), 'step')}")


COMMAND = Command("view episode", "measure", view_episode, "homerl view episode runs/mine/rlve/bench/heldout --episode 3")
