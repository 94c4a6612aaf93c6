"""`homerl view agent`: the log of a served agent as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import InputError, write_atomic
from homerl.host.html_pages import page_path
from homerl.host.terminal import Command, OutPage, console, count_with_noun


def view_agent(log: Annotated[Path, typer.Argument(help="a log of `homerl serve-agent`")], out: OutPage = None) -> None:
    """Write a page of what a served agent did, or would have done, day by day."""
    from homerl.envs.assistant.serving.exchange_journal import OWNER_ALONE, read_journal
    from homerl.envs.assistant.serving.journal_page import render_journal_page

    entries, damaged = read_journal(log)
    if damaged and not entries:
        first = damaged[0]
        raise InputError(first.why, f"{log}:{first.line}", "is it a log of an agent?")
    page = page_path(log, out)
    write_atomic(page, render_journal_page(entries, damaged))
    page.chmod(OWNER_ALONE)
    console.print(f"{page}: {count_with_noun(len(entries), 'exchange')}")
    for line in damaged:
        console.print(f"{log}:{line.line} is damaged ({line.why})")


COMMAND = Command("view agent", "measure", view_agent, "homerl view agent agent.jsonl")
