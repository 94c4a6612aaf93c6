"""Keeps docs/walkthrough.md true: its links, the names beside them, and the values that are made again in seconds.

A link to a file of Python is followed by the functions and classes that the page means in it: `](file), `name`:`. Most
numbers of the first story take minutes to make: scripts/walkthrough/update.py prints them, and no test does.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from serving import Says, Served

from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.home_listing import STATES
from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
from homerl.envs.assistant.serving.exchange_journal import AgentJournal
from homerl.envs.assistant.serving.real_home import HomeAssistantHome
from homerl.envs.core.messages import call_message, tool_call
from homerl.envs.core.world import tool_call_to_action
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.play.episode import Episode
from homerl.play.loop import play
from homerl.play.tool_call_parser import parse_reply
from homerl.rewards.composite import step_rewards
from homerl.train.credit.step import compute_returns_to_go, compute_step_credit
from homerl.train.losses.clipped import Grpo
from homerl.train.losses.contract import Totals
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.assistant.listing.replay import TOKEN, Replay, listing, only

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "walkthrough.md"
FENCE = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\]\((\.\./[^)\s]+\.py)\), (`[\w.]+`(?:(?:, | and )`[\w.]+`)*):")
SEED = 4
RECIPE = BlueprintRecipe.model_validate({"intents": [1, 1], "home": {"devices": [4, 6]}})
ENTITIES = {"light.bed_light", "light.ceiling_lights", "lock.front_door"}


@cache
def page() -> str:
    return PAGE.read_text("utf-8")


def plain(text: str) -> str:
    """A text with every white space as one blank."""
    return " ".join(text.split())


def expect(*values: object) -> None:
    """Require that the page shows each of these, apart from how its lines are broken."""
    shown = plain(page())
    missing = [text for text in map(str, values) if plain(text) not in shown]
    assert not missing, f"docs/walkthrough.md does not show: {missing}"


# Links and names


@cache
def count() -> Any:
    """The module scripts/count_house.py."""
    spec = importlib.util.spec_from_file_location("count_of_the_house", ROOT / "scripts" / "count_house.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(text: str) -> list[tuple[str, str]]:
    """(file, function or class) for each name beside a link."""
    found = []
    for target, names in NAMED.findall(" ".join(text.split())):
        found += [(target.removeprefix("../"), name) for name in re.findall(r"`([\w.]+)`", names)]
    return found


def stories() -> dict[str, str]:
    """The stories of the page, by the way that each tells."""
    parts = re.split(r"^## \d\. (.+)$", page(), flags=re.M)
    return {title[0].lower() + title[1:]: text for title, text in zip(parts[1::2], parts[2::2])}


def test_every_link_leads_to_a_file():
    targets = LINK.findall(FENCE.sub("", page()))
    assert len(targets) > 50
    assert not [target for target in targets if not (PAGE.parent / target.partition("#")[0]).exists()]


def test_every_link_to_code_has_the_names_of_that_file_beside_it():
    code = [target for target in LINK.findall(FENCE.sub("", page())) if target.endswith(".py")]
    assert len(code) == len(NAMED.findall(plain(page())))
    wrong = [f"{file}: {name}" for file, name in named(page()) if not is_defined(ROOT, file, name)]
    assert not wrong, f"docs/walkthrough.md names what is not there: {wrong}"


def is_defined(root: Path, file: str, name: str) -> bool:
    return not count().missing_functions(root, ((file, name),))


def test_a_name_that_is_no_longer_defined_is_found(tmp_path: Path):
    (file, name), *_ = named(page())
    owner, _, method = name.rpartition(".")
    text = (ROOT / file).read_text("utf-8")
    copy = tmp_path / file
    copy.parent.mkdir(parents=True)
    copy.write_text(text, "utf-8")
    assert is_defined(tmp_path, file, name)
    copy.write_text(re.sub(rf"\b(def|class) {method}\b", r"\1 renamed", text), "utf-8")
    assert not is_defined(tmp_path, file, name)
    assert owner == "" or is_defined(tmp_path, file, owner)


@pytest.mark.parametrize(
    "title", ["an update", "a tool call", "a step's reward", "a blueprint", "a person's sentence", "a benchmark's score"]
)
def test_the_functions_of_a_way_exist(title: str):
    assert not count().missing_functions(ROOT, (*count().WAYS[title], *count().NEIGHBOURS.get(title, ())))


@pytest.mark.parametrize("title", ["an update", "a tool call", "a step's reward", "a blueprint", "a person's sentence"])
def test_a_story_passes_the_functions_of_its_way(title: str):
    """So the number of files that scripts/count_house.py prints is that of the story."""
    assert set(named(stories()[title])) == {*count().WAYS[title], *count().NEIGHBOURS.get(title, ())}


# The credit of an update


def test_the_credit_and_the_weights_follow_from_the_rewards():
    rewards = [[1.0, 1.0], [0.0], [0.0, 0.0], [0.0, 0.0]]
    credit = [[round(value, 3) for value in row] for row in compute_step_credit(rewards)]
    expect(f"`{credit}`", f"`{compute_returns_to_go(rewards[0])}`")
    expect(f"1 / (8 × 24) = {Grpo().weight(24, Totals(8, 178, 178, 1, 1024)):.6f}")


# A blueprint, and a tool call in it


@cache
def blueprint() -> Blueprint:
    return make_home_blueprint(RECIPE, "train", SEED)


def opening() -> Episode:
    return begin_episode(blueprint())


def test_the_blueprint_of_the_seed_is_the_one_of_the_page():
    made = blueprint()
    (intent,) = made.intents
    expect(made.scene, made.profile.name, *intent.queries, *intent.conditions, *(call.code for call in intent.plan))
    expect(f"seed {SEED}", *(f"`{device['did']}`" for device in made.home["devices"]))
    expect(f"{len(made.home['rooms'])} rooms", f"{len(made.home['devices'])} devices")


def test_its_conditions_do_not_hold_at_first_and_hold_after_the_plan():
    home = home_situation_of(opening()).home.fork()
    conditions = [compile_condition(text, home.plan) for text in blueprint().all_conditions]
    expect(*(f"{[home.plan.slots[slot].path for slot in sorted(one.slots)]}" for one in conditions))
    expect(f"{len(home.values)} values")
    for did in blueprint().changeable_devices:
        expect(json.dumps(home.state_of(did)))
    assert not any(one.holds_in(home) for one in conditions)
    for call in blueprint().intents[0].plan:
        home.call(call.did, call.service, call.args)
    assert all(one.holds_in(home) for one in conditions)


def call_text() -> str:
    """The expert's first message, as a model writes it."""
    trajectory = asyncio.run(play(opening(), Expert(0), ScriptedUser(0)))
    (call,) = trajectory.messages[2]["tool_calls"]
    function = call["function"]
    return f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}\n</tool_call>'


