"""The assistant behind features that take a question in words, such as the speaker's `complex_query`.

Invariant: without an endpoint the answer is quoted from what the household remembers, so that it is always the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.personalhome.sim.shown import clock_shown
from homerl.envs.personalhome.sim.state import HouseholdState

ASKED: Mapping[str, str] = {"complex_query": "query"}  # method of an appliance -> the argument that holds the question
QUOTED = 3  # memories and events that an answer rests on


def ask_assistant(state: HouseholdState, question: str) -> str:
    """The answer to a question, from the memories and events that match it best. What it rests on counts as shown."""
    rows: list[tuple[str, Any, str]] = [
        (f"memory:{at}", one.time, f"{one.memory} {one.additional_information}".strip())
        for at, one in enumerate(state.records.memories)
    ]
    rows += [(f"event:{at}", one.time, one.description) for at, one in enumerate(state.household.context.events)]
    rows.sort(key=lambda row: row[1], reverse=True)  # a rank keeps the order of equals: the latest first
    texts = [text for _, _, text in rows]
    best = [rows[at] for at in state.rank(question, texts)[:QUOTED]]
    state.note_shown(*(id for id, _, _ in best))
    return state.answer(question, [f"{clock_shown(time)} {text}" for _, time, text in best])
