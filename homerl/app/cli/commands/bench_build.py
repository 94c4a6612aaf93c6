"""`homerl bench build`: a suite as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import InputError
from homerl.host.terminal import Command


def bench_build(
    suite: Annotated[str, typer.Argument(help="the name of a suite")],
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


COMMAND = Command("bench build", "measure", bench_build, "homerl bench build SUITE --home home.json --out built")
