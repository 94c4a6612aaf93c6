"""The tools that tell who lives in the household, and that search what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from homerl.envs.personalhome.sim.household import Memory
from homerl.envs.personalhome.sim.household_state import HouseholdState, Note
from homerl.envs.personalhome.sim.household_view import life_shown, member_shown, memory_shown, profile_shown
from homerl.envs.personalhome.sim.tools.contract import NAMES, Arguments, HouseholdTool, add_tool, find_member

TOOLS: list[HouseholdTool] = []
MEMBER = {"type": "string", "description": "the member's id, from the household's profile"}
SEARCH = {
    "search_string": {"type": "string", "maxLength": 2000, "description": "what to look for, in a few words"},
    "num_memories": {"type": "integer", "minimum": 1, "maximum": 50, "description": "how many memories at most"},
}


@add_tool(
    TOOLS, "The household at a glance: size, kind of household, layout, pets, the ids of its members and the time now."
)
def get_household_profile(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """The household at a glance, with the ids of its members and the present time."""
    state.note_shown("profile", *(f"pet:{pet.name}" for pet in state.records.pets))
    return profile_shown(state)


@add_tool(
    TOOLS,
    "The profiles of some members: name, role, age, occupation, persona, hobbies, lifestyle and preferences.",
    {"member_ids": {**NAMES, "description": "ids of members, from the household's profile"}},
)
def get_household_member_info(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The profiles of some members, in the order asked. Raises `Refused` for an unknown member."""
    members = [find_member(state, member_id) for member_id in dict.fromkeys(arguments["member_ids"])]
    state.note_shown(*(f"member:{one.member_id}" for one in members))
    return [member_shown(one, state) for one in members]


@add_tool(TOOLS, "The major events in the life of one member, with their dates.", {"member_id": MEMBER})
def get_household_member_major_events(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """The major events of one member's life. Raises `Refused` for an unknown member."""
    one = find_member(state, arguments["member_id"])
    state.note_shown(f"life:{one.member_id}")
    return life_shown(one)


@add_tool(
    TOOLS, "Search the memories of the whole household. Returns those that match the words best, with their time.", SEARCH
)
def get_household_memories(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The memories of everybody that match best. An empty search gives the latest ones."""
    return _search_memories(state, arguments, lambda memory: True)


@add_tool(
    TOOLS,
    "Search the memories about one member. Returns those that match the words best, with their time.",
    {"member_id": MEMBER, **SEARCH},
)
def get_member_memories(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The memories about one member that match best. Raises `Refused` for an unknown member."""
    about = find_member(state, arguments["member_id"]).member_id
    names = {about, *(one.name for one in (*state.household.members, *state.records.members) if one.member_id == about)}
    return _search_memories(state, arguments, lambda memory: not names.isdisjoint(memory.subjects))


def _search_memories(
    state: HouseholdState, arguments: Arguments, wanted: Callable[[Memory | Note], bool]
) -> list[dict[str, Any]]:
    memories = state.records.memories
    indices = [at for at, memory in enumerate(memories) if wanted(memory)]
    indices.sort(key=lambda at: memories[at].time, reverse=True)  # a rank keeps the order of equals: the latest first
    query, most = arguments["search_string"], arguments["num_memories"]
    if query.strip():
        texts = [f"{memories[at].memory} {memories[at].additional_information}" for at in indices]
        indices = [indices[place] for place in state.rank(query, texts)]
    state.note_shown(*(f"memory:{at}" for at in indices[:most]))
    return [memory_shown(memories[at]) for at in indices[:most]]
