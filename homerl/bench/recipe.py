"""Recipes of benchmarks.

Invariants: unknown keys are refused; nothing here imports torch.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from envs.model import Model
from homerl.play.episode import EpisodeLimits
from homerl.recipe.base import Base
from homerl.train.recipe import ModelSettings
from homerl.worlds.registry import suites
from homerl.worlds.sources import AnyBlueprintRecipe, default_recipe


class SuiteSettings(Model):
    """A held-out suite: its seeds, users and sentences differ from those of training by construction.

    With `benchmark` it is `count` instances of a shipped benchmark, spread evenly over it (or over its easier half), with
    the
    benchmark's own limits.
    """

    name: str = "heldout"
    recipe: AnyBlueprintRecipe = Field(default_factory=default_recipe)
    count: int = Field(500, ge=1)
    first_seed: int = 0
    benchmark: str | None = None
    easier_half: bool = Field(False, description="of `benchmark`: the instances in simple homes")

    @field_validator("benchmark")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and name not in suites():
            raise ValueError(f"there is no benchmark '{name}' (there is {', '.join(suites())})")
        return name

    @model_validator(mode="after")
    def _of_one_kind(self) -> SuiteSettings:
        if self.benchmark and (self.recipe != default_recipe() or self.first_seed):
            raise ValueError("a benchmark has its own tasks: leave out `recipe` and `first_seed`")
        if self.easier_half and not self.benchmark:
            raise ValueError("`easier_half` is of a `benchmark`")
        if self.easier_half and suites()[self.benchmark][1].easier_half([]) is None:
            raise ValueError(f"'{self.benchmark}' has no easier half")
        return self


class BenchSettings(Model):
    """How a model is evaluated."""

    suites: tuple[SuiteSettings, ...] = (SuiteSettings(),)
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = 1024
    batch: int = Field(64, ge=1)
    limits: EpisodeLimits = EpisodeLimits()


class BenchRecipe(Base):
    run: Literal["bench"]
    model: ModelSettings
    bench: BenchSettings = BenchSettings()
