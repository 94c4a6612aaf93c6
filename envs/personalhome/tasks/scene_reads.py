"""Which scene tools show the evidence of a task: the part of the expert that looks at videos.

Invariants: the calls are a pure function of household, question and evidence; together they show all of the evidence; their
queries are the words of the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from homerl.envs.personalhome.sim.calls import call_household_tool
from homerl.envs.personalhome.sim.scene.transcript import Transcript
from homerl.envs.personalhome.sim.state import HouseholdState

Call = tuple[str, dict[str, Any]]
EVENTS = (1, 2, 3, 5)  # numbers of events that are asked for


def scene_reads(state: HouseholdState, question: str, wanted: Sequence[str], begun: Sequence[Call] = ()) -> list[Call]:
    """Few calls that show all ids of `wanted`, after those that are `begun` with.

    Each next call shows most of what is missing, and of several such calls it shows the least beside.
    """
    transcript = state.household.transcript
    assert transcript is not None
    offered = [(each, _shows(state, each)) for each in _offers(transcript, question, wanted)]
    missing = set(wanted).difference(*(_shows(state, each) for each in begun))
    chosen: list[Call] = []
    while missing:
        best, shown = max(offered, key=lambda offer: (len(missing & offer[1]), -len(offer[1])))
        if not missing & shown:
            raise ValueError(f"no scene tool shows {', '.join(sorted(missing))}")
        missing -= shown
        chosen.append(best)
    known = [each for each, _ in offered]
    return [*begun, *sorted(chosen, key=known.index)]


def _offers(transcript: Transcript, question: str, wanted: Sequence[str]) -> Iterator[Call]:
    """The calls that may help, in the order in which an agent can know their arguments."""
    ids = {id.removeprefix("scene:").removesuffix(".time") for id in wanted}
    facts = [fact for fact in transcript.facts if fact.id in ids]
    entities = transcript.video_description.entities
    yield "get_scene_summary", {}
    if question:
        yield from (("extract_event_captions", {"num_events": count, "query": question}) for count in EVENTS)
        yield "extract_captions", {"query": question}
        yield "get_audio_events", {"query": question}
    yield "extract_captions", {}
    yield "get_audio_events", {}
    yield "get_layout_zones", {}
    yield "get_landmarks_in_house", {}
    yield "get_object_information", {}
    if people := _among([fact.actor for fact in facts], [one.member_id for one in entities.members]):
        yield "get_members_appearance", {"member_ids": people}
    if appliances := _among([fact.object for fact in facts], [one.appliance_id for one in entities.appliances]):
        yield "get_appliance_descriptions", {"appliance_names": appliances}


def _among(ids: Sequence[str | None], known: Sequence[str]) -> list[str]:
    return [id for id in known if id in ids]


def _shows(state: HouseholdState, each: Call) -> frozenset[str]:
    look = state.fork()
    call_household_tool(look, *each)
    return look.seen
