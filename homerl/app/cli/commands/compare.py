"""`homerl compare`: two runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, console

RUN = "a run's folder, a stage's, one of `homerl bench run`, or a results.jsonl"


def compare(
    run_a: Annotated[Path, typer.Argument(help=RUN)],
    run_b: Annotated[Path, typer.Argument(help="another one, which played the same tasks")],
    out: Annotated[Path, typer.Option(help="the HTML file")] = Path("compare.html"),
) -> None:
    """Compare two runs: which is better and by how much, where their recipes differ, and their curves in one page."""
    from homerl.envs.core.documents import ensure_writable
    from homerl.report.pages.compare_runs import compare_runs as compared
    from homerl.report.pages.compare_runs import comparison_tables, write_comparison

    ensure_writable(out)
    found = compared(run_a, run_b)
    console.print(comparison_tables(found))
    console.print(f"page: {write_comparison(found, out)}")


COMMAND = Command("compare", "measure", compare, "homerl compare runs/step runs/trajectory --out compare.html")
