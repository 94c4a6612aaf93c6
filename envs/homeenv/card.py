"""The part of a model card that shows HomeEnv: tools and system prompt for the recipe's toolset, prompt style, language
and form of ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import home_files, with_slug_ids
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import load_home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.prompts import agent_prompts, episode_system_prompt
from homerl.worlds.contract import Card

AIR = {"temperature": 21.0, "humidity": 45.0, "brightness": 150.0}
LIGHT = {"state": "off", "brightness": 80, "hs_color": (0.0, 0.0)}
CLOCK = 1755943200  # 2025-08-23 10:00
ONE_ANSWER = "with one JSON object: what to say,\nand the calls to make, in order, without waiting for what they return"


def build_home_card(recipe: Mapping[str, Any]) -> Card:
    """What an agent trained on this recipe, or on blueprints like this one, is told in an example home with one light."""
    language = recipe.get("language") or recipe.get("home", {}).get("language", "en")  # of a blueprint, or of a recipe
    name = recipe.get("toolset") or "homeflow"
    toolset, home = TOOLSETS[name], example_home(language, slugs=has_slugs(recipe.get("home", {})))
    shown = Card(
        tools=[tool.function_schema() for tool in toolset.tools_of_home(home)],
        system=episode_system_prompt(home, recipe.get("prompt") or "brief", name, (), language),
        told="holds the whole home" if toolset.shown else "lists the home's devices, one a line",
        utterance=agent_prompts(language).example.says,
        language=language,
    )
    return replace(shown, answers=ONE_ANSWER, one_answer=True) if toolset.one_answer else shown


def has_slugs(home: Mapping[str, Any]) -> bool:
    """Whether the ids of the devices are words, in homes of this recipe or in this home.

    Of files it is the first that counts; where it cannot be read any more, ids are numbers.
    """
    ids: list[str] = []
    if files := home.get("files"):
        with suppress(InputError):
            ids = [device.did for device in load_home(home_files(files[0])[0]).plan.devices]
    else:  # a recipe has the fewest and the most devices here
        ids = [str(device["did"]) for device in home.get("devices") or () if isinstance(device, Mapping)]
    return not ids[0].isdigit() if ids else home.get("ids", "number") != "number"


def example_home(language: str, slugs: bool = False) -> Home:
    """A home with one kitchen light, which is off."""
    named = agent_prompts(language).example
    room = Room("kitchen", "kitchen", named.room)
    device = Device("1001", named.device, room, Catalogue.load_shipped()["100001"])
    device = with_slug_ids([device])[0] if slugs else device
    return Home.build_home([room], [device], {OUTDOORS: AIR, room.id: AIR, device.did: LIGHT}, CLOCK)
