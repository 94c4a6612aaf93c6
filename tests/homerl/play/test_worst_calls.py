"""No call of a model ends a run: every world and toolset gives a result, and what escapes ends one episode alone."""

import asyncio
import json
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from scripted_server import ScriptedServer
from worst import WorstAgent, nested, real_values, worst_calls

from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.bench.suites import SEED, make_suite_of_homes, write_suite
from homerl.envs.core.world import MOST_CHARACTERS, MOST_LEVELS, MOST_TEXT, MOST_VALUES, World, why_action_too_large
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.envs.simuhome.tasks.blueprint import SimuHomeRecipe
from homerl.envs.simuhome.tasks.expert import SimuHomeExpert
from homerl.envs.simuhome.tasks.react_agent import parse_step
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.tool_call_parser import parse_json_answer, parse_model_json, parse_reply
from homerl.play.trajectory import Outcome, read_rows
from homerl.report.pages.bench_report import write_bench_report
from homerl.worlds.registry import begin_episode, known_suites, known_worlds, make_blueprint_of_seed
from homerl.worlds.users import ScriptedUser
from tests.envs.simuhome.test_world import EPISODE

PLACES = [*TOOLSETS, "released", "paper", "mended", "household"]
CALL = {"type": "function", "function": {"name": "get_rooms", "arguments": "{}"}}


@cache
def started(place: str) -> tuple[World, dict]:
    """A world, and values that mean something in it."""
    if place in TOOLSETS:
        home = HomeSampler.sample_test()
        real = {"did": ["1001", "1002"], "code": ["device('1001').turn_on()", "device('1001').set_brightness(10 ** 400)"]}
        return HomeEnv(home, toolset=place), real
    if place == "household":
        blueprint = make_blueprint_of_seed(known_worlds()["personalhome"].recipe(world="personalhome"), "train", 1)
        return begin_episode(blueprint).world, real_values(blueprint.model_dump(mode="json"))
    return SimuHome(EPISODE, place != "mended", "paper" if place == "paper" else "released"), real_values(EPISODE)


@pytest.mark.parametrize("place", PLACES)
def test_the_worst_calls_get_a_result_and_a_refusal_changes_nothing(place):
    world, real = started(place)
    world, refused = world.fork(), 0
    for call in worst_calls(world.tools, real, 150, 1):
        key = world.state_key()
        observation, _, _, _, info = world.step(call)
        assert observation.encode() and len(observation) < 200_000
        refused += info["blocked"] is not None
        assert info["blocked"] is None or world.state_key() == key
    assert refused > 40


def unbounded(schema, path):
    """The numbers of a schema without bounds on both sides."""
    if not isinstance(schema, (dict, list)):
        return
    for key, part in schema.items() if isinstance(schema, dict) else enumerate(schema):
        yield from unbounded(part, f"{path}.{key}")
    keys = schema.keys() if isinstance(schema, dict) and schema.get("type") in ("integer", "number") else {"enum"}
    bounded = {"minimum", "exclusiveMinimum"} & keys and {"maximum", "exclusiveMaximum"} & keys
    if "enum" not in keys and not bounded:
        yield path


@pytest.mark.parametrize("place", [place for place in PLACES if place != "assist"])  # that schema is Home Assistant's own
def test_every_number_of_a_tool_is_bounded_in_its_schema(place):
    world, _ = started(place)
    named = [(tool["function"]["name"], tool["function"]["parameters"]) for tool in world.tools]
    assert not [path for name, schema in named for path in unbounded(schema, name)]


