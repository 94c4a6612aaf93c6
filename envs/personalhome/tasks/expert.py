"""Which scene tools show the evidence of a task: the part of the expert that looks at videos.

Invariants: the calls are a pure function of household, question and evidence; together they show all of the evidence; their
queries are the words of the question.

The scripted expert: it reads the evidence of a task in few calls, and then answers.

Invariants: candidate messages are a pure function of seed and dialogue; without mistakes every call is accepted, all
evidence is seen, and the answer is right.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.scene.transcript import Transcript
from homerl.envs.personalhome.sim.tools.registry import call_household_tool
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.plan_rules import reference_plan
from homerl.play.episode import Episode
from homerl.play.loop import draw_candidates
from homerl.play.situation import Reply

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


SEARCHES = (5, 10, 20, 50)  # numbers of memories that are asked for


def evidence_calls(blueprint: PersonalHomeBlueprint) -> list[Call]:
    """The calls that show all evidence of a task, in the order in which an agent can know their arguments.

    Ids of people come from the household's profile, and names from their profiles. Memories are searched in the words of the
    question. What a video shows comes first; proactive tasks begin with its summary.
    """
    task, state = blueprint.task, HouseholdState(blueprint.household)
    needed: dict[str, list[str]] = {}
    for id in task.evidence:
        kind, _, name = id.partition(":")
        needed.setdefault(kind, []).append(name)
    calls: list[Call] = []
    if "scene" in needed:
        begun: list[Call] = [] if isinstance(task, Grounding | Choice) else [("get_scene_summary", {})]
        scene = [f"scene:{name}" for name in needed["scene"]]
        calls += scene_reads(state, getattr(task, "question", ""), scene, begun)
    people = [member.member_id for member in blueprint.household.members]
    if _about_people(blueprint, needed):
        calls += [("get_household_profile", {}), ("get_household_member_info", {"member_ids": people})]
    calls += [("get_household_member_major_events", {"member_id": name}) for name in needed.get("life", ())]
    if "pet" in needed and ("get_household_profile", {}) not in calls:
        calls.append(("get_household_profile", {}))
    if "memory" in needed:
        calls.append(_search(state, getattr(task, "question", ""), {f"memory:{name}" for name in needed["memory"]}))
    if "event" in needed:
        calls.append(("get_contextual_event_descriptions", {"sort_by_time": True}))
    if "weather" in needed:
        calls.append(("get_weather", {}))
    sensors = {device.did for device in state.sensors}
    devices = [
        *needed.get("appliance", ()),
        *needed.get("sensor", ()),
        *needed.get("state", ()),
        *needed.get("features", ()),
    ]
    if any(name not in sensors for name in devices):
        calls.append(("get_owned_appliances", {}))
    if any(name in sensors for name in devices):
        calls.append(("get_owned_sensors", {}))
    for tool, argument, kind, sensing in LOOKS:
        if names := [name for name in needed.get(kind, ()) if (name in sensors) is sensing]:
            calls.append((tool, {argument: names}))
    return calls


LOOKS = (  # tool, its argument, the kind of evidence that it shows, and whether of sensors
    ("get_appliances", "appliance_names", "state", False),
    ("get_sensors", "sensor_names", "state", True),
    ("get_appliance_features", "appliance_names", "features", False),
)


def _about_people(blueprint: PersonalHomeBlueprint, needed: Mapping[str, Sequence[str]]) -> bool:
    """Whether an agent must know who is who: for people's own data, for memories of somebody named by id, and for a video
    of somebody named by name."""
    task = blueprint.task
    generic = isinstance(task, Grounding | Choice) and not task.personal
    named = [member for member in blueprint.household.members if member.name in getattr(task, "question", "")]
    told = generic and ("memory" in needed or "event" in needed)
    return "member" in needed or "life" in needed or told or ("scene" in needed and bool(named))


def _search(state: HouseholdState, question: str, wanted: set[str]) -> Call:
    """The shortest search in the words of the question that finds all; else the latest memories."""
    for query, count in [*((question, count) for count in SEARCHES), ("", SEARCHES[-1])]:
        look = state.fork()
        arguments = {"search_string": query, "num_memories": count}
        call_household_tool(look, "get_household_memories", arguments)
        if wanted <= look.seen:
            break
    return "get_household_memories", arguments


def right_answer(blueprint: PersonalHomeBlueprint) -> str:
    """The answer of a flawless agent."""
    task = blueprint.task
    if isinstance(task, Grounding):
        return _json({part.key: {"answer": part.variants[0], "rationale": part.condition} for part in task.parts})
    if isinstance(task, Choice):
        return _json({"answer": task.right, "evidence": []})
    if isinstance(task, Features):
        return _json({"ranked_features": task.ranking})
    return _json(reference_plan(blueprint))


def wrong_answer(blueprint: PersonalHomeBlueprint, rng: random.Random) -> str:
    """An answer of the right form that is wrong, or less right."""
    task = blueprint.task
    if isinstance(task, Grounding):
        return _json({part.key: {"answer": "unknown", "rationale": ""} for part in task.parts})
    if isinstance(task, Choice):
        return _json({"answer": rng.choice([letter for letter in LETTERS if letter != task.right]), "evidence": []})
    if isinstance(task, Features):
        return _json({"ranked_features": rng.sample(task.ranking, len(task.ranking))})
    return _json(reference_plan(blueprint)[1:])


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


class PersonalHomeExpert:
    """Reads, then answers. With probability `mistakes` a message is wrong: an answer before all is read, or a wrong one."""

    name = "expert"

    def __init__(self, seed: int = 0, mistakes: float = 0.0) -> None:
        self.seed, self.mistakes = seed, mistakes

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """Up to `n` different messages."""
        return [Reply(message) for message in draw_candidates(self._candidate, episode, n, self.seed)]

    def _candidate(self, episode: Episode, rng: random.Random) -> Message:
        blueprint: Any = episode.blueprint
        if rng.random() < self.mistakes:
            return text_message(wrong_answer(blueprint, rng))
        seen = episode.world.state.seen  # type: ignore[attr-defined]
        for name, arguments in evidence_calls(blueprint) if blueprint.setting == "agentic" else ():
            look = HouseholdState(blueprint.household)
            call_household_tool(look, name, arguments)
            if not look.seen <= seen:
                return call_message(tool_call(name, arguments))
        return text_message(right_answer(blueprint))
