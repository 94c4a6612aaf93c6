"""`homerl bench`: build a suite, run it, score it again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from envs.documents import InputError
from homerl.terminal.console import console

app = typer.Typer(no_args_is_help=True)
TOKENS = "most tokens of a message; default: 2048 of a server, 512 of a model that is loaded here"


@app.command("build")
def build_command(
    suite: str,
    out: Annotated[Path, typer.Option(help="a folder for the suite")],
    seed: Annotated[int | None, typer.Option(help="default: that of the shipped suite")] = None,
    language: str = "en",
    homes: Annotated[
        list[str] | None,
        typer.Option(help="a home file, or a folder of them, for a suite that takes homes; may be repeated"),
    ] = None,
    toolset: Annotated[str | None, typer.Option(help="with --homes: the agent's tools; default: those of the suite")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="with --homes: the prompt, full or brief; default: that of the suite")
    ] = None,
) -> None:
    """Make a suite as JSON Lines, with its checksum. Every instance passes the validity checks."""
    from homerl.bench.suites import SEED, suite_of_homes
    from homerl.run.bench_build import build_suite

    build_suite(suite_of_homes(suite, homes or (), toolset, prompt), out, SEED if seed is None else seed, language)


@app.command("run")
def run_command(
    suite: Annotated[str, typer.Argument(help="the name of a suite or of a world, or a file of `bench build`")],
    model: Annotated[str, typer.Option(help="http://host/v1 (several with commas), a folder, a hub id, or a baseline")],
    out: Annotated[Path, typer.Option(help="a folder for the results")],
    setting: Annotated[
        str | None,
        typer.Option(help="a setting of the suite, such as eia (tools), dr (one answer), react (text); default: its first"),
    ] = None,
    episodes: Annotated[
        Path | None, typer.Option(help="a folder of the paper's released episode files, if the suite reads them")
    ] = None,
    mended: Annotated[bool, typer.Option(help="play these files without the known faults of the paper's program")] = False,
    videos: Annotated[
        Path | None,
        typer.Option(help="a folder of real clips, whose frames a served model is shown, if the suite has videos"),
    ] = None,
    served: Annotated[str | None, typer.Option(help="the model's name, if the server has several")] = None,
    user: Annotated[str | None, typer.Option(help="URL of an LLM user; default: the scripted user")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="concurrent episodes")] = 16,
    runs: Annotated[int, typer.Option(min=1, help="plays of each instance, for pass^k")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="play only LIMIT instances, spread evenly over the suite")] = None,
    temperature: Annotated[float, typer.Option(min=0)] = 0.0,
    max_tokens: Annotated[int | None, typer.Option(min=1, help=TOKENS)] = None,
    price: Annotated[str | None, typer.Option(help="prices of a million input and output tokens, as 0.5,1.5")] = None,
    seed: int = 0,
    cpu: Annotated[bool, typer.Option(help="load a local model on the CPU, in float32")] = False,
    resume: Annotated[bool, typer.Option(help="continue the run in the folder")] = False,
    judge: Annotated[str | None, typer.Option(help="URL of an LLM judge for answers that no rule decides")] = None,
    judge_model: Annotated[str | None, typer.Option(help="the judge's name, if the server has several models")] = None,
    judge_votes: Annotated[
        int | None, typer.Option(help="an odd number, of which the majority counts; default: that of the suite")
    ] = None,
    judge_sample: Annotated[
        int, typer.Option(min=0, help="number of decided cases for the judge, to report its agreement with the rules")
    ] = 200,
    wandb: Annotated[str | None, typer.Option(help="log to this Weights & Biases project")] = None,
) -> None:
    """Play a suite and write results, trajectories and a report."""
    from homerl.run.bench_command import BenchRun, judge_of
    from homerl.run.bench_command import run_benchmark as play
    from homerl.view.bench_report import write_report

    if wandb:
        _refuse_logged_out()
    settings = BenchRun(
        suite, model, out, setting, episodes, mended, served, user, at_once, runs, limit, temperature, max_tokens,
        prices=_prices(price), videos=videos, resume=resume, seed=seed, cpu=cpu,
        judge=judge_of(judge, judge_model, judge_votes, judge_sample),
    )  # fmt: skip
    play(settings)
    console.print(write_report(out))
    if wandb:
        from homerl.view.bench_log import log_to_wandb

        console.print(log_to_wandb(out, wandb))


def _refuse_logged_out() -> None:
    """Raise `InputError` before hours of play whose figures Weights & Biases would not take."""
    from homerl.run.preflight import wandb_troubles

    if os.environ.get("WANDB_MODE", "online") != "online":
        return
    for trouble in wandb_troubles("WANDB_MODE=offline keeps all beside the results, for `wandb sync`"):
        raise InputError(trouble, "--wandb", "log in, or leave it out")


def _prices(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        paid, got = map(float, text.split(","))
        return paid, got
    except ValueError:
        raise InputError(f"'{text}' is not two prices", where="--price", remedy="write for example 0.5,1.5") from None


@app.command("robustness")
def robustness_command(
    context: typer.Context,
    suite: Annotated[
        str, typer.Argument(help="the name of a suite of dialogues, a file of `bench build`, or a recipe of `run: bench`")
    ],
    out: Annotated[Path, typer.Option(help="a folder for the results")],
    model: Annotated[
        str | None, typer.Option(help="http://host/v1 (several with commas), a folder, a hub id, or a baseline")
    ] = None,
    setting: Annotated[str | None, typer.Option(help="a setting of the suite with dialogues; default: its first")] = None,
    served: Annotated[str | None, typer.Option(help="the model's name, if the server has several")] = None,
    user: Annotated[str | None, typer.Option(help="URL of an LLM user; default: the scripted user")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="concurrent episodes")] = 16,
    runs: Annotated[int, typer.Option(min=1, help="plays of each instance")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="only LIMIT instances, spread evenly over the suite")] = None,
    temperature: Annotated[float, typer.Option(min=0)] = 0.0,
    max_tokens: Annotated[int | None, typer.Option(min=1, help=TOKENS)] = None,
    seed: int = 0,
    cpu: Annotated[bool, typer.Option(help="load a local model on the CPU, in float32")] = False,
    resume: Annotated[bool, typer.Option(help="continue the run in the folder")] = False,
) -> None:
    """Compare success when wishes are told at once with success under each behaviour of the user alone.

    A recipe says itself who plays and how: beside it stand only --out, --limit (of each suite) and --resume.
    """
    from homerl.run.bench_command import BenchRun
    from homerl.run.robustness import run_recipe_robustness, run_robustness

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


@app.command("rescore")
def rescore_command(run: Annotated[Path, typer.Argument(help="a folder of `bench run`, or its trajectories.jsonl")]) -> None:
    """Replay stored trajectories and score them again. Any difference is an error."""
    from homerl.bench.rescore import rescore as again

    console.print(again(run))