class Sealed(str):
    """A text whose length is known, and which nobody may read."""

    def _read(self, *_):
        raise AssertionError("the text was read")

    __str__ = __repr__ = __iter__ = __format__ = __getitem__ = __hash__ = __eq__ = __contains__ = encode = strip = lower = (
        _read
    )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "junk", [Sealed("x" * 10_000_000), [Sealed("x")] * 10_000, nested(20_000)], ids=["long", "many", "deep"]
)
def test_what_is_too_large_is_refused_unread(place, junk):
    world, _ = started(place)
    for function in (tool["function"] for tool in world.tools):
        for name in function["parameters"].get("properties", {}):
            observation, _, _, _, info = world.fork().step({"name": function["name"], name: junk})
            assert info["blocked"] and len(observation) < 1000, function["name"]


def test_a_call_is_as_large_as_it_may_be():
    for fits, more in (
        ("x" * (MOST_CHARACTERS - 6), "x" * MOST_CHARACTERS),
        ([0] * (MOST_VALUES - 3), [0] * MOST_VALUES),
        (nested(MOST_LEVELS - 1), nested(MOST_LEVELS)),
    ):
        assert why_action_too_large({"name": "a", "b": fits}) is None
        assert "at most" in why_action_too_large({"name": "a", "b": more})


class Breaking(SimuHome):
    """A world with a fault: the tool `get_rooms` fails on the second call, and leaves a home that cannot be measured."""

    def step(self, action):
        if action["name"] == "get_rooms":
            self.state.home.interval = 1e308
            raise OverflowError("no such number")
        return super().step(action)


def test_what_escapes_from_a_world_is_the_world_s_fault_and_the_episode_is_as_before():
    episode = begin_episode(
        make_blueprint_of_seed(SimuHomeRecipe(world="simuhome", types={"qt3/feasible": 1.0}), "train", 1)
    )
    episode.situation.world.__class__ = Breaking
    key = episode.situation.state_key()

    class Agent:
        name = "agent"

        async def propose(self, observation, n=1):
            return [Reply({"role": "assistant", "content": "", "tool_calls": [CALL]})]

    trajectory = asyncio.run(play(episode, Agent(), ScriptedUser()))
    assert trajectory.outcome is Outcome.WORLD_ERROR and not trajectory.steps
    assert trajectory.fault.reason.startswith("OverflowError: no such number (test_worst_calls.py:")
    assert episode.situation.state_key() == key and episode.messages[-1]["role"] == "user"


SLOW = {"own-home": pytest.mark.long}  # it makes its tasks before it counts them


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in known_suites()])
def test_a_run_ends_with_a_report_whatever_is_called(name, tmp_path, monkeypatch):
    world, suite = known_suites()[name]
    if name == "own-home":
        save_home(HomeSampler.sample_test(), tmp_path / "home.json")
        suite = make_suite_of_homes(name, [str(tmp_path / "home.json")])
    _, instances = suite.build(SEED, "en", Counter(), lambda done, total: None)
    few = list(islice(instances, 2))
    write_suite(iter(few), tmp_path / f"{name}.jsonl")
    real = real_values([instance.model_dump(mode="json") for instance in few])
    monkeypatch.setattr(type(world), "baselines", {"worst": lambda: WorstAgent(real)})
    out = tmp_path / "out"
    scored = run_benchmark(BenchRun(str(tmp_path / f"{name}.jsonl"), "worst", out))
    write_bench_report(out)
    assert scored["n"] == len(few) and (out / "report.html").exists() and json.loads((out / "score.json").read_text())
    assert {Outcome(row["outcome"]) for row in read_rows(out / "results.jsonl")} <= {
        Outcome.AGENT_FAILURE,
        Outcome.STEP_LIMIT,
        Outcome.TURN_LIMIT,
    }


def two_tasks(folder: Path) -> Path:
    """A suite of two SimuHome tasks."""
    _, instances = known_suites()["simuhome"][1].build(SEED, "en", Counter(), lambda done, total: None)
    write_suite(islice(instances, 2), folder / "simuhome.jsonl")
    return folder / "simuhome.jsonl"


