"""What is written for people and editors: `homerl glossary`, `reference` and `schemas`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, OutText, console, print_or_write


def glossary(out: OutText = None) -> None:
    """Print what the words and abbreviations of pages and reports mean (Markdown)."""
    from homerl.report.pages.world_pages import render_glossary_page

    print_or_write(render_glossary_page(), out, "what words and abbreviations mean")


def reference(out: OutText = None) -> None:
    """Print every key of every kind of recipe: its type, its default and what it is (Markdown)."""
    from homerl.app.recipe_reference import render_reference as page

    print_or_write(page(), out, "every key of every kind of recipe")


def schemas(out: Annotated[Path, typer.Option(help="a folder for the schemas")] = Path("schemas")) -> None:
    """Write the JSON Schemas of all files that homerl reads and writes, recipes among them."""
    from homerl.app.recipe_reference import write_recipe_schema
    from homerl.report.cards.json_schemas import write_json_schemas

    console.print("\n".join(map(str, (*write_json_schemas(out), write_recipe_schema(out)))))


COMMAND = (
    Command("glossary", "research", glossary, "homerl glossary --out glossary.md"),
    Command("reference", "research", reference, "homerl reference --out reference.md"),
    Command("schemas", "research", schemas, "homerl schemas --out schemas"),
)
