"""The LLM author over real HTTP: what it is asked, what is dropped and why, and that the task is computed."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from datetime import datetime, timedelta

import pytest
from scripted_server import MODEL, ScriptedServer

from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.adapter import WORLD
from homerl.envs.personalhome.sim.generate.consistency_rules import household_problems
from homerl.envs.personalhome.sim.vocabulary import load_fact_words
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeRecipe
from homerl.envs.personalhome.tasks.situation import PersonalHomeSituation, is_choice_right
from homerl.models.endpoint.endpoint import make_endpoint
from homerl.models.endpoint.endpoint_settings import AuthorSettings
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.worlds.contract import NoBlueprint

TASTE = {"what": None, "low": None, "high": None, "hours": None, "room": None}
FACT = {"others": [], "pet": None, "appliance": None, "room": None, "who": None, "value": None}
LEVELS = {"simple": 1}
BOUGHT = {
    "en": "{who} bought {what} for {n} dollars.",
    "zh": "{who}花{n}元买了{what}。",
}
PLAYED = {
    "en": "{who} spent 30 minutes {what} with the {speaker} in the {room}.",
    "zh": "{who}在{room}用{speaker}{what}了30分钟。",
}
LIKES = {"en": "{who} cares about {taste}.", "zh": "{who}喜欢{taste}。"}


def recipe(language: str = "en", **more) -> PersonalHomeRecipe:
    household = {"language": language, "memories": (12, 16)}
    data = {"world": "personalhome", "tasks": {"choice": 1}, "difficulties": LEVELS, "household": household}
    return PersonalHomeRecipe.model_validate(data | more)


def people(told: dict, language: str) -> dict:
    """Everybody likes to save water, or children a room temperature, and has the first hobby."""
    words, written = load_fact_words(language), []
    for person in told["people"]:
        kind = "save_water" if person["age"] >= 14 else "room_temperature"
        taste = TASTE | {"kind": kind}
        text = LIKES[language].format(who=person["name"], taste=words.key_word("tastes", kind))
        if kind == "room_temperature":
            taste |= {"low": 19, "high": 21}
            text = text[:-1] + f" (19 °C, 21 °C){text[-1]}"
        one = {"member_id": person["member_id"], "persona": f"{person['name']} is kind.", "habits": []}
        written.append(one | {"hobbies": ["music", "reading", "cooking"], "tastes": [taste | {"text": text}]})
    return {"people": written}


def past(told: dict, language: str) -> dict:
    """A thing is bought every tenth day, by a grown-up, and one of them hears music before the situation."""
    words, now = load_fact_words(language), datetime.fromisoformat(told["now"])
    grown = [person for person in told["people"] if person["age"] >= 18]
    things = list(told["words"]["things"])
    memories = []
    for n in range(18):
        who, thing = grown[n % len(grown)], things[n % 5]
        text = BOUGHT[language].format(who=who["name"], what=words.key_word("things", thing), n=30 + n)
        bought = FACT | {"kind": "bought", "who": who["member_id"], "what": thing, "value": 30 + n, "text": text}
        memories.append(bought | {"time": (now - timedelta(days=10 * n + 5)).isoformat(timespec="minutes")})
    (did, speaker), *_ = [(did, one) for did, one in told["appliances"].items() if did.startswith("speaker")]
    who, room, what = grown[0], speaker["room"], "listening_to_music"
    names = {"who": who["name"], "speaker": speaker["name"], "room": told["rooms"][room]}
    text = PLAYED[language].format(**names, what=words.key_word("activities", what))
    played = FACT | {"kind": "used", "who": who["member_id"], "what": what, "appliance": did, "room": room, "value": 30}
    time = datetime.fromisoformat(told["events_before"]) - timedelta(hours=6)
    return {"memories": memories, "events": [played | {"text": text, "time": time.isoformat(timespec="minutes")}]}


def author(language: str = "en", change=lambda past: past, change_people=lambda people: people):
    """What a server says that writes such lives, changed as told."""

    def answer(request):
        told = json.loads(request["messages"][1]["content"])
        if request["response_format"]["json_schema"]["name"] == "People":
            return {"content": json.dumps(change_people(people(told, language)), ensure_ascii=False)}
        return {"content": json.dumps(change(past(told, language)), ensure_ascii=False)}

    return answer


def written(answer, seed: int = 0, attempts: int = 8, made: PersonalHomeRecipe | None = None, split: str = "train"):
    dropped: Counter[str] = Counter()
    with ScriptedServer(answer=answer) as server:
        settings = AuthorSettings(url=server.url, model=MODEL)

        async def run():
            endpoint = make_endpoint(settings)
            try:
                client = StructuredClient(endpoint, settings)
                return await WORLD.llm_author(made or recipe(), split, seed, client, attempts, dropped)
            finally:
                await endpoint.close()

        try:
            return asyncio.run(run()), dropped, server.requests
        except NoBlueprint:
            return None, dropped, server.requests


@pytest.mark.parametrize(("language", "split"), [("en", "train"), ("zh", "heldout")])
def test_a_household_is_written_and_its_task_computed(language, split):
    found, dropped, requests = written(author(language), made=recipe(language), split=split)
    blueprint = found.blueprint
    household, task = blueprint.household, blueprint.task
    assert household.language == blueprint.language == language and blueprint.split == split
    assert not [*household_problems(household, home_from_json(household.home))]
    assert {memory.fact.kind for memory in household.memories} == {"bought"} and 12 <= len(household.memories) <= 18
    assert all(memory.memory.endswith(("dollars.", "。")) for memory in household.memories)
    heard = household.context.events[0]
    assert heard.fact.what == "listening_to_music" and "30" in heard.description and heard.appliances
    assert all(member.persona == f"{member.name} is kind." and member.tastes for member in household.members)
    assert task.kind == "choice" and is_choice_right(task, json.dumps({"answer": task.right}))
    assert set(PersonalHomeSituation.begin(blueprint).met()) == {False}
    names = [request["response_format"]["json_schema"]["name"] for request in requests]
    assert names == ["People", "Past"] * (len(names) // 2) and found.record["candidates"] == len(names) // 2
    assert all(request["response_format"]["json_schema"]["strict"] and "seed" in request for request in requests)
    assert dropped["candidates: written"] == found.record["candidates"]
    again, _, _ = written(author(language), made=recipe(language), split=split)
    assert again.blueprint.model_dump_json() == blueprint.model_dump_json()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": "Somebody bought it for {n} dollars."}, "text: unsaid"),
        ({"value": 7}, "text: unsaid"),
        ({"what": "rug"}, "text: unsaid"),
        ({"text": "{text} It was the 2nd time."}, "text: says more"),
        ({"text": "set_price(): {text}"}, "code is said"),
        ({"time": "last week"}, "unreadable_time"),
        ({"time": "2999-01-01T10:00"}, "out_of_reach"),
        ({"time": "1990-01-01T10:00"}, "out_of_reach"),
        ({"kind": "dreamt"}, "unknown_kind"),
        ({"kind": "left_home"}, "unknown_kind"),
        ({"what": "spaceship"}, "wrong_fields"),
        ({"room": "attic_9"}, "unknown_name"),
        ({"who": "nobody"}, "unknown_name"),
        ({"value": -30, "text": "{who} bought it."}, "unfit_value"),
        ({"value": 30.5}, "unfit_value"),
    ],
)
def test_what_contradicts_itself_is_dropped_and_counted(change, reason):
    def spoil(said):
        first, *rest = said["memories"]
        told = {"text": first["text"], "n": int(first["value"]), "who": first["text"].split()[0]}
        spoilt = {key: value.format(**told) if key == "text" else value for key, value in change.items()}
        return said | {"memories": [first | spoilt, *rest]}

    found, dropped, _ = written(author(change=spoil))
    assert found is not None and found.record["memories"] == 17
    lost = {key: count for key, count in dropped.items() if key.startswith("author: ")}
    assert lost == {f"author: {reason}": dropped["candidates: written"] - _too_small(dropped)}, dropped


def _too_small(dropped: Counter[str]) -> int:
    """Candidates that were lost before their past was asked for."""
    return dropped["candidate: a person has no persona, hobby or taste"]


def test_two_facts_that_cannot_both_be_leave_one():
    def twice(said):
        first = said["memories"][0]
        return said | {"memories": [*said["memories"], first | {"text": first["text"]}]}

    found, dropped, _ = written(author(change=twice))
    assert found.record["memories"] == 18 and dropped["author: same_time"] >= 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hobbies": ["flying"]}, "author: unknown_hobby"),
        ({"persona": "A kind person."}, "author: text: unsaid"),
        ({"tastes": []}, None),
    ],
)
def test_people_without_character_are_no_household(change, reason):
    def spoil(said):
        return {"people": [person | change for person in said["people"]]}

    found, dropped, requests = written(author(change_people=spoil), attempts=2)
    assert found is None and dropped["candidate: a person has no persona, hobby or taste"] == 2
    assert len(requests) == 2 and (reason is None or dropped[reason] >= 2)


def test_too_few_memories_and_answers_that_are_none_end_in_no_blueprint():
    found, dropped, _ = written(author(change=lambda said: said | {"memories": said["memories"][:5]}), attempts=3)
    assert found is None
    assert dropped["candidate: too few memories are left"] == 3
    found, dropped, requests = written(lambda request: {"content": "Well, let me think..."}, attempts=2)
    assert found is None and dropped == {"candidates: written": 2, "candidate: unreadable": 2} and len(requests) == 4
    assert "no JSON" in requests[1]["messages"][-1]["content"]


def test_events_are_ordinary_and_before_what_tells_of_the_situation():
    def busy(said):
        (played,) = said["events"]
        kinds = [played | {"kind": "noticed", "what": "smoke", "value": None}, played | {"what": "watching_films"}]
        late = (datetime.fromisoformat(played["time"]) + timedelta(hours=9)).isoformat()
        return said | {"events": [*kinds, played | {"time": late}]}

    found, dropped, _ = written(author(change=busy))
    for reason in ("unknown_kind", "unfit_appliance", "out_of_reach"):
        assert dropped[f"author: {reason}"] >= 1
    events = found.blueprint.household.context.events
    assert len(events) >= 2 and all(event.fact.what != "listening_to_music" for event in events)


def test_what_the_model_is_told_names_all_that_it_may_use():
    _, _, requests = written(author())
    told = json.loads(requests[1]["messages"][1]["content"])
    assert {"people", "rooms", "appliances", "memories", "events", "now", "number_of_memories"} <= told.keys()
    groups = {shape["what"] for shape in (told["memories"] | told["events"]).values()} - {None}
    assert groups <= told["words"].keys()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d", told["now"])
