"""`homerl glossary`: words of pages and reports."""

from __future__ import annotations

from envs.documents import write_atomic
from homerl.terminal.commands import Command, OutText
from homerl.terminal.console import console, say


def glossary(out: OutText = None) -> None:
    """Print what the words and abbreviations of pages and reports mean (Markdown)."""
    from homerl.view.glossary import page

    if out is None:
        say(page(), end="")
    else:
        write_atomic(out, page())
        console.print(f"{out}: what words and abbreviations mean")


COMMAND = Command("glossary", "research", glossary, "homerl glossary --out glossary.md")
