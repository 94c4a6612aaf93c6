"""`homerl import-ha`: a home of Home Assistant as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, console, count_with_noun


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
    from homerl.envs.assistant.home_import import import_home_to_file, import_notes_table, import_report_path

    imported = import_home_to_file(source, out, token_env, everything, save)
    plan, rules = imported.home.plan, imported.home.rules
    held = (
        count_with_noun(len(plan.rooms), "room"),
        count_with_noun(len(plan.devices), "device"),
        count_with_noun(len(rules), "automation"),
    )
    console.print(f"{out}: {', '.join(held)}")
    if imported.notes:
        console.print(import_notes_table(imported))
        parts = len(imported.notes)
        was = "was" if parts == 1 else "were"
        console.print(f"{import_report_path(out)}: {count_with_noun(parts, 'part')} {was} not understood", soft_wrap=True)


COMMAND = Command(
    "import-ha", "Home Assistant", import_ha, "homerl import-ha http://homeassistant.local:8123 --out home.json"
)