TEXTS = [  # escaped as a server sends them; `json.loads` makes half characters of them
    {"thought": "\ud800", "action": "get_rooms", "action_input": "{}"},
    {"thought": "", "action": "get_\ud800", "action_input": "{}"},
    {"thought": "", "action": "get_room_states", "action_input": '{"room_id": "\\ud800"}'},
    {"thought": "", "action": "get_room_states", "action_input": {"\ud800": 1}},
    {"thought": "", "action": "finish", "action_input": '{"answer": "\\ud800"}'},
]


@pytest.mark.parametrize("step", TEXTS, ids=range(len(TEXTS)))
def test_half_a_character_in_the_text_form_ends_no_run(step, tmp_path):
    with ScriptedServer(answer=lambda request: {"content": json.dumps(step)}) as server:
        scored = run_benchmark(BenchRun(str(two_tasks(tmp_path)), server.url, tmp_path / "out", "react"))
    write_bench_report(tmp_path / "out")
    assert scored["n"] == 2 and len(list(read_rows(tmp_path / "out/trajectories.jsonl"))) == 2


def test_an_agent_whose_own_program_fails_ends_its_episode_alone(tmp_path, monkeypatch):
    suite = two_tasks(tmp_path)
    world = known_suites()["simuhome"][0]
    broken = json.loads(suite.read_text().splitlines()[1])["id"]

    class Failing(SimuHomeExpert):
        async def consult(self, episode, n=1):
            return [][0] if episode.blueprint.id == broken else await super().consult(episode, n)

    monkeypatch.setattr(type(world), "baselines", {"failing": Failing})
    out = tmp_path / "out"
    scored = run_benchmark(BenchRun(str(suite), "failing", out))
    write_bench_report(out)
    assert scored["n"] == 1 and scored["success"] == 1.0
    lost = next(row for row in read_rows(out / "results.jsonl") if row["outcome"] == Outcome.INFRA_ERROR)
    assert "the agent's program failed: IndexError: list index out of range (test_worst_calls.py:" in str(lost["fault"])


FILLERS = (" ", "\n", "<tool_call>", "{", "{ } ", "```", "<tool_call>a</tool_call>")


@pytest.mark.timeout(60)  # with time that grows with the square, each takes minutes
@pytest.mark.parametrize(
    "filler", [text if text in ("{", "<tool_call>") else pytest.param(text, marks=pytest.mark.long) for text in FILLERS]
)
def test_a_long_message_is_read_in_time_that_grows_with_its_length(filler):
    long = filler * min(150_000, 600_000 // len(filler))
    for text in (f"<tool_call>a{long}b", f"```a{long}b", f"<tool_call>{long}"):
        parse_reply(text)
        parse_json_answer(text)
        parse_step(text, strict=True)
        parse_step(text, strict=False)


def test_json_that_is_longer_than_any_call_may_be_is_not_read():
    fits, more = (json.dumps({"room_id": "x" * count}) for count in (MOST_TEXT - 20, MOST_TEXT))
    assert parse_model_json(fits)["room_id"]
    with pytest.raises(ValueError, match=f"longer than {MOST_TEXT} characters"):
        parse_model_json(more)
    episode = begin_episode(
        make_blueprint_of_seed(SimuHomeRecipe(world="simuhome", types={"qt3/feasible": 1.0}), "train", 1)
    )
    key = episode.situation.state_key()
    call = {**CALL, "function": {"name": "get_room_devices", "arguments": more}}
    (seen,) = episode.apply_reply(Reply({"role": "assistant", "content": "", "tool_calls": [call]})).observations
    assert seen.startswith("refused: syntax") and episode.situation.state_key() == key
    assert parse_step(json.dumps({"thought": more, "action": "finish", "action_input": "{}"})) is None


@pytest.mark.parametrize("text", ['{"a": 1}', '```json\n{"a": 1}\n```', '``` {"a": 1}```', '\n```json {"a": 1} ```\n'])
def test_json_may_stand_in_a_fence(text):
    assert parse_json_answer(text) == ({"a": 1}, None)
