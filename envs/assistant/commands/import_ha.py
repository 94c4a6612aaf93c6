"""`homerl import-ha`: a home of Home Assistant as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal.commands import Command
from homerl.host.terminal.console import console, counted


def import_ha(
    source: Annotated[str, typer.Argument(help="Home Assistant's address, or a folder of its files")],
    out: Annotated[Path, typer.Option(help="the home file; what was not understood is written beside it")] = Path(
        "home.json"
    ),
    token_env: Annotated[str, typer.Option(help="the environment variable that holds the token")] = "HA_TOKEN",
    everything: Annotated[bool, typer.Option("--all", help="import all entities, not only those exposed to Assist")] = False,
    save: Annotated[Path | None, typer.Option(help="a folder to keep what was read, to import it again")] = None,
) -> None:
    """Import a home from Home Assistant. What was not understood is listed, and the rest works."""
    from homerl.envs.assistant.import_home import import_ha
    from homerl.envs.assistant.listing.report import notes_table, report_path

    imported = import_ha(source, out, token_env, everything, save)
    plan, rules = imported.home.plan, imported.home.rules
    held = counted(len(plan.rooms), "room"), counted(len(plan.devices), "device"), counted(len(rules), "automation")
    console.print(f"{out}: {', '.join(held)}")
    if imported.notes:
        console.print(notes_table(imported))
        parts = len(imported.notes)
        was = "was" if parts == 1 else "were"
        console.print(f"{report_path(out)}: {counted(parts, 'part')} {was} not understood", soft_wrap=True)


COMMAND = Command(
    "import-ha", "Home Assistant", import_ha, "homerl import-ha http://homeassistant.local:8123 --out home.json"
)
