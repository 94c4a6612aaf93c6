"""Agents without a language model, which no suite may reward: they say nothing, guess, or go by words.

Invariants: they are deterministic, and look at neither answers nor evidence.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.personalhome.sim.appliance_features import load_features
from homerl.envs.personalhome.sim.bm25_search import rank_by_bm25, search_terms
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.expert import PersonalHomeExpert
from homerl.envs.personalhome.tasks.situation import household_for_prompt
from homerl.play.episode import Episode
from homerl.play.loop import Agent
from homerl.play.situation import Reply

ALL = 50  # memories, the most that one search gives
SCENE = (  # tools that tell all they know of a video without arguments
    "get_scene_summary",
    "extract_captions",
    "get_audio_events",
    "get_layout_zones",
    "get_landmarks_in_house",
    "get_object_information",
)


class ConstantAgent:
    """Answers at once, by a function of what is asked."""

    def __init__(self, name: str, say: Callable[[PersonalHomeBlueprint], str]) -> None:
        self.name, self._say = name, say

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """One message."""
        blueprint: Any = episode.blueprint
        return [Reply(text_message(self._say(blueprint)))]


def _unknown(blueprint: PersonalHomeBlueprint) -> str:
    if isinstance(blueprint.task, Grounding):
        return _same(blueprint.task, "unknown")
    return json.dumps({"answer": "unknown"})


def _first(blueprint: PersonalHomeBlueprint) -> str:
    """The first letter, features in the order shown, or one empty program."""
    if isinstance(blueprint.task, Features):
        return json.dumps({"ranked_features": list(blueprint.task.titles)})
    return json.dumps({"answer": LETTERS[0]} if isinstance(blueprint.task, Choice) else [_program([])])


def _random(blueprint: PersonalHomeBlueprint) -> str:
    """A letter, an order of the features, a value that the household has, or one method of one appliance."""
    rng, task = random.Random(f"random {blueprint.id}"), blueprint.task
    if isinstance(task, Choice):
        return json.dumps({"answer": rng.choice(LETTERS)})
    if isinstance(task, Features):
        return json.dumps({"ranked_features": rng.sample(list(task.titles), len(task.titles))})
    if isinstance(task, Grounding):
        return _same(
            task, rng.choice(rng.choice([values for _, values in _rows(household_for_prompt(blueprint.household))]))
        )
    return json.dumps([_program([rng.choice(list(_methods(blueprint.household)))])])


def _same(task: Grounding, answer: str) -> str:
    return json.dumps({part.key: {"answer": answer} for part in task.parts}, ensure_ascii=False)


def _program(methods: Sequence[tuple[str, str]]) -> dict[str, Any]:
    steps = [
        {"step_id": f"s{number}", "appliance": appliance, "feature": method, "category": ["ROUTINE"], "args": {}}
        for number, (appliance, method) in enumerate(methods)
    ]
    return {"program_id": "p", "steps": steps}


def _methods(household: Household) -> dict[tuple[str, str], str]:
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
        unread = episode.messages[-1]["role"] == "user" and blueprint.setting == "agentic"
        if unread:
            return [Reply(call_message(*(tool_call(*each) for each in _everything(blueprint.household))))]
        return [Reply(text_message(_by_words(blueprint, list(_read(episode.messages)))))]


def _everything(household: Household) -> Iterator[tuple[str, dict[str, Any]]]:
    people = [member.member_id for member in household.members]
    told = household_shown(household)
    appliances, sensors = ([device[key] for device in told[f"{key}s"]] for key in ("appliance", "sensor"))
    yield "get_household_profile", {}
    yield "get_household_member_info", {"member_ids": people}
    yield from (("get_household_member_major_events", {"member_id": person}) for person in people)
    yield "get_household_memories", {"search_string": "", "num_memories": ALL}
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
        yield from ((name, {}) for name in SCENE)
        yield "get_members_appearance", {"member_ids": [one.member_id for one in seen.members]}
        yield "get_appliance_descriptions", {"appliance_names": [one.appliance_id for one in seen.appliances]}


def _read(messages: Sequence[Message]) -> Iterator[tuple[str, list[str]]]:
    """What tools, or the system prompt, told in JSON: the words and the values of each row."""
    for message in messages:
        if message["role"] == "tool":
            yield from _rows(json.loads(message["content"]))
        elif message["role"] == "system":
            about = [line for line in message["content"].splitlines() if line.startswith('{"household_id"')]
            yield from _rows([json.loads(line) for line in about])


def _rows(data: Any) -> Iterator[tuple[str, list[str]]]:
    """The mappings in a tree without the mappings and lists of mappings in them: all their words, and their values."""
    if isinstance(data, list):
        for each in data:
            yield from _rows(each)
    elif isinstance(data, dict):
        plain = {key: value for key, value in data.items() if isinstance(value, (str, int, float)) and value != ""}
        if plain:
            yield " ".join(f"{key} {value}" for key, value in plain.items()), [str(value) for value in plain.values()]
        for value in data.values():
            yield from _rows(value)


def _by_words(blueprint: PersonalHomeBlueprint, rows: Sequence[tuple[str, list[str]]]) -> str:
    task, texts = blueprint.task, [text for text, _ in rows]
    if isinstance(task, Choice):
        return json.dumps({"answer": _chosen(task, texts)})
    if isinstance(task, Grounding):
        return _same(task, _value(task.question, rows))
    if isinstance(task, Features):
        return json.dumps({"ranked_features": _ranked(task, " ".join(texts))})
    methods = _methods(blueprint.household)
    best = rank_by_bm25(" ".join(texts), list(methods.values()))
    return json.dumps([_program([list(methods)[best[0] if best else 0]])])


def _ranked(task: Features, about: str) -> list[str]:
    """The features whose titles share most words with the household first."""
    ids = list(task.titles)
    best = [ids[at] for at in rank_by_bm25(about, list(task.titles.values()))]
    return best + [id for id in ids if id not in best]


def _chosen(task: Choice, texts: Sequence[str]) -> str:
    """The first choice that the rows name, those first that share most words with the question."""
    for at in rank_by_bm25(task.question, texts):
        named = [number for number, choice in enumerate(task.choices) if choice.casefold() in texts[at].casefold()]
        if named:
            return LETTERS[named[0]]
    return LETTERS[0]


def _value(question: str, rows: Sequence[tuple[str, list[str]]]) -> str:
    """Of the row that shares most words with the question, the value that shares fewest."""
    asked, best = set(search_terms(question)), rank_by_bm25(question, [text for text, _ in rows])
    return min(rows[best[0]][1], key=lambda value: len(asked & set(search_terms(value)))) if best else "unknown"


BASELINES: Mapping[str, Callable[[], Agent]] = {
    "expert": PersonalHomeExpert,
    "nothing": lambda: ConstantAgent("nothing", lambda blueprint: ""),
    "unknown": lambda: ConstantAgent("unknown", _unknown),
    "first": lambda: ConstantAgent("first", _first),
    "random": lambda: ConstantAgent("random", _random),
    "keywords": HouseholdKeywordAgent,
}
