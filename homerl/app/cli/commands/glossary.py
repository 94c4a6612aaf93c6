"""`homerl glossary`: words of pages and reports."""

from __future__ import annotations

from homerl.host.terminal import Command, OutText, print_or_write


def glossary(out: OutText = None) -> None:
    """Print what the words and abbreviations of pages and reports mean (Markdown)."""
    from homerl.report.pages.world_pages import render_glossary_page

    print_or_write(render_glossary_page(), out, "what words and abbreviations mean")


COMMAND = Command("glossary", "research", glossary, "homerl glossary --out glossary.md")
