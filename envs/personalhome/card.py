"""The part of a model card that describes PersonalHome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.personalhome.sim.generate import HouseholdRecipe
from homerl.envs.personalhome.tasks.author import make_personalhome_blueprint
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeRecipe
from homerl.envs.personalhome.tasks.situation import make_blueprint_world, personalhome_system_prompt
from homerl.worlds.contract import Card


def make_personalhome_card(recipe: Mapping[str, Any]) -> Card:
    """Tools and system message of the first blueprint of a recipe."""
    language = recipe.get("language") or recipe.get("household", {}).get("language", "en")
    known = {key: value for key, value in recipe.items() if key in PersonalHomeRecipe.model_fields and key != "household"}
    made = PersonalHomeRecipe(world="personalhome", **{**known, "household": HouseholdRecipe(language=language)})
    blueprint = make_personalhome_blueprint(made, "train", 0)
    return Card(
        tools=make_blueprint_world(blueprint).tools,
        system=personalhome_system_prompt(blueprint),
        told="says how to look around in the household and in which form to answer",
        utterance=blueprint.intents[0].queries[0],
        language=language,
        answers="in JSON or in tool calls;\nrun the calls and append what they return as `tool` messages",
    )
