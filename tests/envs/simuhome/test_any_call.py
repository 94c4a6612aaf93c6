"""No call that a model can write ends a home: commands with any arguments, any writes, in live ticks of any length."""

from __future__ import annotations

import itertools
import random

import pytest
from crossed import crossed
from worst import JUNK, NUMBERS, TEXTS, worst_calls

from homerl.envs.simuhome.sim.device_catalogue import REQUIRED, device_types
from homerl.envs.simuhome.sim.env import SimuHome
from tests.envs.simuhome.conftest import BASE_TIME, ON, Hand, go, start

KINDS = sorted(device_types())
SWITCHED_ON = {kind: ON if "1.OnOff.OnOff" in device_types()[kind].initial else {} for kind in KINDS}
DEVICES = [{"device_id": kind, "device_type": kind, "attributes": given} for kind, given in SWITCHED_ON.items()]
EVERYTHING = {"base_time": BASE_TIME, "rooms": {"hall": {"devices": DEVICES}}}
MILD = (*NUMBERS[:13], *TEXTS, *NUMBERS[:13])
each_mode = pytest.mark.parametrize("strict", [True, False])


def use(rng):
    """A command with any arguments, or a write of any value, of a cluster that a device has."""
    kind = rng.choice(KINDS)
    endpoint, cluster = rng.choice(device_types()[kind].cluster_places)
    place = {"device_id": kind, "endpoint_id": endpoint, "cluster_id": cluster.name}
    if cluster.commands and rng.random() < 0.6:
        command, taken = rng.choice(list(cluster.commands.items()))
        args = {name: rng.choice((1, *MILD, rng.choice(JUNK))) for name in taken if rng.random() < 0.9}
        return {"name": "execute_command", **place, "command_id": command, "args": args}
    value = rng.choice((1, 50, 2400, *MILD, rng.choice(JUNK)))
    return {"name": "write_attribute", **place, "attribute_id": rng.choice(list(cluster.attributes)), "value": value}


def as_step(call):
    return {"tool": call["name"], "args": {key: part for key, part in call.items() if key != "name"}}


def any_call(rng, tools):
    match rng.randrange(20):
        case 0:
            return {"name": "set_tick_interval", "tick_interval": rng.choice(NUMBERS)}
        case 1 | 2:
            steps = [as_step(use(rng)) for _ in range(2)]
            return {"name": "schedule_workflow", "start_time": f"2025-08-23 10:00:{rng.randrange(60):02}", "steps": steps}
        case 3:
            real = {"device_id": KINDS, "room_id": ["hall"], "start_time": ["2025-08-23 10:00:30", "9999-12-31 00:00:00"]}
            return next(worst_calls(tools, real, 1, rng.getrandbits(32)))
    return use(rng)


def live(seed, strict, calls):
    rng, env = random.Random(seed), SimuHome(EVERYTHING, strict)
    accepted = 0
    for _ in range(calls):
        key = env.state_key()
        text, _, _, _, info = env.step(any_call(rng, env.tools))
        accepted += info["blocked"] is None
        assert text.encode() and (info["blocked"] is None or env.state_key() == key)
        env.wait_ticks(rng.choice((0, 1, 7, 300)))
    return accepted


@each_mode
def test_any_call_gets_a_result(strict):
    assert sum(live(seed, strict, 40) for seed in range(10)) > 50


ODD = ({}, {"a": {}}, [], [{}], [None], None, True, 0, -1, 1.5, "", "x", "1", "\ud800")


@each_mode
def test_each_argument_of_each_tool_may_be_anything(strict):
    """The others are right, so that a call comes as far as it can."""
    env = SimuHome(EVERYTHING, strict)
    light = {"device_id": "dimmable_light", "endpoint_id": 1, "cluster_id": "LevelControl"}
    step = {"tool": "execute_command", "args": {**light, "command_id": "Stop", "args": {}}}
    right = {
        **light, "command_id": "Stop", "attribute_id": "OnLevel", "args": {}, "value": 1,
        "room_id": "hall", "state": "humidity", "start_time": "2025-08-23 11:00:00", "steps": [step],
        "query": "level", "top_k": 1, "device_type": "fan", "tick_interval": 0.1, "answer": "done", "status": "pending",
    }  # fmt: skip
    for tool in env.tools:
        name, schema = tool["function"]["name"], tool["function"]["parameters"]
        known = {key: right[key] for key in schema["properties"] if key in right}
        steps = [{**step, key: odd} for key in step for odd in ODD] if "steps" in known else []
        for change in [{key: odd} for key in schema["properties"] for odd in ODD] + [{"steps": [one]} for one in steps]:
            twin = env.fork()
            text, *_, info = twin.step({"name": name, **known, **change})
            assert text.encode() and (info["blocked"] is None or twin.state_key() == env.state_key()), (name, change)
            twin.wait_ticks(40_000)


