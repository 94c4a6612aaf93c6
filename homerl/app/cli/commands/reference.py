"""`homerl reference`: every key of recipes."""

from __future__ import annotations

from homerl.host.terminal import Command, OutText, print_or_write


def reference(out: OutText = None) -> None:
    """Print every key of every kind of recipe: its type, its default and what it is (Markdown)."""
    from homerl.app.recipe_reference import render_reference as page

    print_or_write(page(), out, "every key of every kind of recipe")


COMMAND = Command("reference", "research", reference, "homerl reference --out reference.md")
