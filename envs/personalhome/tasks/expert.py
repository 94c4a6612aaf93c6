"""Agents without a language model: the scripted expert, and baselines that no suite may reward.

The expert reads the evidence of a task in few calls, and then answers. Baselines say nothing, guess, or go by words.

Invariants:
- The expert's calls are a pure function of household, question and evidence. Together they show all of the evidence, and
  they search in the words of the question.
- Its candidate messages are a pure function of seed and dialogue.
- Without mistakes every call is accepted, all evidence is seen, and the answer is right.
- Baselines are deterministic, and look at neither answers nor evidence.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.personalhome.sim.appliance_catalogue import load_features
from homerl.envs.personalhome.sim.bm25_search import rank_by_bm25, search_terms
from homerl.envs.personalhome.sim.env import call_household_tool
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.sim.scene.transcript import Transcript
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.plan_rules import reference_plan
from homerl.envs.personalhome.tasks.situation import household_for_prompt
from homerl.play.episode import Episode
from homerl.play.loop import Agent, draw_candidates
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
    # The kind of an id tells which tool shows it (`sim/tools/__init__.py`).
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
    sensors = {device.did for device in state.devices_of_kind("sensor")}
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


MOST_MEMORIES = 50  # the most that one search gives
TextRow = tuple[str, list[str]]  # the words of a row, and its values


class ConstantAgent:
    """Answers at once, by a function of what is asked."""

    def __init__(self, name: str, say: Callable[[PersonalHomeBlueprint], str]) -> None:
        self.name, self._say = name, say

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """One message."""
        blueprint: Any = episode.blueprint
        return [Reply(text_message(self._say(blueprint)))]


def _say_unknown(blueprint: PersonalHomeBlueprint) -> str:
    if isinstance(blueprint.task, Grounding):
        return _answer_all_parts(blueprint.task, "unknown")
    return json.dumps({"answer": "unknown"})


def _say_first(blueprint: PersonalHomeBlueprint) -> str:
    """The first letter, features in the order shown, or one empty program."""
    if isinstance(blueprint.task, Features):
        return json.dumps({"ranked_features": list(blueprint.task.titles)})
    return json.dumps({"answer": LETTERS[0]}) if isinstance(blueprint.task, Choice) else _plan_of_methods([])


def _say_random(blueprint: PersonalHomeBlueprint) -> str:
    """A letter, an order of the features, a value that the household has, or one method of one appliance."""
    rng, task = random.Random(f"random {blueprint.id}"), blueprint.task
    if isinstance(task, Choice):
        return json.dumps({"answer": rng.choice(LETTERS)})
    if isinstance(task, Features):
        return json.dumps({"ranked_features": rng.sample(list(task.titles), len(task.titles))})
    if isinstance(task, Grounding):
        values = rng.choice([values for _, values in _flatten_rows(household_for_prompt(blueprint.household))])
        return _answer_all_parts(task, rng.choice(values))
    return _plan_of_methods([rng.choice(list(_method_titles(blueprint.household)))])


def _answer_all_parts(task: Grounding, answer: str) -> str:
    return json.dumps({part.key: {"answer": answer} for part in task.parts}, ensure_ascii=False)


def _plan_of_methods(methods: Sequence[tuple[str, str]]) -> str:
    """A plan of one program that calls these methods of appliances."""
    steps = [
        {"step_id": f"s{number}", "appliance": appliance, "feature": method, "category": ["ROUTINE"], "args": {}}
        for number, (appliance, method) in enumerate(methods)
    ]
    return json.dumps([{"program_id": "p", "steps": steps}])


def _method_titles(household: Household) -> dict[tuple[str, str], str]:
    """The title of each method of each appliance, in the household's language."""
    return {
        (appliance["appliance"], feature.method): getattr(feature.title, household.language)
        for appliance in household_shown(household)["appliances"]
        for feature in load_features().values()
        if feature.kind == appliance["type"]
    }


class HouseholdKeywordAgent:
    """Reads the whole household, and answers with what shares most words with the question."""

    name = "keywords"

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """One message that reads everything, and then the answer."""
        blueprint: Any = episode.blueprint
        if episode.messages[-1]["role"] == "user" and blueprint.setting == "agentic":
            return [Reply(call_message(*(tool_call(*each) for each in _all_reading_calls(blueprint.household))))]
        return [Reply(text_message(_answer_by_words(blueprint, list(_rows_told(episode.messages)))))]


