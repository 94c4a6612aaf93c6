"""`homerl personalhome reflect`: plans, revised once."""

from __future__ import annotations

from typing import Annotated

import typer

from homerl.envs.personalhome.commands._words import Folder, JudgeModel, JudgeUrl
from homerl.host.terminal import Command, console


def reflect_personalhome_run(
    results: Folder,
    url: Annotated[str, typer.Option(help="URL of the agent, http://host/v1 (several with commas)")],
    model: Annotated[str, typer.Option(help="the agent's model")],
    judge_url: JudgeUrl,
    judge_model: JudgeModel,
) -> None:
    """Let an agent revise each plan once, by what judge and tools say of it. Start again to go on; `scores` shows both."""
    from homerl.envs.personalhome.bench.judged_runs import reflect_run

    heard, missing = reflect_run(results, url, model, judge_url, judge_model)
    console.print(f"{heard.answered} of {heard.asked} revised plans are rated; {missing} were spoiled by a server")
    raise typer.Exit(0 if heard.answered == heard.asked and not missing else 1)


COMMAND = Command(
    "personalhome reflect",
    "measure",
    reflect_personalhome_run,
    "homerl personalhome reflect runs/bench --url http://localhost:8000/v1 --model name "
    "--judge-url http://localhost:8001/v1 --judge-model other",
)
