"""The scripted expert: it reads the evidence of a task in few calls, and then answers. And agents that no suite may reward.

Invariants: candidate messages are a pure function of seed and dialogue; without mistakes every call is accepted, all evidence is
seen, and the answer is right; the other agents do not look at answers or evidence.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from envs.messages import Message, call_message, text_message, tool_call
from envs.personalhome.calls import call
from envs.personalhome.state import HouseholdState
from homerl.play.candidates import candidates
from homerl.play.episode import Episode
from homerl.play.loop import Agent
from homerl.play.situation import Reply
from homerl.worlds.personalhome.blueprint import Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.worlds.personalhome.reference import reference_plan

Call = tuple[str, dict[str, Any]]
MOST_MEMORIES = 50


def reads(blueprint: PersonalHomeBlueprint) -> list[Call]:
    """The calls that show all evidence of a task, in a fixed order."""
    by_kind: dict[str, list[str]] = {}
    for id in blueprint.task.evidence:
        kind, _, name = id.partition(":")
        by_kind.setdefault(kind, []).append(name)
    state = HouseholdState(blueprint.household)
    return [one for kind, names in by_kind.items() for one in READS[kind](state, names)]


def _devices(tool: str, argument: str) -> Callable[[HouseholdState, list[str]], Iterator[Call]]:
    def read(state: HouseholdState, names: list[str]) -> Iterator[Call]:
        yield tool, {argument: names}

    return read


def _states(state: HouseholdState, names: list[str]) -> Iterator[Call]:
    sensors = {device.did for device in state.sensors}
    if owned := [name for name in names if name not in sensors]:
        yield "get_appliances", {"appliance_names": owned}
    if sensing := [name for name in names if name in sensors]:
        yield "get_sensors", {"sensor_names": sensing}


def _memories(state: HouseholdState, names: list[str]) -> Iterator[Call]:
    """One search for all of the memories, in the words of one of them that finds them with the fewest others."""
    wanted = {f"memory:{name}" for name in names}
    memories = state.household.memories
    queries = [memories[int(name)].memory for name in names]
    best = min(queries, key=lambda query: _depth(state, query, wanted))
    depth = _depth(state, best, wanted)
    if depth <= MOST_MEMORIES:
        yield "get_household_memories", {"search_string": best, "num_memories": depth}
        return
    for name in names:
        alone = memories[int(name)].memory
        depth = _depth(state, alone, {f"memory:{name}"})
        yield "get_household_memories", {"search_string": alone, "num_memories": depth}


def _depth(state: HouseholdState, query: str, wanted: set[str]) -> int:
    """How many memories a search must return until it has found all that are wanted; more than allowed if it does not."""
    for count in range(len(wanted), min(MOST_MEMORIES, len(state.household.memories)) + 1):
        look = state.fork()
        call(look, "get_household_memories", {"search_string": query, "num_memories": count})
        if wanted <= look.seen:
            return count
    return MOST_MEMORIES + 1


READS: Mapping[str, Callable[[HouseholdState, list[str]], Iterator[Call]]] = {
    "profile": lambda state, names: iter([("get_household_profile", {})]),
    "pet": lambda state, names: iter([("get_household_profile", {})]),
    "member": lambda state, names: iter([("get_household_member_info", {"member_ids": names})]),
    "life": lambda state, names: iter([("get_household_member_major_events", {"member_id": name}) for name in names]),
    "memory": _memories,
    "event": lambda state, names: iter([("get_contextual_event_descriptions", {"sort_by_time": True})]),
    "weather": lambda state, names: iter([("get_weather", {})]),
    "appliance": lambda state, names: iter([("get_owned_appliances", {})]),
    "sensor": lambda state, names: iter([("get_owned_sensors", {})]),
    "state": _states,
}


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
        return _json({"answer": rng.choice([letter for letter in "ABCDE" if letter != task.right]), "evidence": []})
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
        return [Reply(message) for message in candidates(self._candidate, episode, n, self.seed)]

    def _candidate(self, episode: Episode, rng: random.Random) -> Message:
        blueprint: Any = episode.blueprint
        if rng.random() < self.mistakes:
            return text_message(wrong_answer(blueprint, rng))
        seen = episode.world.state.seen  # type: ignore[attr-defined]
        for name, arguments in reads(blueprint) if blueprint.setting == "agentic" else ():
            look = HouseholdState(blueprint.household)
            call(look, name, arguments)
            if not look.seen <= seen:
                return call_message(tool_call(name, arguments))
        return text_message(right_answer(blueprint))


class Constant:
    """Says the same of every task of a kind."""

    def __init__(self, name: str, say: Callable[[PersonalHomeBlueprint], str]) -> None:
        self.name, self._say = name, say

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """One message."""
        blueprint: Any = episode.blueprint
        return [Reply(text_message(self._say(blueprint)))]


def _unknown(blueprint: PersonalHomeBlueprint) -> str:
    if isinstance(blueprint.task, Grounding):
        return _json({part.key: {"answer": "unknown"} for part in blueprint.task.parts})
    return _json({"answer": "unknown"})


def _first(blueprint: PersonalHomeBlueprint) -> str:
    """The first letter, features in the order shown, or one empty program."""
    if isinstance(blueprint.task, Features):
        return _json({"ranked_features": list(blueprint.task.titles)})
    return _json({"answer": "A"} if isinstance(blueprint.task, Choice) else [{"program_id": "nothing", "steps": []}])


BASELINES: Mapping[str, Callable[[], Agent]] = {
    "expert": PersonalHomeExpert,
    "nothing": lambda: Constant("nothing", lambda blueprint: ""),
    "unknown": lambda: Constant("unknown", _unknown),
    "first": lambda: Constant("first", _first),
}
