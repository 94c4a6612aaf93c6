"""The scripted expert: it reads the evidence of a task in few calls, and then answers.

Invariants:
- The calls are a pure function of household, question and evidence. Together they show all of the evidence, and they search
  in the words of the question.
- Candidate messages are a pure function of seed and dialogue.
- Without mistakes every call is accepted, all evidence is seen, and the answer is right.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.personalhome.sim.env import call_household_tool
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.scene.transcript import Transcript
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.plan_rules import reference_plan
from homerl.play.episode import Episode
from homerl.play.loop import draw_candidates
from homerl.play.situation import Reply

Call = tuple[str, dict[str, Any]]
SCENE_TOOLS = (  # those that tell all they know of a video without arguments
    "get_scene_summary",
    "extract_captions",
    "get_audio_events",
    "get_layout_zones",
    "get_landmarks_in_house",
    "get_object_information",
)
SEARCHES = (5, 10, 20, 50)  # numbers of memories that are asked for


def scene_reads(state: HouseholdState, question: str, wanted: Sequence[str], begun: Sequence[Call] = ()) -> list[Call]:
    """Few calls that show all ids of `wanted`. The calls of `begun` come first.

    Each next call shows most of what is missing. Of several such calls it is the one that shows the least beside.
    """
    transcript = state.household.transcript
    assert transcript is not None
    known = list(_offer_scene_calls(transcript, question, wanted))
    offered = [(each, _ids_shown_by(state, each)) for each in known]
    missing = set(wanted).difference(*(_ids_shown_by(state, each) for each in begun))
    chosen: list[Call] = []
    # A greedy set cover: an exact one would cost more than the few calls that it saves.
    while missing:
        best, shown = max(offered, key=lambda offer: (len(missing & offer[1]), -len(offer[1])))
        if not missing & shown:
            raise ValueError(f"no scene tool shows {', '.join(sorted(missing))}")
        missing -= shown
        chosen.append(best)
    return [*begun, *sorted(chosen, key=known.index)]


def _offer_scene_calls(transcript: Transcript, question: str, wanted: Sequence[str]) -> Iterator[Call]:
    """The calls that may help, in the order in which an agent can know their arguments."""
    ids = {id.removeprefix("scene:").removesuffix(".time") for id in wanted}
    facts = [fact for fact in transcript.facts if fact.id in ids]
    entities = transcript.video_description.entities
    yield "get_scene_summary", {}
    if question:
        yield from (("extract_event_captions", {"num_events": count, "query": question}) for count in (1, 2, 3, 5))
        yield from ((name, {"query": question}) for name in ("extract_captions", "get_audio_events"))
    yield from ((name, {}) for name in SCENE_TOOLS[1:])
    actors, objects = {fact.actor for fact in facts}, {fact.object for fact in facts}
    if people := [one.member_id for one in entities.members if one.member_id in actors]:
        yield "get_members_appearance", {"member_ids": people}
    if appliances := [one.appliance_id for one in entities.appliances if one.appliance_id in objects]:
        yield "get_appliance_descriptions", {"appliance_names": appliances}


def _ids_shown_by(state: HouseholdState, each: Call) -> frozenset[str]:
    look = state.fork()
    call_household_tool(look, *each)
    return look.seen


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
    question: str = getattr(task, "question", "")
    if "scene" in needed:
        begun: list[Call] = [] if question else [("get_scene_summary", {})]
        calls += scene_reads(state, question, [f"scene:{name}" for name in needed["scene"]], begun)
    # An agent must know who is who for people's own data, for memories of somebody named by id, and for a video of somebody
    # named by name.
    members, by_id = blueprint.household.members, isinstance(task, Grounding | Choice) and not task.personal
    filmed_by_name = "scene" in needed and any(member.name in question for member in members)
    if {"member", "life"} & needed.keys() or (by_id and {"memory", "event"} & needed.keys()) or filmed_by_name:
        ids = [member.member_id for member in members]
        calls += [("get_household_profile", {}), ("get_household_member_info", {"member_ids": ids})]
    calls += [("get_household_member_major_events", {"member_id": name}) for name in needed.get("life", ())]
    if "pet" in needed and ("get_household_profile", {}) not in calls:
        calls.append(("get_household_profile", {}))
    if "memory" in needed:
        # The shortest search in the words of the question that finds all; else the latest memories.
        for query, count in [*((question, count) for count in SEARCHES), ("", SEARCHES[-1])]:
            search: Call = ("get_household_memories", {"search_string": query, "num_memories": count})
            if {f"memory:{name}" for name in needed["memory"]} <= _ids_shown_by(state, search):
                break
        calls.append(search)
    if "event" in needed:
        calls.append(("get_contextual_event_descriptions", {"sort_by_time": True}))
    if "weather" in needed:
        calls.append(("get_weather", {}))
    sensors = {device.did for device in state.sensors}
    devices = [name for kind in ("appliance", "sensor", "state", "features") for name in needed.get(kind, ())]
    # An agent learns the ids of devices from these lists.
    if any(name not in sensors for name in devices):
        calls.append(("get_owned_appliances", {}))
    if any(name in sensors for name in devices):
        calls.append(("get_owned_sensors", {}))
    for tool, argument, kind, sensing in (
        ("get_appliances", "appliance_names", "state", False),
        ("get_sensors", "sensor_names", "state", True),
        ("get_appliance_features", "appliance_names", "features", False),
    ):
        if names := [name for name in needed.get(kind, ()) if (name in sensors) is sensing]:
            calls.append((tool, {argument: names}))
    return calls


def right_answer(blueprint: PersonalHomeBlueprint) -> str:
    """The answer of a flawless agent."""
    task = blueprint.task
    if isinstance(task, Grounding):
        answer: Any = {part.key: {"answer": part.variants[0], "rationale": part.condition} for part in task.parts}
    elif isinstance(task, Choice):
        answer = {"answer": task.right, "evidence": []}
    elif isinstance(task, Features):
        answer = {"ranked_features": task.ranking}
    else:
        answer = reference_plan(blueprint)
    return json.dumps(answer, ensure_ascii=False)


def wrong_answer(blueprint: PersonalHomeBlueprint, rng: random.Random) -> str:
    """An answer of the right form that is wrong, or less right."""
    task = blueprint.task
    if isinstance(task, Grounding):
        answer: Any = {part.key: {"answer": "unknown", "rationale": ""} for part in task.parts}
    elif isinstance(task, Choice):
        answer = {"answer": rng.choice([letter for letter in LETTERS if letter != task.right]), "evidence": []}
    elif isinstance(task, Features):
        answer = {"ranked_features": rng.sample(task.ranking, len(task.ranking))}
    else:
        answer = reference_plan(blueprint)[1:]
    return json.dumps(answer, ensure_ascii=False)


class PersonalHomeExpert:
    """Reads, then answers. With probability `mistakes` a message is wrong: an answer before all is read, or a wrong one."""

    name = "expert"

    def __init__(self, seed: int = 0, mistakes: float = 0.0) -> None:
        self.seed, self.mistakes = seed, mistakes

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """Up to `n` different messages."""
        return [Reply(message) for message in draw_candidates(self._draw_message, episode, n, self.seed)]

    def _draw_message(self, episode: Episode, rng: random.Random) -> Message:
        blueprint: Any = episode.blueprint
        if rng.random() < self.mistakes:
            return text_message(wrong_answer(blueprint, rng))
        seen, start = episode.world.state.seen, HouseholdState(blueprint.household)  # type: ignore[attr-defined]
        for name, arguments in evidence_calls(blueprint) if blueprint.setting == "agentic" else ():
            if not _ids_shown_by(start, (name, arguments)) <= seen:
                return call_message(tool_call(name, arguments))
        return text_message(right_answer(blueprint))
