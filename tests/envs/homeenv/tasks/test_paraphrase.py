"""Paraphrases by an LLM: only those that certainly mean the same are used; a server that fails spoils nothing."""

import asyncio
import json
from collections import Counter
from functools import cache

import pytest
from scripted_server import MODEL, Faults, ScriptedServer

from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.paraphrase import HomeParaphraser, check_home_paraphrase, count_home_names, has_same_calls
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import ParaphraseSettings
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.faults import InfraError
from homerl.play.trajectory import read_rows
from homerl.play.words.grammar import split_of
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import make_shard
from homerl.worlds.paraphraser import ParaphraseRejected

QUICK = Patience(timeout=2.0, deadline=4.0, tries=2)
RECIPE = {"home": {"devices": (3, 6)}, "families": {"atomic/clear": 1}, "intents": (1, 1)}


@cache
def blueprint(language: str = "en", seed: int = 0) -> Blueprint:
    recipe = RECIPE | {"home": {"devices": (3, 6), "language": language}}
    return make_home_blueprint(BlueprintRecipe.model_validate(recipe), "train", seed)


def of_split(query: str, split: str = "train") -> str:
    """The query with a courtesy around it that puts it into the split."""
    openings = (f"{'dear ' * n}assistant {query}" for n in range(1, 60))
    return next(text for text in openings if split_of(text) == split)


def server(reword, calls) -> ScriptedServer:
    """`reword(query)` is what the first request gets, `calls` what the second does."""

    def answer(request):
        system, user = (message["content"] for message in request["messages"][:2])
        if "reword" in system:
            said = reword(json.loads(user)["says"])
            return {"content": said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)}
        return {"content": calls if isinstance(calls, str) else json.dumps({"calls": calls})}

    return ScriptedServer(answer=answer)


def plan_of(made: Blueprint) -> list[dict]:
    return [{"did": c.did, "service": c.service, "args": list(c.args)} for i in made.intents for c in i.plan]


def reword(made: Blueprint, running: ScriptedServer) -> tuple[Blueprint, HomeParaphraser]:
    async def talk():
        endpoint = Endpoint([running.url], MODEL, QUICK)
        paraphraser = HomeParaphraser(StructuredClient(endpoint, ParaphraseSettings(model=MODEL, url=running.url)))
        try:
            return await paraphraser.reword(made), paraphraser
        finally:
            await endpoint.close()

    return asyncio.run(talk())


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_paraphrase_that_means_the_same_is_used(language):
    made = blueprint(language)
    with server(lambda query: {"paraphrase": of_split(query)}, plan_of(made)) as running:
        found, paraphraser = reword(made, running)
    (before,), (after,) = made.intents, found.intents
    assert after.queries == tuple(of_split(query) for query in before.queries)
    assert paraphraser.kept == len(before.queries) and not paraphraser.dropped
    assert after.model_copy(update={"queries": before.queries}) == before
    shown = "\n".join(request["messages"][1]["content"] for request in running.requests)
    assert not any(condition in shown for condition in made.all_conditions)


def other_room(made: Blueprint) -> str:
    home = home_from_json(made.home)
    return next(room.name for room in home.plan.rooms if not any(room.name in q for q in made.intents[0].queries))


WRONG = {
    "garbled": lambda made, query: {"paraphrase": 7},
    "a copy": lambda made, query: {"paraphrase": query.upper() + " ."},
    "names an id": lambda made, query: {"paraphrase": of_split(f"{query} {made.intents[0].devices[0]}")},
    "other names": lambda made, query: {"paraphrase": of_split(f"{query} and in the {other_room(made)}")},
    "the other split": lambda made, query: {"paraphrase": of_split(query, "heldout")},
}


@pytest.mark.parametrize("reason", WRONG)
def test_whatever_breaks_a_rule_leaves_the_original_and_is_counted(reason):
    made = blueprint()
    with server(lambda query: WRONG[reason](made, query), plan_of(made)) as running:
        found, paraphraser = reword(made, running)
    assert found == made and paraphraser.dropped == Counter({reason: len(made.intents[0].queries)})


def test_a_second_opinion_that_differs_is_another_meaning():
    made = blueprint()
    others = [d["did"] for d in made.home["devices"] if d["did"] not in made.changeable_devices]
    for calls in ([], [call | {"did": others[0]} for call in plan_of(made)], [*plan_of(made), *plan_of(made)], [7]):
        with server(lambda query: {"paraphrase": of_split(query)}, calls) as running:
            found, paraphraser = reword(made, running)
        assert found == made and set(paraphraser.dropped) <= {"another meaning", "garbled"} and paraphraser.dropped