def _all_reading_calls(household: Household) -> Iterator[tuple[str, dict[str, Any]]]:
    people = [member.member_id for member in household.members]
    shown = household_shown(household)
    appliances, sensors = ([device[key] for device in shown[f"{key}s"]] for key in ("appliance", "sensor"))
    yield "get_household_profile", {}
    yield "get_household_member_info", {"member_ids": people}
    yield from (("get_household_member_major_events", {"member_id": person}) for person in people)
    yield "get_household_memories", {"search_string": "", "num_memories": MOST_MEMORIES}
    yield "get_owned_appliances", {}
    yield "get_owned_sensors", {}
    yield "get_appliances", {"appliance_names": appliances}
    yield "get_appliance_features", {"appliance_names": appliances}
    if sensors:
        yield "get_sensors", {"sensor_names": sensors}
    yield "get_weather", {}
    yield "get_contextual_event_descriptions", {}
    if household.transcript:
        seen = household.transcript.video_description.entities
        yield from ((name, {}) for name in SCENE_TOOLS)
        yield "get_members_appearance", {"member_ids": [one.member_id for one in seen.members]}
        yield "get_appliance_descriptions", {"appliance_names": [one.appliance_id for one in seen.appliances]}


def _rows_told(messages: Sequence[Message]) -> Iterator[TextRow]:
    """The rows that tools, or the system prompt, told in JSON."""
    for message in messages:
        if message["role"] == "tool":
            yield from _flatten_rows(json.loads(message["content"]))
        elif message["role"] == "system":
            about = [line for line in message["content"].splitlines() if line.startswith('{"household_id"')]
            yield from _flatten_rows([json.loads(line) for line in about])


def _flatten_rows(data: Any) -> Iterator[TextRow]:
    """Each mapping in a tree as a row, without the mappings and lists in it, which are rows of their own."""
    if isinstance(data, dict):
        # The words of a row are its keys and values: a question may ask for either.
        plain = {key: value for key, value in data.items() if isinstance(value, (str, int, float)) and value != ""}
        if plain:
            yield " ".join(f"{key} {value}" for key, value in plain.items()), [str(value) for value in plain.values()]
        data = list(data.values())
    for each in data if isinstance(data, list) else ():
        yield from _flatten_rows(each)


def _answer_by_words(blueprint: PersonalHomeBlueprint, rows: Sequence[TextRow]) -> str:
    task, texts = blueprint.task, [text for text, _ in rows]
    if isinstance(task, Choice):
        # The first choice that a row names. Rows that share most words with the question come first.
        named = (
            letter
            for at in rank_by_bm25(task.question, texts)
            for letter, choice in zip(LETTERS, task.choices)
            if choice.casefold() in texts[at].casefold()
        )
        return json.dumps({"answer": next(named, LETTERS[0])})
    if isinstance(task, Grounding):
        # Of the row that shares most words with the question, the value that shares fewest.
        asked, best = set(search_terms(task.question)), rank_by_bm25(task.question, texts)
        values = rows[best[0]][1] if best else ["unknown"]
        return _answer_all_parts(task, min(values, key=lambda value: len(asked & set(search_terms(value)))))
    if isinstance(task, Features):
        # The features whose titles share most words with the household come first.
        ids = list(task.titles)
        ranked = [ids[at] for at in rank_by_bm25(" ".join(texts), list(task.titles.values()))]
        return json.dumps({"ranked_features": [*ranked, *(id for id in ids if id not in ranked)]})
    methods = _method_titles(blueprint.household)
    best = rank_by_bm25(" ".join(texts), list(methods.values()))
    return _plan_of_methods([list(methods)[best[0] if best else 0]])


BASELINES: Mapping[str, Callable[[], Agent]] = {
    "expert": PersonalHomeExpert,
    "nothing": lambda: ConstantAgent("nothing", lambda blueprint: ""),
    "unknown": lambda: ConstantAgent("unknown", _say_unknown),
    "first": lambda: ConstantAgent("first", _say_first),
    "random": lambda: ConstantAgent("random", _say_random),
    "keywords": HouseholdKeywordAgent,
}
