"""`homerl bench ...`: suites, what models do in them, whether graders are right, and a leaderboard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from homerl.app.cli.completions import complete_model, complete_suite
from homerl.envs.core.documents import InputError
from homerl.host.exit_codes import RunStopped, refuse_missing_packages
from homerl.host.terminal import Command, MaxTokens, OnCpu, Seed, Served, complete_run, console, count_with_noun
from homerl.worlds.registry import default_world


def bench_build(
    suite: Annotated[str, typer.Argument(help="the name of a suite or of a world", autocompletion=complete_suite)],
    out: Annotated[Path, typer.Option(help="a folder for the suite")],
    seed: Annotated[int | None, typer.Option(help="default: that of the shipped suite")] = None,
    language: Annotated[str, typer.Option(help="of the people: its code, such as en or zh")] = "en",
    home: Annotated[
        list[str] | None,
        typer.Option(help="a home file, or a folder of them, for a suite that takes homes; may be repeated"),
    ] = None,
    toolset: Annotated[str | None, typer.Option(help="with --home: the agent's tools; default: those of the suite")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="with --home: the prompt, full or brief; default: that of the suite")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="with --home: a model; default of --toolset and --prompt: what it was trained with")
    ] = None,
) -> None:
    """Make a suite as JSON Lines, with its checksum. Every instance passes the validity checks."""
    from homerl.app.play_suite import build_suite
    from homerl.bench.suites import SEED, make_suite_of_homes
    from homerl.report.cards.model_lineage import trained_blueprint_recipes

    if model is not None:
        if not (known := [one for one in trained_blueprint_recipes(model) if toolset in (None, one.get("toolset"))]):
            what = f"{model} was not trained with these tools, as far as it says"
            raise InputError(what, "--model", "leave it out, and name --toolset and --prompt")
        toolset, prompt = known[0].get("toolset"), prompt or known[0].get("prompt")
    build_suite(make_suite_of_homes(suite, home or (), toolset, prompt), out, SEED if seed is None else seed, language)


def bench_run(
    suite: Annotated[
        str,
        typer.Argument(help="the name of a suite or of a world, or a file of `bench build`", autocompletion=complete_suite),
    ],
    model: Annotated[
        str,
        typer.Option(
            help="http://host/v1 (several with commas), a folder, a hub id, or a baseline", autocompletion=complete_model
        ),
    ],
    out: Annotated[Path, typer.Option(help="a folder for the results")],
    setting: Annotated[
        str | None,
        typer.Option(help="a setting of the suite, such as eia (tools), dr (one answer), react (text); default: its first"),
    ] = None,
    episodes: Annotated[
        Path | None, typer.Option(help="a folder of the paper's released episode files, if the suite reads them")
    ] = None,
    videos: Annotated[
        Path | None,
        typer.Option(help="a folder of real clips, whose frames a served model is shown, if the suite has videos"),
    ] = None,
    first: Annotated[
        str | None, typer.Option(help="who takes what it understands before the model: hassil, Home Assistant's matcher")
    ] = None,
    served: Served = None,
    user: Annotated[str | None, typer.Option(help="URL of an LLM user; default: the scripted user")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="concurrent episodes")] = 16,
    runs: Annotated[int, typer.Option(min=1, help="plays of each instance, for pass^k")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="play only LIMIT instances, spread evenly over the suite")] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0 samples the likeliest token")] = 0.0,
    max_tokens: MaxTokens = None,
    price: Annotated[str | None, typer.Option(help="prices of a million input and output tokens, as 0.5,1.5")] = None,
    seed: Seed = 0,
    cpu: OnCpu = False,
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
    from homerl.app.served.model_agents import is_model_url

    if any(is_model_url(one) for one in (model, user, judge) if one):
        refuse_missing_packages("numpy", "openai")  # of two extras
    from homerl.app.play_suite import BenchRun, make_judge_settings
    from homerl.app.play_suite import run_benchmark as play
    from homerl.report.pages.bench_report import write_bench_report

    if wandb:
        _refuse_logged_out()
    settings = BenchRun(
        suite, model, out, setting, episodes, served, user, at_once, runs, limit, temperature, max_tokens,
        prices=_parse_prices(price), videos=videos, resume=resume, seed=seed, cpu=cpu, first=first,
        judge=make_judge_settings(judge, judge_model, judge_votes, judge_sample),
    )  # fmt: skip
    play(settings)
    console.print(write_bench_report(out))
    if wandb:
        from homerl.report.pages.bench_report import log_bench_to_wandb

        console.print(log_bench_to_wandb(out, wandb))


def _refuse_logged_out() -> None:
    """Raise `InputError` before hours of play whose figures Weights & Biases would not take."""
    from homerl.app.runs.preflight import find_wandb_troubles

    if os.environ.get("WANDB_MODE", "online") != "online":
        return
    for trouble in find_wandb_troubles("WANDB_MODE=offline keeps all beside the results, for `wandb sync`"):
        raise InputError(trouble, "--wandb", "log in, or leave it out")


def _parse_prices(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        paid, got = map(float, text.split(","))
        return paid, got
    except ValueError:
        raise InputError(f"'{text}' is not two prices", where="--price", remedy="write for example 0.5,1.5") from None


def bench_rescore(run: Annotated[Path, typer.Argument(help="a folder of `bench run`, or its trajectories.jsonl")]) -> None:
    """Replay stored trajectories and score them again. Any difference is an error."""
    from homerl.bench.stored_scores import rescore_run as again

    console.print(again(run))


WORLD, MODEL = default_world().name, "runs/quickstart/rlve/model"  # the examples play the first suite of the world


def bench_validate(
    suite: Annotated[str, typer.Argument(help="the name of a suite, or a file of `bench build`")],
    setting: Annotated[str | None, typer.Option(help="a setting of the suite; default: its first")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="check only LIMIT instances, spread evenly over the suite")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="a file for what was found in each instance, as JSON Lines")] = None,
) -> None:
    """Check a suite's grader: on each instance the expert passes, and doing nothing or a near miss fails."""
    from homerl.bench.grader_validation import validate_suite
    from homerl.host.progress_bar import progress_bar, progress_updater
    from homerl.play.trajectory import write_rows

    with progress_bar() as bar:
        task = bar.add_task(f"validate {Path(suite).name}", total=None, note=setting or "")
        found = validate_suite(suite, setting, limit, progress_updater(bar, task))
    if out is not None:
        write_rows(out, found.to_rows())
    console.print(found.describe(), highlight=False)
    if found.flawed:
        of = count_with_noun(len(found.instances), "instance")
        raise RunStopped(f"the grader judges {len(found.flawed)} of {of} wrongly")


