"""`homerl personalhome scores`: the figures of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import write_atomic
from homerl.envs.personalhome.commands._words import Folders, Judge
from homerl.host.terminal import Command, console


def show_personalhome_scores(
    results: Folders,
    out: Annotated[Path | None, typer.Option(help="also write this HTML page")] = None,
    judge_model: Judge = None,
) -> None:
    """Show the paper's figures of one or several runs. Nobody is asked."""
    from homerl.envs.personalhome.bench.scores_report import build_scores_report, render_scores, scores_terminal_tables

    found = build_scores_report(results, judge_model)
    console.print(scores_terminal_tables(found, console.width))
    if out is not None:
        write_atomic(out, render_scores(found))
        console.print(f"page: {out}")


COMMAND = Command(
    "personalhome scores", "measure", show_personalhome_scores, "homerl personalhome scores runs/bench --out scores.html"
)
