"""Recipes of benchmarks.

Invariants: unknown keys are refused; nothing here imports torch.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from homerl.bench.suites import find_suite, refuse_text_setting, resolve_setting, resolve_suite, shipped_suite_file
from homerl.envs.core.model import READS, Model
from homerl.host.recipe_files import BaseRecipe
from homerl.models.endpoint.endpoint_settings import BenchUser
from homerl.play.episode import EpisodeLimits
from homerl.train.model_settings import ModelSettings
from homerl.worlds.contract import EXPERT, ExpertConfig, WorldAdapter
from homerl.worlds.registry import known_suites, refuse_behaviours, world_of
from homerl.worlds.sources import AnyBlueprintRecipe, default_recipe


class SuiteSettings(Model):
    """A held-out suite. With `benchmark` it is `count` instances of that, spread evenly, with its own limits."""

    name: str = Field("heldout", description="Name of the suite, and of its folder below `bench/`.")
    recipe: AnyBlueprintRecipe = Field(default_factory=default_recipe, description="The recipe of the blueprints.")
    count: int = Field(500, ge=1, description="Blueprints or instances that are played.")
    first_seed: int = Field(0, description="Seed of the first blueprint; the others follow it.")
    benchmark: Annotated[str | None, READS] = Field(
        None,
        description="A shipped benchmark, or a file of `homerl bench build`, in place of `recipe`.",
    )
    setting: str | None = Field(
        None,
        validate_default=True,
        description="Setting of `benchmark`; null is its first.",
    )
    easier_half: bool = Field(False, description="Whether only instances of `benchmark` in simple homes are played.")

    user: BenchUser = Field(
        BenchUser(),
        exclude_if=lambda user: user == BenchUser(),  # results are named by digests that are older than this key
        description="The user, who is scripted.",
    )

    @field_validator("name")
    @classmethod
    def _check_folder_name(cls, name: str) -> str:
        if name in ("", ".", "..") or "/" in name:
            raise ValueError("it names a folder below `bench/`, so it is not empty and has no /")
        return name

    @field_validator("benchmark")
    @classmethod
    def _check_benchmark(cls, name: str | None) -> str | None:
        if name is None:
            return None
        if Path(name).is_file():
            resolve_suite(name)
            return name
        if name not in known_suites():
            known = ", ".join(known_suites())
            raise ValueError(f"there is no benchmark and no file '{name}' (there is {known})")
        shipped_suite_file(find_suite(name))
        return name

    @field_validator("setting")
    @classmethod
    def _check_setting(cls, setting: str | None, info: ValidationInfo) -> str | None:
        if "benchmark" not in info.data:  # the benchmark was refused
            return setting
        if info.data["benchmark"] is not None:
            world, suite = resolve_suite(info.data["benchmark"])
            refuse_text_setting(world, suite, resolve_setting(suite, setting))
        elif setting is not None:
            raise ValueError("`setting` is of a `benchmark`")
        return setting

    @model_validator(mode="after")
    def _check_kind(self) -> SuiteSettings:
        if self.benchmark and (self.recipe != default_recipe() or self.first_seed):
            raise ValueError("a benchmark has its own tasks: leave out `recipe` and `first_seed`")
        refuse_behaviours([self.world], self.user.behaviours)
        if self.easier_half and not self.benchmark:
            raise ValueError("`easier_half` is of a `benchmark`")
        if self.benchmark and self.easier_half and resolve_suite(self.benchmark)[1].easier_half([]) is None:
            raise ValueError(f"'{self.benchmark}' has no easier half")
        return self

    @property
    def world(self) -> WorldAdapter:
        """The world of the tasks."""
        return resolve_suite(self.benchmark)[0] if self.benchmark else world_of(self.recipe)


class BenchSettings(Model):
    """How a model is evaluated."""

    suites: tuple[SuiteSettings, ...] = Field(
        (SuiteSettings(),), min_length=1, description="The suites that are played, in this order."
    )
    temperature: float = Field(0.0, ge=0, description="Sampling temperature of the model; 0 is greedy.")
    max_tokens: int = Field(1024, description="Most tokens of a message.")
    batch: int = Field(64, ge=1, description="Prompts that are sampled at a time.")
    limits: EpisodeLimits = Field(EpisodeLimits(), description="Limits of an episode; a `benchmark` has its own.")

    @field_validator("suites")
    @classmethod
    def _check_names_differ(cls, suites: tuple[SuiteSettings, ...]) -> tuple[SuiteSettings, ...]:
        names = Counter(suite.name for suite in suites)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"two suites are called '{twice[0]}', and each has a folder of its name")
        return suites


class BenchRecipe(BaseRecipe):
    """A benchmark of a model, or of an agent that needs none, on held-out suites."""

    run: Literal["bench"] = Field(description="Kind of the run.")
    model: ModelSettings | None = Field(None, description="The model that is evaluated.")
    agent: str | None = Field(None, description="A baseline, such as `expert`, in place of a `model`.")
    expert: ExpertConfig | None = Field(None, description="How `agent: expert` works; null is the world's usual way.")
    bench: BenchSettings = Field(BenchSettings(), description="How the model is evaluated, and on what.")

    @model_validator(mode="after")
    def _check_player(self) -> BenchRecipe:
        if (self.model is None) == (self.agent is None):
            raise ValueError("name a `model` or an `agent`, one of both")
        if self.model and self.model.name is None:
            raise ValueError("`model.from_scratch` is untrained: give `model.name`, a hub id or a trained model's folder")
        if self.expert and self.agent != EXPERT:
            raise ValueError(f"`expert` is of `agent: {EXPERT}`")
        for suite in self.bench.suites:
            known = suite.world.baselines
            if self.agent is not None and self.agent not in known:
                raise ValueError(
                    f"there is no agent '{self.agent}' for the suite {suite.name} (there is {', '.join(known)})"
                )
        return self
