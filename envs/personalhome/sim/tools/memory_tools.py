"""The tools that search memories: those of the household, and those about one member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from homerl.envs.personalhome.sim.household import Memory
from homerl.envs.personalhome.sim.household_state import HouseholdState, Note
from homerl.envs.personalhome.sim.household_view import memory_shown
from homerl.envs.personalhome.sim.tools.contract import HouseholdTool
from homerl.envs.personalhome.sim.tools.lookup import find_member

SEARCH = {
    "search_string": {"type": "string", "maxLength": 2000, "description": "what to look for, in a few words"},
    "num_memories": {"type": "integer", "minimum": 1, "maximum": 50, "description": "how many memories at most"},
}


def get_household_memories(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The memories of everybody that match best. An empty search gives the latest ones."""
    return _search(state, arguments, lambda memory: True)


def get_member_memories(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The memories about one member that match best. Raises `Refused` for an unknown member."""
    about = find_member(state, arguments["member_id"]).member_id
    names = {about, *(one.name for one in (*state.household.members, *state.records.members) if one.member_id == about)}
    return _search(state, arguments, lambda memory: not names.isdisjoint(memory.subjects))


def _search(
    state: HouseholdState, arguments: Mapping[str, Any], wanted: Callable[[Memory | Note], bool]
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


TOOLS = (
    HouseholdTool(
        "get_household_memories",
        "Search the memories of the whole household. Returns those that match the words best, with their time.",
        SEARCH,
        get_household_memories,
        required=("search_string", "num_memories"),
    ),
    HouseholdTool(
        "get_member_memories",
        "Search the memories about one member. Returns those that match the words best, with their time.",
        {"member_id": {"type": "string", "description": "the member's id, from the household's profile"}, **SEARCH},
        get_member_memories,
        required=("member_id", "search_string", "num_memories"),
    ),
)
