"""`homerl bench rescore`: stored trajectories, scored again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, console


def bench_rescore(run: Annotated[Path, typer.Argument(help="a folder of `bench run`, or its trajectories.jsonl")]) -> None:
    """Replay stored trajectories and score them again. Any difference is an error."""
    from homerl.bench.stored_scores import rescore_run as again

    console.print(again(run))


COMMAND = Command("bench rescore", "measure", bench_rescore, "homerl bench rescore runs/bench")
