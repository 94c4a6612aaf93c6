"""The tools that tell who lives in the household."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import life_shown, member_shown, profile_shown
from homerl.envs.personalhome.sim.tools.contract import HouseholdTool
from homerl.envs.personalhome.sim.tools.lookup import NAMES, find_member


def get_household_profile(state: HouseholdState, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The household at a glance, with the ids of its members and the present time."""
    state.note_shown("profile", *(f"pet:{pet.name}" for pet in state.records.pets))
    return profile_shown(state)


def get_household_member_info(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The profiles of some members, in the order asked. Raises `Refused` for an unknown member."""
    members = [find_member(state, member_id) for member_id in dict.fromkeys(arguments["member_ids"])]
    state.note_shown(*(f"member:{one.member_id}" for one in members))
    return [member_shown(one, state) for one in members]


def get_household_member_major_events(state: HouseholdState, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The major events of one member's life. Raises `Refused` for an unknown member."""
    one = find_member(state, arguments["member_id"])
    state.note_shown(f"life:{one.member_id}")
    return life_shown(one)


TOOLS = (
    HouseholdTool(
        "get_household_profile",
        "The household at a glance: size, kind of household, layout, pets, the ids of its members and the time now.",
        {},
        get_household_profile,
    ),
    HouseholdTool(
        "get_household_member_info",
        "The profiles of some members: name, role, age, occupation, persona, hobbies, lifestyle and preferences.",
        {"member_ids": {**NAMES, "description": "ids of members, from the household's profile"}},
        get_household_member_info,
        required=("member_ids",),
    ),
    HouseholdTool(
        "get_household_member_major_events",
        "The major events in the life of one member, with their dates.",
        {"member_id": {"type": "string", "description": "the member's id, from the household's profile"}},
        get_household_member_major_events,
        required=("member_id",),
    ),
)
