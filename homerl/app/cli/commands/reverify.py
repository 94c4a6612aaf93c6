"""`homerl reverify`: a replay of stored trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, console


def reverify(file: Annotated[Path, typer.Argument(help="a trajectories.jsonl, or a file of rollouts")]) -> None:
    """Replay every trajectory in a file and recompute its rewards. Any difference is an error."""
    from homerl.play.replay import reverify_file
    from homerl.worlds.registry import restore_situation

    console.print(reverify_file(file, restore_situation))


COMMAND = Command("reverify", "data", reverify, "homerl reverify runs/mine/synth/trajectories.jsonl")
