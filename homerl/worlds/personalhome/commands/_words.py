"""What the commands of PersonalHome share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from homerl.terminal.console import one_of

if TYPE_CHECKING:
    from envs.personalhome.household import Household

Folders = Annotated[list[Path], typer.Argument(help="folders of `homerl bench run personalhome-bench`")]
Folder = Annotated[Path, typer.Argument(help="a folder of `homerl bench run personalhome-bench`")]
JudgeUrl = Annotated[str, typer.Option(help="URL of the judge, http://host/v1 (several with commas)")]
JudgeModel = Annotated[str, typer.Option(help="the judge's model")]
Judge = Annotated[str | None, typer.Option("--judge-model", help="the judge whose verdicts count, if there are several")]


def household_of(seed: int, language: str, heldout: bool) -> Household:
    """The household of a seed. Raises `InputError` for a language that there is not."""
    from envs.personalhome.generate import HouseholdRecipe, make_household

    one_of("--language", language, ("en", "zh"))
    return make_household(seed, HouseholdRecipe(language=language, lexicon="heldout" if heldout else "train"))