def bench_publish(
    runs: Annotated[list[Path] | None, typer.Argument(help="folders of `bench run`", autocompletion=complete_run)] = None,
    out: Annotated[
        Path, typer.Option(help="the page, .html or .md; the results stand beside it in a file .json, and stay there")
    ] = Path("leaderboard.html"),
    add: Annotated[
        list[Path] | None, typer.Option(help="a leaderboard's file of somebody else, to merge; may be repeated")
    ] = None,
    name: Annotated[str | None, typer.Option(help="the model's name on the page; default: as the runs call it")] = None,
    parameters: Annotated[
        int | None, typer.Option(min=1, help="the model's size, which a run with a server does not know")
    ] = None,
) -> None:
    """Add runs to a leaderboard: a page of models over suites, with the file from which it is made.

    A result without its grader's version, or of other tasks than the shipped suite's, is refused. One that another version
    of the grader judged is marked.
    """
    from homerl.report.pages.leaderboard_page import describe_leaderboard, leaderboard_tables, publish_results

    board = publish_results(runs or [], add or [], out, name, parameters)
    console.print(leaderboard_tables(board))
    console.print(f"{out}: {describe_leaderboard(board)}", highlight=False)


COMMAND = (
    Command("bench build", "measure", bench_build, f"homerl bench build {WORLD} --out built"),
    Command(
        "bench run",
        "measure",
        bench_run,
        f"homerl bench run {WORLD} --model {MODEL} --cpu --out runs/bench",
    ),
    Command("bench rescore", "measure", bench_rescore, "homerl bench rescore runs/bench"),
    Command("bench publish", "measure", bench_publish, "homerl bench publish runs/bench --name my-model"),
    Command("bench validate", "measure", bench_validate, f"homerl bench validate {WORLD} --limit 20"),
)
