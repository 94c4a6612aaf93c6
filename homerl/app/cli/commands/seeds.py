"""`homerl seeds`: runs of several seeds, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, console


def seeds(
    runs: Annotated[list[Path], typer.Argument(help="folders of flywheel runs that differ in their seed")],
    suite: Annotated[str | None, typer.Option(help="one suite; default: each of the first run's")] = None,
) -> None:
    """Show the scores of several flywheel runs, with their mean and the interval of RLVE's gain over the runs."""
    from homerl.report.pages.compare_runs import build_seeds_table, find_scored_suites

    for name in [suite] if suite else find_scored_suites(runs[0]):
        console.print(build_seeds_table(runs, name))


COMMAND = Command("seeds", "measure", seeds, "homerl seeds runs/seed0 runs/seed1 runs/seed2")
