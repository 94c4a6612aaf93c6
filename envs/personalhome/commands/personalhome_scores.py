"""`homerl personalhome scores`: the figures of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import write_atomic
from homerl.envs.personalhome.commands._words import Folders, Judge
from homerl.host.terminal.commands import Command
from homerl.host.terminal.console import console


def scores(
    results: Folders,
    out: Annotated[Path | None, typer.Option(help="also write this HTML page")] = None,
    judge_model: Judge = None,
) -> None:
    """Show the paper's figures of one or several runs. Nobody is asked."""
    from homerl.envs.personalhome.bench.report import report
    from homerl.envs.personalhome.pages.scores import render_scores
    from homerl.envs.personalhome.pages.scores_terminal import tables

    found = report(results, judge_model)
    console.print(tables(found, console.width))
    if out is not None:
        write_atomic(out, render_scores(found))
        console.print(f"page: {out}")


COMMAND = Command("personalhome scores", "measure", scores, "homerl personalhome scores runs/bench --out scores.html")
