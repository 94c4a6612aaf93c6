"""What a command of the command line is, and the words of arguments that many commands share.

Invariants: a command is one file, which defines `COMMAND`; what a command reads is an argument, a file or folder that it
writes is `--out`, a home of one's own is `--home`, and a number that decides what is drawn is `--seed`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

Group = Literal["start here", "data", "train", "measure", "Home Assistant", "research"]
GROUPS: tuple[Group, ...] = get_args(Group)  # in the order of `homerl --help`


@dataclass(frozen=True)
class Command:
    """A command. `words` are what a person types after `homerl`, such as `bench run`; its file is `bench_run.py`.

    The signature of `work` gives the options, and its docstring the help. `example` is a whole command line. With
    `overrides`, words that are no options override keys of a recipe, and are in `context.args`.
    """

    words: str
    group: Group
    work: Callable[..., None]
    example: str
    overrides: bool = False

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.words.replace(" ", "_").replace("-", "_")


RecipeName = Annotated[str, typer.Argument(help="a recipe: a file, or the name of a shipped one, such as quickstart.yaml")]
From = Annotated[
    Path | None, typer.Option("--from", help="another run, at whose synthesis or SFT this one starts", show_default=False)
]
RunFolder = Annotated[Path, typer.Argument(help="a run's folder: the `out` of its recipe")]
Seed = Annotated[int, typer.Option(help="of what is drawn: equal seeds draw the same")]
OutPage = Annotated[Path | None, typer.Option(help="the HTML file; default: beside the input")]
OutText = Annotated[Path | None, typer.Option(help="a file; printed if left out")]
OnCpu = Annotated[bool, typer.Option("--cpu", help="use the CPU, even where there is a GPU")]
Served = Annotated[str | None, typer.Option(help="the model's name, if the server has several")]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, help="most tokens of a message; default: 2048 of a server, 512 of a model that is loaded here"),
]
