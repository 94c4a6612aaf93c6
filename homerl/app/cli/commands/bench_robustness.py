"""`homerl bench robustness`: how much a model loses when people do not say all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import InputError
from homerl.host.terminal.commands import Command, MaxTokens, OnCpu, Seed, Served
from homerl.host.terminal.console import console


def bench_robustness(
    context: typer.Context,
    suite: Annotated[
        str, typer.Argument(help="the name of a suite of dialogues, a file of `bench build`, or a recipe of `run: bench`")
    ],
    out: Annotated[Path, typer.Option(help="a folder for the results")],
    model: Annotated[
        str | None, typer.Option(help="http://host/v1 (several with commas), a folder, a hub id, or a baseline")
    ] = None,
    setting: Annotated[str | None, typer.Option(help="a setting of the suite with dialogues; default: its first")] = None,
    served: Served = None,
    user: Annotated[str | None, typer.Option(help="URL of an LLM user; default: the scripted user")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="concurrent episodes")] = 16,
    runs: Annotated[int, typer.Option(min=1, help="plays of each instance")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="only LIMIT instances, spread evenly over the suite")] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0 samples the likeliest token")] = 0.0,
    max_tokens: MaxTokens = None,
    seed: Seed = 0,
    cpu: OnCpu = False,
    resume: Annotated[bool, typer.Option(help="continue the run in the folder")] = False,
) -> None:
    """Compare success when wishes are told at once with success under each behaviour of the user alone.

    A recipe says itself who plays and how: beside it stand only --out, --limit (of each suite) and --resume.
    """
    from homerl.app.studies.robustness import run_recipe_robustness, run_robustness
    from homerl.app.studies.suite import BenchRun

    if Path(suite).suffix in (".yaml", ".yml"):
        _refuse_options(context, {"suite", "out", "limit", "resume"}, suite)
        for table in run_recipe_robustness(suite, out, limit, resume):
            console.print(table)
        return
    if model is None:
        raise InputError("no model is named", "--model", "name one, or a recipe of `run: bench` in place of the suite")
    settings = BenchRun(
        suite, model, out, setting, served=served, user=user, at_once=at_once, runs=runs, limit=limit,
        temperature=temperature, max_tokens=max_tokens, seed=seed, cpu=cpu, resume=resume,
    )  # fmt: skip
    console.print(run_robustness(settings))


def _refuse_options(context: typer.Context, allowed: set[str], recipe: str) -> None:
    """Raise `InputError` for options of the command line that a recipe has keys for."""
    given = [name for name in context.params if name not in allowed and _is_given(context, name)]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"the recipe says itself what {options} would", recipe, "leave it out, or write it in the recipe")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


COMMAND = Command(
    "bench robustness",
    "measure",
    bench_robustness,
    "homerl bench robustness SUITE --model runs/mine/rlve/model --out runs/robust",
)
