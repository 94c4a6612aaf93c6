"""`homerl personalhome check-judge`: people beside the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.personalhome.commands._words import Folder, Judge
from homerl.host.terminal.commands import Command, Seed
from homerl.host.terminal.console import console, count_with_noun


def check_judge(
    results: Folder,
    out: Annotated[Path, typer.Option(help="a folder for the page and the sheet of marks")],
    marks: Annotated[list[Path] | None, typer.Option(help="a filled sheet, named after its person; may be repeated")] = None,
    judge_model: Judge = None,
    size: Annotated[int, typer.Option(min=1, help="number of plans")] = 40,
    seed: Seed = 0,
) -> None:
    """Write a page on which people check the judge; with --marks print how far they agree."""
    from homerl.envs.personalhome.bench.checking import PAGE, SHEET, read_check, write_check
    from homerl.envs.personalhome.pages.marks import marks_tables

    if marks:
        console.print(marks_tables(read_check(results, marks, judge_model, size, seed)))
        return
    count = write_check(results, out, judge_model, size, seed)
    console.print(f"{out / PAGE}: {count_with_noun(count, 'plan')} to check; marks go to a copy of {out / SHEET}")


COMMAND = Command(
    "personalhome check-judge", "measure", check_judge, "homerl personalhome check-judge runs/bench --out check"
)
