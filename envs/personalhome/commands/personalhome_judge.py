"""`homerl personalhome judge`: verdicts of judges."""

from __future__ import annotations

from typing import Annotated

import typer

from homerl.envs.personalhome.commands._words import Folders, JudgeModel, JudgeUrl
from homerl.host.terminal import Command, console


def judge_personalhome_runs(
    results: Folders,
    judge_url: JudgeUrl,
    judge_model: JudgeModel,
    relative: Annotated[bool, typer.Option(help="also order the plans of all runs")] = False,
) -> None:
    """Ask the judges about plans and undecided answers. Verdicts are stored beside the results; start again to go on."""
    from homerl.envs.personalhome.bench.judged_runs import judge_runs

    heard = judge_runs(results, judge_url, judge_model, relative)
    console.print(f"{heard.answered} of {heard.asked} questions have a verdict of {judge_model}")
    raise typer.Exit(0 if heard.answered == heard.asked else 1)


COMMAND = Command(
    "personalhome judge",
    "measure",
    judge_personalhome_runs,
    "homerl personalhome judge runs/bench --judge-url http://localhost:8000/v1 --judge-model name",
)