def test_the_text_of_the_call_goes_through_parser_and_world_as_told():
    text, episode = call_text(), opening()
    expect(text)
    episode.add_utterance(blueprint().intents[0].queries[0], 1)
    reply = parse_reply(text, episode.world.tools)
    (call,) = reply.calls or ()
    assert call.name == "pyexec" and reply.malformed is None
    action = tool_call_to_action(call.name, call.arguments, takes_name=False)
    expect(f"`{sorted(action)}`", str(episode.world.fork().step(action)))
    step, facts = episode.apply_reply(reply), episode.steps[0].facts
    expect(f"`progress_before={facts.progress_before}`", f"`progress_after={facts.progress_after}`", f"`met={facts.met}`")
    expect(f"`changed={facts.changed}`", f"`closes={facts.closes}`", f"`observations={step.observations}`")
    expect(told_rewards(step_rewards(facts)))


def told_rewards(parts: Mapping[str, float]) -> str:
    """The parts of a reward that are not 0."""
    return f"`{ {name: value for name, value in parts.items() if value} }`".replace("{ {", "{").replace("} }", "}")


def test_the_last_word_ends_the_episode():
    trajectory = asyncio.run(play(opening(), Expert(0), ScriptedUser(0)))
    earned = [step_rewards(step.facts) for step in trajectory.steps]
    expect(f'"{trajectory.messages[-1]["content"]}"', f"`{trajectory.outcome}`", told_rewards(earned[-1]))
    assert sum(value for parts in earned for value in parts.values()) == 2.0
    expect("return of 2.0")


# A person's sentence


class Reacting(Replay):
    """The recorded home, whose lock opens when it is called."""

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message["type"] == "call_service" and not message.get("return_response"):
            entity, sources = message["target"]["entity_id"], self.listing.sources
            rows = [row | {"state": "unlocked"} if row["entity_id"] == entity else row for row in sources[STATES]]
            self.listing = self.listing.with_sources({STATES: rows})
        return super()._answer(message)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Served, Replay, Says]]:
    """An agent in the mode `act` beside the recorded home, of which three entities are left."""
    unlock = call_message(tool_call("intent__HassTurnOff", {"name": "Front Door", "domain": ["lock"]}))
    agent, journal = Says(unlock, "The front door is unlocked."), AgentJournal(tmp_path / "agent.jsonl")
    house = CaretakerSettings("act", "assist", "en", settle=0.05)
    with Reacting(only(listing(), ENTITIES)) as server:
        twin, real = import_home(server.listing).home, HomeAssistantHome(server.url, SecretStr(TOKEN))
        caretaker = Caretaker(twin, lambda: agent, real, journal, house, "script")
        yield Served(caretaker, real, journal), server, agent  # type: ignore[arg-type]


def test_the_sentence_is_answered_as_told(served: tuple[Served, Replay, Says]):
    talk, server, agent = served
    twin = talk.caretaker.home
    expect(f"{len(twin.plan.devices)} devices", f"{len(twin.values)} values", *(f"`{one.did}`" for one in twin.plan.devices))
    said = "Unlock the front door, please.", "Yes."
    replies = [talk.say(text) for text in said]
    expect(*(f'"{text}"' for text in (*said, *replies)))
    asked, done = talk.journal.read_entries()
    (change,) = asked.changes
    expect(f"`{asked.guarded}`", f"`{change.path}`: `{change.before}` → `{change.after}`")
    (call,) = agent.heard[1].messages[-2]["tool_calls"]
    expect(f"`{call['function']['name']}` with `{call['function']['arguments']}`")
    assert (asked.outcome, asked.calls[0].fate, done.outcome, done.calls[0].fate) == ("asked", "meant", "done", "done")
    (sent,) = [message for message in server.seen if message["type"] == "call_service"]
    expect(json.dumps({key: value for key, value in sent.items() if key != "id"}))
    lines = [json.loads(line) for line in talk.journal.path.read_text("utf-8").splitlines()]
    expect(f"`{[line['outcome'] for line in lines]}`")
