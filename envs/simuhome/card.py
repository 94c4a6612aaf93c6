"""The part of a model card that describes SimuHome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.simuhome.sim.tools import TOOLS, TOOLSETS
from homerl.envs.simuhome.tasks.languages import language_file, system_message
from homerl.worlds.contract import Card


def make_simuhome_card(recipe: Mapping[str, Any]) -> Card:
    """Tools and system message, as a recipe sets them."""
    language = recipe.get("language", "en")
    return Card(
        tools=[TOOLS[name].function_schema() for name in TOOLSETS[recipe.get("toolset", "released")]],
        system=system_message(recipe.get("prompt") or "full", language, "kitchen", "2025-08-23 10:00:00"),
        told="says where the user is and what time it is",
        utterance=language_file(language).example,
        language=language,
    )
