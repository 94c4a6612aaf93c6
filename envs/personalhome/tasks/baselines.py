"""Agents without a language model, which no suite may reward: they say nothing, guess, or go by words.

Invariants: they are deterministic, and look at neither answers nor evidence.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.personalhome.sim.appliance_catalogue import load_features
from homerl.envs.personalhome.sim.bm25_search import rank_by_bm25, search_terms
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.expert import SCENE_TOOLS, PersonalHomeExpert
from homerl.envs.personalhome.tasks.situation import household_for_prompt
from homerl.play.episode import Episode
from homerl.play.loop import Agent
from homerl.play.situation import Reply

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
