"""An instance of a suite: a blueprint, its category, and its limits.

Invariants: an instance does not depend on the agent or the setting; its limits follow from its blueprint alone.
"""

from __future__ import annotations

from typing import Literal

from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.envs.homeenv.sim.toolsets import ToolsetName
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent, turns_needed
from homerl.play.episode import EpisodeLimits

Setting = Literal["eia", "dr"]
Size = Literal["simple", "medium", "complex"]
SPARE_CALLS = 10  # tool calls beyond those of the reference (SMH-Bench allows 10 in total)


class HomeInstance(Model):
    """One task of a suite.

    `category` is QT1 to QT5 (SmartHome-Bench) or TC1 to TC7 (SMH-Bench). `toolset` is used in the setting EIA.
    """

    id: str
    category: str
    subcategory: str
    size: Size
    toolset: ToolsetName
    blueprint: Blueprint

    def blueprint_for(self, setting: Setting) -> Blueprint:
        """The blueprint with the toolset of the setting. In DR the prompt is full, since it is all that the agent gets."""
        played = {"toolset": "direct", "prompt": "full"} if setting == "dr" else {"toolset": self.toolset}
        return self.blueprint.model_copy(update=played | {"id": self.id})

    def limits_for(self, setting: Setting) -> EpisodeLimits:
        """The limits of an episode.

        Each intent has one turn, and a second one if a clarifying question is needed or allowed. In EIA, the number of tool
        calls is limited too.
        """
        turns = turns_needed(self.blueprint)
        calls = sum(count_reference_calls(intent) for intent in self.blueprint.intents) + SPARE_CALLS
        messages = turns + calls
        return EpisodeLimits(turns, messages, messages, 0, None if setting == "dr" else calls)


def count_reference_calls(intent: Intent) -> int:
    """The number of tool calls of the reference: one for each service call, automation, and device that is read."""
    return len(intent.plan) + (intent.automation is not None) + len({did for did, _ in intent.reads})


def instance_recipe(home: HomeRecipe, family: str, subcategory: str, toolset: ToolsetName) -> BlueprintRecipe:
    """The blueprint recipe of an instance: one wish of a query type, in a held-out frame."""
    return BlueprintRecipe(
        home=home,
        intents=(1, 1),
        families={f"{family}/{subcategory}": 1.0},
        devices=(2, 4),
        phrasings=1,
        frames="heldout",
        toolset=toolset,
        prompt="full",
    )
