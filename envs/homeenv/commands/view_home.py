"""`homerl view home`: homes as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.html_pages import page_path
from homerl.host.terminal import Command, OutPage, console, count_with_noun


def view_home(files: Annotated[list[Path], typer.Argument(help="home files")], out: OutPage = None) -> None:
    """Draw homes as one HTML page: floor plans, the state of every device, and its services."""
    from homerl.envs.homeenv.pages.home_page import write_homes

    page = page_path(files[0], out)
    for view in write_homes(files, page):
        held = f"{count_with_noun(len(view.rooms_by_id), 'room')}, {count_with_noun(len(view.home.plan.devices), 'device')}"
        console.print(f"{page}: {view.name}, {held}")


COMMAND = Command("view home", "measure", view_home, "homerl view home home.json --out home.html")