@pytest.mark.parametrize("garbage", ["", "no json", "[1]", "{" * 9000, '{"paraphrase": null}', '{"calls": {"did": 1}}'])
def test_answers_that_are_garbage(garbage):
    made = blueprint()
    for running in (server(lambda query: garbage, plan_of(made)), server(lambda q: {"paraphrase": of_split(q)}, garbage)):
        with running:
            found, paraphraser = reword(made, running)
        assert found == made and set(paraphraser.dropped) <= {"garbled", "another meaning"}


@pytest.mark.parametrize("faults", [Faults(errors=1.0), Faults(garbage=1.0), Faults(refusals=1.0)])
def test_a_server_that_fails_is_no_reason_to_keep_the_original(monkeypatch, faults):
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)
    with ScriptedServer(faults=faults) as running, pytest.raises(InfraError):
        reword(blueprint(), running)


def attentive_server(count: int, faults: Faults) -> ScriptedServer:
    """Rewords every query of the first blueprints, and understands what it hears."""
    plans = {}
    for seed in range(count):
        made = make_home_blueprint(BlueprintRecipe.model_validate(RECIPE), "train", seed)
        plans |= {of_split(query): plan_of(made) for intent in made.intents for query in intent.queries}

    def answer(request):
        system, user = (message["content"] for message in request["messages"][:2])
        if "reword" in system:
            return {"content": json.dumps({"paraphrase": of_split(json.loads(user)["says"])}, ensure_ascii=False)}
        return {"content": json.dumps({"calls": plans[user.partition("The person says: ")[2]]})}

    return ScriptedServer(answer=answer, faults=faults)


def test_faults_on_the_way_change_no_byte_of_a_synthesis(monkeypatch, tmp_path):
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)
    monkeypatch.setattr("homerl.synth.blueprint_synthesis.REST", 0.01)
    written = []
    for name, faults in (("still", Faults()), ("faulty", Faults(errors=0.2, garbage=0.1))):
        with attentive_server(6, faults) as running:
            settings = ParaphraseSettings(url=running.url, model=MODEL, retries=1)
            make_shard(SynthesisConfig(blueprints=6, recipe=RECIPE, paraphrase=settings), range(6), tmp_path / name)
        written.append((tmp_path / name / "0000000.jsonl").read_bytes())
        stats = json.loads((tmp_path / name / "0000000.stats.json").read_text())
    assert written[0] == written[1] and b"assistant " in written[0]
    assert any(name.startswith("paraphrase/faults/") for name in stats["transport"])


def valued() -> Blueprint:
    """A blueprint that sets a number."""
    return next(
        made
        for seed in range(200)
        if (args := (made := blueprint("en", seed)).intents[0].plan[-1].args) and type(args[0]) is int and args[0] > 10
    )


def test_values_may_change_from_digits_to_words_and_to_nothing_else():
    made = valued()
    (intent,), home = made.intents, home_from_json(made.home)
    value = str(intent.plan[-1].args[0])
    query = next(q for q in (*intent.queries, intent.clarification) if value in q.split() or f"{value}%" in q)
    from homerl.envs.homeenv.language.speaker import number_in_words

    words = query.replace(value, number_in_words(int(value), "en")).replace("%", " percent")
    check_home_paraphrase(query, of_split(words), intent, made, home)
    with pytest.raises(ParaphraseRejected, match="other values"):
        check_home_paraphrase(query, of_split(query.replace(value, "7")), intent, made, home)


def test_names_are_whole_and_the_longest_first():
    home = home_from_json(blueprint().home)
    name = home.plan.rooms[0].name
    assert (
        count_home_names(f"in the {name}s", home) == Counter()
        and count_home_names(f"the {name}, the {name}", home)[name] == 2
    )


def test_calls_are_the_same_whatever_their_order_and_without_needless_switching_on():
    plan = (Call(did="1", service="turn_on"), Call(did="1", service="set_brightness", args=(40,)))
    told, on = Call(did="1", service="set_brightness", args=(40.0,)), Call(did="1", service="turn_on")
    assert has_same_calls([told], plan) and has_same_calls([told, on], plan)
    assert not has_same_calls([told.model_copy(update={"args": (41,)})], plan) and not has_same_calls([told, told], plan)
    assert not has_same_calls([on], plan) and not has_same_calls([], plan)
    assert not has_same_calls([told], (*plan, Call(did="1", service="fan.turn_on")))


def test_synthesis_counts_what_was_not_reworded(tmp_path):
    with ScriptedServer() as running:  # which always says "Done."
        settings = ParaphraseSettings(url=running.url, model=MODEL)
        make_shard(SynthesisConfig(blueprints=2, recipe=RECIPE, paraphrase=settings), range(2), tmp_path)
    stats = json.loads((tmp_path / "0000000.stats.json").read_text())
    assert stats["dropped"]["paraphrase: garbled"] > 0 and list(read_rows(tmp_path / "0000000.jsonl"))
