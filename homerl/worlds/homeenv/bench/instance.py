"""An instance of a suite: a blueprint, what it tests, and how long it may take.

Invariants: an instance says nothing of the agent or the setting; its limits follow from its blueprint alone.
"""

from __future__ import annotations

from typing import Any, Literal

from envs.homeenv.toolsets import ToolsetName
from envs.model import Model
from homerl.play.episode import EpisodeLimits
from homerl.worlds.homeenv.blueprints.blueprint import Blueprint

Setting = Literal["eia", "dr"]
Size = Literal["simple", "medium", "complex"]
SPARE_CALLS = 10  # tool calls beyond those that the reference needs (SMH-Bench gives 10 in all)


class Instance(Model):
    """`category` is QT1 to QT5 or TC1 to TC7; `toolset` is the one for the EIA setting."""

    id: str
    category: str
    subcategory: str
    size: Size
    toolset: ToolsetName
    blueprint: Blueprint

    def blueprint_for(self, setting: Setting) -> Blueprint:
        """The blueprint with the setting's tools."""
        toolset = "direct" if setting == "dr" else self.toolset
        return self.blueprint.model_copy(update={"toolset": toolset, "prompt": "full", "id": self.id})

    def labels(self) -> dict[str, Any]:
        return {"category": self.category, "subcategory": self.subcategory, "size": self.size}

    def limits_for(self, setting: Setting) -> EpisodeLimits:
        """One turn an intent, one more for what may or must be asked; a budget of tool calls."""
        turns = sum(2 if intent.clarify or intent.family == "ambiguous" else 1 for intent in self.blueprint.intents)
        calls = sum(needed_calls(intent) for intent in self.blueprint.intents) + SPARE_CALLS
        messages = turns + calls
        return EpisodeLimits(turns, messages, messages, 0, None if setting == "dr" else calls)


def needed_calls(intent) -> int:
    """Tool calls of the reference: one a service call, a rule, or a device that is read."""
    return len(intent.plan) + (intent.automation is not None) + len({did for did, _ in intent.reads})
