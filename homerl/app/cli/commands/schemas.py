"""`homerl schemas`: the JSON Schemas of files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, console


def schemas(out: Annotated[Path, typer.Option(help="a folder for the schemas")] = Path("schemas")) -> None:
    """Write the JSON Schemas of all files that homerl reads and writes, recipes among them."""
    from homerl.app.recipe_reference import write_recipe_schema
    from homerl.report.cards.json_schemas import write_json_schemas

    console.print("\n".join(map(str, (*write_json_schemas(out), write_recipe_schema(out)))))


COMMAND = Command("schemas", "research", schemas, "homerl schemas --out schemas")
