"""The LLM author over real HTTP: what it is told, what each filter drops, and what is stored of the verdict."""

import asyncio
import json
import re
from collections import Counter
from functools import cache

import pytest
from scripted_server import MODEL, Faults, ScriptedServer

from homerl.envs.homeenv.tasks.author import BlueprintRecipe, first_filter_failure, make_home_blueprint
from homerl.envs.homeenv.tasks.llm_author import author_home_blueprint
from homerl.models.endpoint.endpoint import make_endpoint
from homerl.models.endpoint.endpoint_settings import AuthorSettings
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.words.grammar import split_of
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import SynthesisStatistics, synthesise_shards
from homerl.worlds.contract import AuthoredBlueprint, NoBlueprint

RECIPE = BlueprintRecipe.model_validate({"home": {"devices": (4, 8)}, "intents": (1, 2)})
DEVICE = re.compile(r"^- (\S+) \((.+?)\): (\{.*?\}); (.*)$", re.M)
PERSON = {
    "name": "Ada Lindqvist",
    "age": 71,
    "gender": "female",
    "height_cm": 166,
    "weight_kg": 60,
    "health": "arthritis",
    "habits": ["reads at night"],
    "preferences": {"temperature": 23, "lighting": "soft", "noise": "quiet"},
    "scene": "She sits down to read; something is not as she likes it.",
}


def switches(text: str) -> list[dict]:
    """Tasks that switch what can be switched, of what the prompt lists."""
    found = []
    for did, name, state, services in DEVICE.findall(text):
        now = json.loads(state).get("state")
        if now in ("on", "off") and "turn_on(" in services and "turn_off(" in services:
            wanted = "on" if now == "off" else "off"
            found.append(task(did, name, wanted))
    return found


def ours(text: str, split: str = "train") -> list[str]:
    """The text with courtesies, where it is of the split."""
    return [said for n in range(40) if split_of(said := f"{'please ' * n}{text}") == split]


def task(did: str, name: str, wanted: str) -> dict:
    says = ours(f"turn {wanted} the {name}")
    return {
        "say": says[:3],
        "plainly": says[3:5],
        "clarity": "clear",
        "noise": "clean",
        "dependency": "independent",
        "conditions": [f'device("{did}").state == "{wanted}"'],
        "plan": [{"did": did, "service": f"turn_{wanted}", "args": []}],
    }


def asked_for(request) -> str:
    return request["response_format"]["json_schema"]["name"]


def author(change=lambda tasks: tasks, verdict=lambda number: {}, person=PERSON):
    """What a server says that writes switches, changed as told."""

    def answer(request):
        text = request["messages"][1]["content"]
        match asked_for(request):
            case "Person":
                said = person
            case "Tasks":
                said = {"tasks": change(switches(text)[:2])}
            case _:
                agreed = {"consistent": True, "fault": "none", "why": "it fits"}
                numbers = [int(number) for number in re.findall(r"^Task (\d+):", text, re.M)]
                said = {"verdicts": [{"task": number} | agreed | verdict(number) for number in numbers]}
        return {"content": json.dumps(said)}

    return answer


def written(answer, seed: int = 0, attempts: int = 1, **faults) -> tuple[AuthoredBlueprint, Counter, list]:
    dropped: Counter[str] = Counter()
    with ScriptedServer(answer=answer, faults=Faults(**faults)) as server:
        settings = AuthorSettings(url=server.url, model=MODEL)

        async def run():
            endpoint = make_endpoint(settings)
            try:
                return await author_home_blueprint(
                    RECIPE, "train", seed, StructuredClient(endpoint, settings), attempts, dropped
                )
            finally:
                await endpoint.close()

        try:
            return asyncio.run(run()), dropped, server.requests
        except NoBlueprint:
            return None, dropped, server.requests


@cache
def good_seed() -> int:
    """A seed whose home has two things to switch."""
    for seed in range(50):
        found, _, _ = written(author(), seed)
        if found and len(found.blueprint.intents) == 2:
            return seed
    raise AssertionError("no home with two switches")


def test_a_blueprint_is_written_filtered_judged_and_complete():
    found, dropped, requests = written(author(), good_seed())
    made = found.blueprint
    assert [asked_for(request) for request in requests] == ["Person", "Tasks", "Verdicts"]
    assert first_filter_failure(made) is None and made.profile.name == PERSON["name"] and made.scene == PERSON["scene"]
    assert found.record["verdicts"] == [
        {"task": number, "consistent": True, "fault": "none", "why": "it fits"} for number in (1, 2)
    ]
    assert dropped == {"candidates: written": 1, "tasks: written": 2}
    schema = requests[1]["response_format"]["json_schema"]
    assert schema["strict"] and schema["schema"]["additionalProperties"] is False and "seed" in requests[0]
    assert written(author(), good_seed())[0] == found, "the same answers give the same blueprint"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"conditions": ['device("nobody").state == "on"']}, "executable: condition does not compile"),
        ({"plan": [{"did": "nobody", "service": "turn_on", "args": []}]}, "executable: plan refused: unknown_device"),
        ({"conditions": ["device(\"{did}\").state == 'violet'"]}, "within_bounds: constant out_of_range"),
        ({"conditions": ['device("{did}").state == "{now}"']}, "consistent: a condition holds already"),
        ({"say": ["the {did} please"]}, "author: code is said"),
        ({"say": ["call set_brightness(50) with level==50"]}, "author: code is said"),
        ({"plainly": ["switch device{did}"]}, "author: code is said"),
        ({"plainly": ["as an AI I want light"]}, "author: code is said"),
    ],
)
def test_what_a_filter_drops_is_counted_with_its_reason(change, reason):
    def spoil(tasks):
        first, *rest = tasks
        did = first["plan"][0]["did"]
        now = "off" if "_on" in first["plan"][0]["service"] else "on"
        text = json.dumps(change).replace("{did}", did).replace("{now}", now)
        spoilt = first | json.loads(text)
        said = {key: ours(spoilt[key][0])[:3] for key in ("say", "plainly")}
        return [spoilt | said, *rest]

    found, dropped, _ = written(author(spoil), good_seed())
    assert len(found.blueprint.intents) == 1, "the other task stays"
    counted = {key: count for key, count in dropped.items() if "written" not in key}
    assert counted.pop(reason, 0) == 1, dropped
    assert not counted


