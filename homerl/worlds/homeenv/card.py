"""What a model card shows of HomeEnv: the tools and the prompt of the recipe's toolset, style and language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.homeenv.devices import Device
from envs.homeenv.rooms import Room
from envs.homeenv.spec import Catalogue
from envs.homeenv.toolsets import TOOLSETS
from homerl.worlds.contract import Card
from homerl.worlds.homeenv.messages import prompts, system_prompt


def card(recipe: Mapping[str, Any]) -> Card:
    """An example in a home of one light."""
    language = recipe.get("home", {}).get("language", "en")
    toolset = recipe.get("toolset") or "homeflow"
    example = prompts(language).example
    light = Device("1001", example.device, Room("kitchen", example.room, "kitchen"), Catalogue.shipped()["100001"])
    return Card(
        tools=[tool.schema() for tool in TOOLSETS[toolset].tools],
        system=system_prompt([light], recipe.get("prompt") or "brief", toolset, language),
        told="lists the home's devices, one a line",
        utterance=example.says,
        language=language,
    )