SWEPT = (
    None, True, False, 0, 1, -1, 2, 7, 300, -300, 65_536, 2**62, 1.5, -0.5, 0.0, 3.0, 1e9, -1e9, "", "x", "1", "1.5", "true",
    "On", "\ud800", "厨房", [], [1], [None], ["x"], [[]], [{}], [1, 2, 3], {}, {"a": 1}, {"Level": 1}, {"MajorNumber": 1},
)  # fmt: skip


@crossed(kind=KINDS, strict=[True, False])
def test_each_argument_of_each_command_may_be_anything(strict, kind):
    """What is refused is the caller's fault (400), and changes nothing, which `Hand` checks; what is taken hurts no pass."""
    usual = {"Level": 50, "StepMode": 0, "StepSize": 10, "MoveMode": 0}
    homes = [start((kind, given), strict=strict) for given in ({}, SWITCHED_ON[kind])]
    for endpoint, cluster in device_types()[kind].cluster_places:
        for command, taken in cluster.commands.items():
            right = {name: usual.get(name, 1) for name, default in taken.items() if default == REQUIRED}
            for home, name, odd in itertools.product(homes, taken, SWEPT):
                hand = Hand(home.fork(), endpoint=endpoint)
                answer = hand.do(cluster.name, command, **{**right, name: odd})
                assert type(answer) is not int or answer == 400, (cluster.name, command, name, odd)
                go(hand.home, 3)


@pytest.mark.long
@each_mode
def test_any_of_many_calls_gets_a_result(strict):
    assert sum(live(seed, strict, 200) for seed in range(150)) > 5000


@each_mode
@pytest.mark.parametrize("interval", [1e308, 1e12, 10**400, float("inf"), float("nan"), 5e-324, 0, -1, "x", None, [], 3_601])
def test_a_tick_has_a_length_that_a_clock_can_count(strict, interval):
    env = SimuHome(EVERYTHING, strict)
    assert env.step({"name": "set_tick_interval", "tick_interval": interval})[4]["blocked"]
    env.wait_ticks(10)
    assert env.step({"name": "get_current_time"})[4]["blocked"] is None


@each_mode
@pytest.mark.parametrize("interval", ["1.0", True, 0.001, 3_600])
def test_a_tick_has_any_length_in_between(strict, interval):
    env = SimuHome(EVERYTHING, strict)
    assert env.step({"name": "set_tick_interval", "tick_interval": interval})[4]["blocked"] is None
    env.wait_ticks(50_000)
    assert '"now": ' in env.step({"name": "get_current_time"})[0]


@each_mode
@pytest.mark.parametrize("number", [10**400, -(10**400), 1e308, float("inf"), float("nan")])
def test_numbers_without_measure_reach_no_home(strict, number):
    env = SimuHome(EVERYTHING, strict)
    place = {"device_id": "dimmable_light", "endpoint_id": 1, "cluster_id": "LevelControl"}
    move = {"name": "execute_command", **place, "command_id": "Move", "args": {"MoveMode": 0, "Rate": number}}
    write = {"name": "write_attribute", **place, "attribute_id": "OnLevel", "value": [{"a": number}]}
    for call in (move, write, write | {"value": number}):
        assert env.step(call)[4]["blocked"]["rule"] == "OUT_OF_RANGE"
    env.wait_ticks(100)


def test_a_blind_alley_of_levels_is_no_end():
    """The largest numbers that a home takes, where they move a level."""
    hand = Hand(start(("dimmable_light", ON)))
    for rate in (2**62, 9e18):
        hand.do("LevelControl", "Move", MoveMode=1, Rate=rate)
        go(hand.home, 50)
    hand.write("LevelControl", "OnLevel", 2**62)
    hand.do("OnOff", "Off")
    hand.do("OnOff", "On")
    go(hand.home, 50)