def test_the_judges_verdict_decides_and_no_verdict_is_none():
    against = {"consistent": False, "fault": "person", "why": "nobody with arthritis wants that"}
    found, dropped, _ = written(author(verdict=lambda n: against if n == 1 else {}), good_seed())
    assert dropped["consistent: the judge: person"] == 1 and len(found.blueprint.intents) == 1
    assert [verdict["task"] for verdict in found.record["verdicts"]] == [2]
    found, dropped, _ = written(author(verdict=lambda n: {"task": 9}), good_seed())
    assert found is None and dropped["consistent: the judge: no verdict"] == 2


def test_people_of_the_other_split_and_sentences_of_it_are_dropped():
    _, dropped, _ = written(author(person=PERSON | {"name": "Uma Berg"}), good_seed())
    assert dropped["candidate: a name of the other split"] == 1

    for spoilt in ({"say": ours("switch it", "heldout")}, {"plainly": ours("switch it", "heldout")}):
        _, dropped, _ = written(author(lambda tasks, spoilt=spoilt: [t | spoilt for t in tasks]), good_seed())
        assert dropped["author: no sentence of this split"] == 2
    first, second = ours("switch it", "heldout")[0], ours("switch it")[0]
    found, _, _ = written(author(lambda tasks: [t | {"plainly": [first, second]} for t in tasks]), good_seed())
    assert {intent.clarification for intent in found.blueprint.intents} == {second}


def test_code_in_the_scene_drops_the_candidate_since_users_may_say_what_they_were_told():
    _, dropped, _ = written(author(person=PERSON | {"scene": "She would set target_temperature to 20."}), good_seed())
    assert dropped["candidate: code in the scene"] == 1


@pytest.mark.parametrize("part", ["name", "scene", "say", "plainly"])
def test_words_that_are_none_are_asked_for_again(part):
    person = PERSON | ({part: " "} if part in PERSON else {})
    found, dropped, requests = written(
        author(lambda tasks: [t | {part: [""]} if part in t else t for t in tasks], person=person), good_seed()
    )
    assert (
        found is None and dropped["candidate: unreadable"] == 1 and "it is empty" in requests[-1]["messages"][-1]["content"]
    )


def test_a_verdict_on_a_task_that_there_is_not_says_nothing():
    def beside(request):
        said = author()(request)
        if asked_for(request) == "Verdicts":
            (first, *rest) = json.loads(said["content"])["verdicts"]
            said = {"content": json.dumps({"verdicts": [first | {"task": n} for n in (0, -1, 3)] + [first, *rest]})}
        return said

    found, _, _ = written(beside, good_seed())
    assert [verdict["task"] for verdict in found.record["verdicts"]] == [1, 2] and len(found.blueprint.intents) == 2


def test_what_cannot_be_read_is_asked_for_once_more_with_the_error_then_dropped():
    calls = []

    def mumbles(request, first_only):
        calls.append(request)
        said = author()(request)
        return {"content": "Well..."} if len(calls) == 1 or not first_only else said

    found, _, requests = written(lambda request: mumbles(request, True), good_seed())
    assert found and len(requests) == 4 and "no JSON" in requests[1]["messages"][-1]["content"]
    calls.clear()
    found, dropped, requests = written(lambda request: mumbles(request, False), good_seed(), attempts=2)
    assert found is None and dropped["candidate: unreadable"] == 2 and len(requests) == 4


def test_a_synthesis_by_an_llm_author_reports_drop_rates_and_stores_verdicts():
    spoilt = author(verdict=lambda number: {"consistent": number == 1, "fault": "scene"})
    with ScriptedServer(answer=spoilt) as server:
        model = {"url": server.url, "model": MODEL, "attempts": 8}
        config = SynthesisConfig.model_validate({"blueprints": 6, "recipe": RECIPE, "author": model})
        (shard,) = synthesise_shards(config, [range(6)], 4)
    lines = shard.stats["blueprints"]
    assert sum(line["outcome"] == "success" for line in lines) >= 4
    assert all(line["author"]["verdicts"][0]["consistent"] for line in lines if "author" in line)
    report = SynthesisStatistics(config)
    report.add_shard_stats(shard.stats)
    rates = report.summarise_synthesis()["drop_rates"]
    dropped = report.dropped
    assert rates["consistent: the judge: scene"] == dropped["consistent: the judge: scene"] / dropped["tasks: written"] > 0
    assert "candidates: written" not in rates


def test_the_scripted_author_reports_drop_rates_too():
    recipe = BlueprintRecipe.model_validate({"home": {"devices": (2, 5)}, "intents": (2, 2)})
    dropped = Counter()
    for seed in range(6):
        make_home_blueprint(recipe, "train", seed, dropped)
    report = SynthesisStatistics()
    report.add_shard_stats({"blueprints": [], "dropped": dropped})
    assert dropped and "author: home offers too little" in report.summarise_synthesis()["drop_rates"]
