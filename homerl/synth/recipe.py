"""The recipe of a synthesis: what it makes, and how.

Invariants: the dataset's bytes depend only on `identity`. They do not depend on where models answer, on the number of
concurrent requests, or on the patience with servers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from homerl.envs.core.model import IDENTITY, Model
from homerl.host.recipe_files import BaseRecipe
from homerl.models.endpoint.endpoint_settings import (
    AT_ONCE,
    AgentSettings,
    AuthorSettings,
    EndpointSettings,
    ParaphraseSettings,
    UserSettings,
)
from homerl.play.episode import EpisodeLimits
from homerl.play.words.grammar import Split
from homerl.synth.mcts import SearchConfig
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import refuse_behaviours, refuse_user, source_parts, source_worlds
from homerl.worlds.sources import AnyMixedRecipe, default_recipe

Strategy = Literal["m1", "m2", "m3"]
MODEL_ROLES = ("agent", "user", "author", "paraphrase")
STRATEGIES = {
    "m1": "Text role-play without blueprint (M1): one model plays person, assistant and tools, and judges what it wrote; "
    "nothing was checked in a home.",
    "m2": "Linear dialogues on blueprints (M2): played in simulated homes, kept where the home's state proves them right.",
    "m3": "MCTS-Flow (M3): tree search over dialogues in simulated homes, kept where the home's state proves them right.",
}


class SynthesisConfig(Model):
    """Synthesis: how much, from which blueprints, by whom, by which strategy."""

    blueprints: int = Field(1000, ge=1, description="Blueprints that are played.")
    recipe: AnyMixedRecipe = Field(default_factory=default_recipe, description="The recipe of the blueprints.")
    curriculum: tuple[AnyMixedRecipe, ...] = Field(
        (),
        description="Recipes before `recipe`; all have equal shares of the blueprints.",
    )
    split: Split = Field("train", description="Split of homes and sentences.")
    first_seed: int = Field(0, description="Seed of the first blueprint; the others follow it.")
    strategy: Strategy = Field(
        "m3",
        description="How dialogues are made: `m1` role-play in text, `m2` linear play, `m3` tree search.",
    )
    agent: AgentSettings | None = Field(None, description="A chat model as the agent; null is the scripted expert.")
    user: UserSettings = Field(UserSettings(), description="Who speaks.")
    author: AuthorSettings | None = Field(
        None, description="A chat model that writes blueprints; null is the scripted author."
    )
    expert: ExpertConfig = Field(ExpertConfig(), description="How the scripted expert works and errs.")
    search: SearchConfig = Field(SearchConfig(), description="The tree search over dialogues.")
    limits: EpisodeLimits = Field(EpisodeLimits(), description="Limits of an episode.")
    per_blueprint: int = Field(2, ge=1, description="Most trajectories of a blueprint: a recovery, then the shortest.")
    shard: int = Field(
        50,
        ge=1,
        description="Blueprints of a shard; a killed run loses unfinished shards.",
    )
    in_flight: int = Field(32, ge=1, description="Blueprints in play, and requests, at once over all processes.")
    attempts: int = Field(3, ge=1, description="Most starts of a blueprint, when servers fail.")
    version: str = Field("0.1.0", pattern=r"^\d+\.\d+\.\d+$", description="Version of the dataset.")
    paraphrase: ParaphraseSettings | None = Field(None, description="A chat model that rewords queries; null is none.")

    @model_validator(mode="after")
    def _parts_can_be_played(self) -> SynthesisConfig:
        recipes = (*self.curriculum, self.recipe)
        for worlds in map(source_worlds, recipes):
            refuse_user(worlds, self.user.kind)
            refuse_behaviours(worlds, self.user.behaviours)
            for world in worlds:
                if self.strategy == "m1" and world.role_play is None:
                    raise ValueError(f"strategy m1 cannot role-play in the world '{world.name}'")
                if self.author and world.llm_author is None:
                    raise ValueError(f"the LLM author cannot write for the world '{world.name}'")
        if self.strategy == "m1" and self.agent is None:
            raise ValueError("strategy m1 is text alone: it needs an `agent`, a chat model that plays all parts")
        if self.strategy == "m1" and self.user.behaviours != AT_ONCE:
            raise ValueError("strategy m1 has no blueprint, and so no wishes to tell: leave out `user.behaviours`")
        parts = [part for recipe in recipes for part in source_parts(recipe)]
        if self.strategy == "m1" and any(part.one_answer for part in parts):
            named = ", ".join(f"`{part.toolset}`" for part in parts if part.one_answer)
            raise ValueError(f"strategy m1 needs an agent that makes tool calls: name another toolset than {named}")
        return self

    def blueprint_recipe_at(self, index: int) -> AnyMixedRecipe:
        """The blueprint recipe of the index-th blueprint: the curriculum's stages in equal shares, then `recipe`."""
        stages = (*self.curriculum, self.recipe)
        return stages[min(index * len(stages) // self.blueprints, len(stages) - 1)]

    @property
    def model_endpoints(self) -> Mapping[str, EndpointSettings]:
        """The chat models of the recipe, by model role."""
        named = {role: getattr(self, role) for role in MODEL_ROLES}
        return {role: settings for role, settings in named.items() if settings is not None and settings.is_llm}

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that the dataset's bytes depend on, as plain data."""
        data = self.model_dump(mode="json", context=IDENTITY, exclude={"in_flight", "attempts", "version", *MODEL_ROLES})
        return (
            data
            | {"user": "scripted", "paraphrase": None, "limits": self.limits.to_record()}
            | self.user.model_dump(mode="json", include={"behaviours"})
            | {part: settings.answer_settings for part, settings in self.model_endpoints.items()}
        )

    @property
    def digest(self) -> str:
        """A short hash of `identity`; the folder of shards is named by it."""
        return hashlib.blake2b(json.dumps(self.identity, sort_keys=True).encode(), digest_size=8).hexdigest()


class SynthRecipe(BaseRecipe):
    """A synthesis of verified trajectories."""

    run: Literal["synth"] = Field(description="Kind of the run.")
    synth: SynthesisConfig = Field(SynthesisConfig(), description="How much is synthesised, from what, by whom.")
    ray: str | None = Field(None, description="Address of a Ray cluster; `local` starts one here.")
