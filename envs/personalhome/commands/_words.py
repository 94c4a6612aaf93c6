"""What the commands of PersonalHome share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folders = Annotated[list[Path], typer.Argument(help="folders of `homerl bench run personalhome-bench`")]
Folder = Annotated[Path, typer.Argument(help="a folder of `homerl bench run personalhome-bench`")]
JudgeUrl = Annotated[str, typer.Option(help="URL of the judge, http://host/v1 (several with commas)")]
JudgeModel = Annotated[str, typer.Option(help="the judge's model")]
Judge = Annotated[str | None, typer.Option("--judge-model", help="the judge whose verdicts count, if there are several")]
