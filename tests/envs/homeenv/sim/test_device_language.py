"""The device language: null, reachability, several arguments, lists, derived and moving attributes, units, no room."""

import io
import json
import random
from collections.abc import Callable

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.homeenv.maker.initial_state import PASSING, HabitContext, Values
from homerl.envs.homeenv.maker.initial_state import draw_device_settings as drawn_settings
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.air_physics import Outdoors, WeatherChange
from homerl.envs.homeenv.sim.devices.device_spec import NAMED, Catalogue, Device, DeviceSpec, load_specs
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType

GADGET = """
- name: gadget
  userdata: {category: gadget, spid: "g1"}
  available: self.state != "unavailable"
  attributes:
    - {name: state, type: enum, options: ["on", "off", unavailable]}
    - {name: level, type: int, range: [1, 255], nullable: true, derived: 'self.last if self.state == "on" else None'}
    - {name: last, type: int, range: [1, 255], internal: true, starts: "7 if self.level == None else self.level"}
    - {name: note, type: str, nullable: true, starts: "None"}
    - {name: items, type: list, items: [{type: str, range: [1, 9]}], range: [0, 3], starts: "()"}
    - {name: mode, type: enum, options: [low, mid, high], starts: '"low"'}
    - {name: target, type: int, range: [0, 100], internal: true, starts: self.position}
    - {name: position, type: int, range: [0, 100], moves: {to: self.target, rate: 7.5}, starts: "0"}
    - {name: slow, type: float, range: [0, 10], precision: 0.1, starts: "0",
       moves: {to: None if self.state == "off" else 10, rate: 0.03}}
    - name: going
      type: enum
      options: [up, down, rests, is half]
      derived: >-
        "up" if self.target > self.position else "down" if self.target < self.position else
        "is half" if self.position == 50 else "rests"
    - {name: warmth, type: float, range: [-40, 140], precision: 0.1, unit: fahrenheit, measures: temperature, starts: "70"}
    - {name: hot, type: bool, derived: self.warmth > 68}
  services:
    - name: turn_on
      arguments:
        - {name: level, type: int, range: [1, 255], required: false}
        - {name: note, type: str, nullable: true, required: false}
        - {name: fade, type: int, range: [0, 9], required: false, default: 2}
      code: |
        self.state = "on"
        self.last = self.last if level == None else level
        self.note = note
"""
MORE = """
    - {name: turn_off, code: self.state = "off"}
    - name: brighten
      arguments: [{name: by, type: int, range: [-255, 255]}]
      code: self.last = max(1, min(255, self.last + by))
    - {name: move, arguments: [{name: to, type: int, range: [0, 100]}], code: self.target = to}
    - {name: stop, code: self.target = self.position}
    - {name: add, arguments: [{name: item, type: str, range: [1, 9]}], code: "self.items = self.items + [item]"}
    - name: drop
      arguments: [{name: item, type: str}]
      requires: item in self.items
      code: self.items = without(self.items, item)
    - {name: pick, arguments: [{name: at, type: int}], code: "self.items = [self.items[at]]"}
    - {name: next_mode, code: 'self.mode = ("low", "mid", "high")[(index(("low", "mid", "high"), self.mode) + 1) % 3]'}
    - {name: halve, code: "self.last = int(round(self.last / 2))"}
    - {name: louder_than_nothing, requires: self.level > 3, code: self.last = 9}
"""
AIR = {"temperature": 15.0, "humidity": 50.0, "brightness": 0.0}


def spec() -> DeviceSpec:
    return load_specs(read_yaml(io.StringIO(GADGET + MORE)))[0]


def home(state: str = "on", count: int = 1, forecast: tuple[WeatherChange, ...] = ()) -> Home:
    room = Room("kitchen", "kitchen", "kitchen")
    devices = [Device(str(i), f"gadget {i}", room, spec()) for i in range(count)]
    states = {"outdoors": AIR, "kitchen": AIR} | {d.did: {"state": state} for d in devices}
    return Home.build_home([room], devices, states, 0, forecast=forecast)


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refusal:
        act()
    return refusal.value.rule


def test_null_is_a_value_like_others():
    lamp = home("off")
    assert lamp.read_value("0", "level") is None and lamp.read_value("0", "note") is None
    key = lamp.state_key()
    lamp.call("0", "turn_on", (), {"note": "x"})
    assert (lamp.read_value("0", "level"), lamp.read_value("0", "note")) == (7, "x") and lamp.state_key() != key
    lamp.call("0", "turn_on", (), {"note": None})
    assert lamp.read_value("0", "note") is None
    assert [change.after for change in lamp.fork().diff(lamp)] == []
    for whole in (False, True):
        again = home_from_json(json.loads(json.dumps(home_to_json(lamp, whole))))
        assert again.state_key() == lamp.state_key() and again.read_value("0", "note") is None
    assert refused(lambda: lamp.call("0", "brighten", (None,))) == "wrong_type"
    assert ValueType(type="int", range=(0, 1), nullable=True).describe_type() == "int 0..1 or None"


@pytest.mark.parametrize(
    ("condition", "off", "on"),
    [
        ('device("0").level == None', True, False),
        ('device("0").level != None', False, True),
        ('device("0").level < 300', False, True),
        ('device("0").level >= 0', False, True),
        ('not device("0").level > 3', True, False),
        ('3 < device("0").level < 9', False, True),
        ('device("0").level in (None, 4)', True, False),
        ('device("0").items[0] == "a"', False, False),
        ('round(device("0").level) == 7', False, True),
    ],
)
def test_conditions_know_null(condition, off, on):
    for state, truth in (("off", off), ("on", on)):
        at = home(state)
        assert compile_condition(condition, at.plan).holds_in(at) is truth


def test_agents_read_null_and_are_not_told_what_is_internal():
    at = home("off")
    run = run_code('print(device("0").level is None, device("0").items)\ndevice("0").turn_on(note=None, level=3)', at)
    assert (run.refusal, run.error) == (None, None) and run.output.startswith("True") and at.read_value("0", "level") == 3
    tools = {name: {tool.name: tool for tool in TOOLSETS[name].tools} for name in ("homeflow", "smh")}
    texts = [
        tools["homeflow"]["query_status"].act(at, {"did": "0"}, None).output,
        tools["homeflow"]["query_spec"].act(at, {"did": "0"}, None).output,
        *(tools["smh"]["query_device"].act(at, {"what": what}, None).output for what in ("status", "spec")),
        json.dumps(TOOLSETS["direct"].shown(at)),
    ]
    assert all('"note"' in text or "note:" in text for text in texts) and "null" in texts[0]
    assert not any('"last"' in text or "last:" in text for text in texts)


def test_what_cannot_be_reached_refuses_all_and_can_be_read():
    at = home("unavailable")
    before = at.state_key()
    assert {refused(lambda path=path: at.call("0", path)) for path in ("turn_off", "stop", "next_mode")} == {"unavailable"}
    assert at.read_value("0", "state") == "unavailable" and at.state_key() == before


def test_arguments_that_are_left_out_are_null_or_their_default():
    at = home("off")
    at.call("0", "turn_on", (), {"level": 200})
    at.call("0", "turn_on")
    assert at.read_value("0", "level") == 200
    at.call("0", "brighten", (100,))
    at.call("0", "brighten", (-20,))
    at.call("0", "halve")
    assert at.read_value("0", "level") == 118
    at.call("0", "turn_off")
    assert at.read_value("0", "level") is None and refused(lambda: at.call("0", "louder_than_nothing")) == "precondition"


def test_lists_grow_and_shrink_within_bounds():
    at = home()
    for item in "abc":
        at.call("0", "add", (item,))
    assert refused(lambda: at.call("0", "add", ("d",))) == "out_of_range"
    at.call("0", "drop", ("b",))
    assert at.read_value("0", "items") == ("a", "c") and refused(lambda: at.call("0", "drop", ("b",))) == "precondition"
    assert {refused(lambda place=place: at.call("0", "pick", (place,))) for place in (2, -3, 10**9)} == {"out_of_range"}
    at.call("0", "pick", (-1,))
    assert at.read_value("0", "items") == ("c",)
    for mode in ("mid", "high", "low"):
        at.call("0", "next_mode")
        assert at.read_value("0", "mode") == mode


def test_a_motion_takes_its_time_and_can_be_stopped():
    at = home()
    at.call("0", "move", (100,))
    assert at.read_value("0", "going") == "up"
    at.advance(4)
    assert at.read_value("0", "position") == 30
    at.call("0", "stop")
    assert at.read_value("0", "going") == "rests"
    at.advance(60)
    assert at.read_value("0", "position") == 30
    at.call("0", "move", (50,))
    at.advance(100)
    assert (at.read_value("0", "position"), at.read_value("0", "going")) == (50, "is half")


def test_an_automation_sees_a_motion_cross_a_number_and_what_is_derived_from_it():
    for condition, second in (
        ('device("0").position > 74', 10),
        ('device("0").going == "rests"', 14),
        ('device("0").slow > 0.3', 14),
    ):
        at = home()
        at.rules = (make_rule(at, [condition], [{"did": "0", "locator": "next_mode"}]),)
        at.call("0", "move", (100,))
        assert [fired.clock for fired in at.fork().advance(13 if second == 14 else 60)] == ([] if second == 14 else [second])
        assert [fired.clock for fired in at.advance(60)][:1] == [second]


def restless(seed: int) -> Home:
    """Gadgets under weather that turns, with rules on all that moves, follows or measures."""
    rng = random.Random(seed)
    skies = tuple(WeatherChange(90 * i, Outdoors(round(rng.uniform(-10, 40), 1), 50.0, 0.0)) for i in range(1, 12))
    at = home(rng.choice(("on", "off")), 3, skies)
    named = [f"device({i}).{path}" for i in range(3) for path in ("position", "slow", "warmth", "level")]
    services = [
        ("move", {"to": rng.randrange(101)}),
        ("stop", {}),
        ("turn_on", {"level": 5}),
        ("turn_off", {}),
        ("next_mode", {}),
    ]
    for _ in range(6):
        number = rng.choice((0, 5, 7.5, 33, 50, 59.2, 100))
        conditions = rng.choice(
            (
                [f"{rng.choice(named)} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {number}"],
                [f"device({rng.randrange(3)}).going == {rng.choice(('up', 'down', 'rests', 'is half'))!r}"],
                [f"device({rng.randrange(3)}).hot == {rng.random() < 0.5}"],
                [f"{rng.choice(named)} - {rng.choice(named)} > {number / 5}"],
            )
        )
        path, arguments = rng.choice(services)
        does = {"did": str(rng.randrange(3)), "locator": path, "arguments": arguments}
        at.rules = (*at.rules, make_rule(at, conditions, [does], hold=rng.choice((0, 0, 3))))
    for i in range(3):
        if at.read_value(str(i), "state") != "unavailable":
            at.call(str(i), "move", (rng.randrange(101),))
    return at


@few(15, 80)
@given(seed=st.integers(0, 10**6), seconds=st.integers(1, 600))
def test_one_long_leap_is_any_number_of_shorter_ones(seed, seconds):
    leap = restless(seed)
    ticking, fired = leap.fork(), []
    expected = leap.advance(seconds)
    rng = random.Random(seed)
    while seconds:
        part = min(seconds, rng.choice((1, 1, 2, 7, 40)))
        fired += ticking.advance(part)
        seconds -= part
        if rng.random() < 0.1:
            ticking = home_from_json(json.loads(json.dumps(home_to_json(ticking))))
    assert fired == expected and not leap.diff(ticking) and leap.state_key() == ticking.state_key()


def test_fahrenheit_and_celsius_thermostats_do_the_same_to_a_room():
    catalogue = Catalogue.load_folders(NAMED["homeassistant"])
    ends = []
    for spid, target in (("ha_climate_fahrenheit", 86), ("ha_climate_single", 30)):
        room = Room("study", "study", "study")
        air = {"temperature": 21.0, "humidity": 50.0, "brightness": 0.0}
        state = catalogue[spid].rand(1)._values
        device = Device("1", "thermostat", room, catalogue[spid])
        values = dict(zip(catalogue[spid].attribute_index, state)) | {
            "state": "off",
            "fan_mode": "auto",
            "current_temperature": 50.0,
        }
        values = {path: value for path, value in values.items() if path in catalogue[spid].attribute_index}
        at = Home.build_home([room], [device], {"outdoors": air, "study": air, "1": values}, 0)
        at.call("1", "set_temperature", (target, "heat"))
        at.rules = (
            make_rule(
                at,
                [f"device(1).current_temperature > {80 if target == 86 else 80 * 5 / 9 - 160 / 9}"],
                [{"did": "1", "locator": "turn_off"}],
            ),
        )
        fired = at.fork().advance(4 * 3600)
        at.rules = ()
        at.advance(4 * 3600)
        ends.append((at.read_value("study", "temperature"), len(fired)))
        shown = at.read_value("study", "temperature") * 1.8 + 32 if target == 86 else at.read_value("study", "temperature")
        assert at.read_value("1", "current_temperature") == pytest.approx(shown, abs=0.15)
    assert ends[0] == ends[1] and ends[0][0] > 26 and ends[0][1] == 1


def test_a_reading_that_is_null_is_measured_again_and_what_moves_stands_still_while_it_is_null():
    catalogue, room = Catalogue.load_folders(NAMED["homeassistant"]), Room("study", "study", "study")
    sensor = Device("1", "sensor", room, catalogue["ha_sensor_temperature"])
    curtain = Device("2", "curtain", room, catalogue["ha_cover_position"])
    air = {"temperature": 21.0, "humidity": 50.0, "brightness": 0.0}
    state = {"outdoors": air, "study": air, "1": {"state": None}, "2": {"current_position": None, "state": "closed"}}
    at = Home.build_home([room], [sensor, curtain], state, 0)
    at.rules = (make_rule(at, ["device(1).state > 5"], [{"did": "2", "locator": "open_cover"}]),)
    assert (at.read_value("1", "state"), at.read_value("2", "state"), at.read_value("2", "current_position")) == (
        None,
        "closed",
        None,
    )
    assert [fired.clock for fired in at.advance(60)] == [1]
    assert (at.read_value("1", "state"), at.read_value("2", "state"), at.read_value("2", "current_position")) == (
        21.0,
        "open",
        None,
    )


def test_no_home_begins_in_a_passing_state():
    for spec in Catalogue.load_folders(NAMED["homeassistant"]).values():
        values = [settings_of(spec, seed).get("state") for seed in range(40)]
        assert not {value for value in values if isinstance(value, str)} & PASSING, spec.name


def settings_of(spec: DeviceSpec, seed: int) -> Values:
    return drawn_settings(spec, HabitContext(12, False, 21.0, 50.0), random.Random(seed))


UNCERTAIN = """
- name: scale
  userdata: {category: scale, spid: "s1"}
  available: 100 / self.weight > 2
  attributes:
    - {name: weight, type: int, range: [0, 100], nullable: true}
    - {name: full, type: int, range: [0, 86400], counts: 100 / self.weight < 3}
    - {name: arm, type: int, range: [0, 50], moves: {to: self.weight + 1, rate: 5}}
    - {name: left, type: int, range: [50, 100], derived: 100 - self.weight}
  services:
    - {name: put, arguments: [{name: weight, type: int, range: [0, 100]}], code: self.weight = weight}
"""


@pytest.mark.parametrize(
    ("weight", "then"),
    [
        (None, {"full": 0, "arm": 10, "left": 60}),
        (0, {"full": 0, "arm": 1, "left": 100}),
        (40, {"full": 17, "arm": 41, "left": 60}),
        (90, {"full": 17, "arm": 10, "left": 60}),
    ],
)
def test_what_cannot_be_computed_now_is_not_counted_is_no_target_and_keeps_what_is_derived(weight, then):
    kind, room = load_specs(read_yaml(io.StringIO(UNCERTAIN)))[0], Room("kitchen", "kitchen", "kitchen")
    given = {"weight": weight, "full": 7, "arm": 10, "left": 60}
    at = Home.build_home([room], [Device("1", "scale", room, kind)], {"outdoors": AIR, "kitchen": AIR, "1": given})
    at.advance(10)
    assert at.state_of("1") == {"weight": weight} | then
    assert home_from_json(home_to_json(at)).state_key() == at.state_key()
    begun = [settings_of(kind, seed) for seed in range(40)]
    assert any(100 - values["weight"] != values["left"] for values in begun), "homes are made in such states too"


def test_homes_of_one_plan_derive_each_from_its_own_values():
    """What was computed last is kept with the plan, which they share."""
    kind, room = load_specs(read_yaml(io.StringIO(UNCERTAIN)))[0], Room("kitchen", "kitchen", "kitchen")
    given = {"weight": 40, "full": 0, "arm": 10, "left": 60}
    one = Home.build_home([room], [Device("1", "scale", room, kind)], {"outdoors": AIR, "kitchen": AIR, "1": given})
    other = one.fork()
    seen = []
    for weight in (10, 20, 30):
        other.call("1", "put", [weight])
        for home in (one, other):
            home.advance(1)
            seen.append(home.read_value("1", "left"))
    assert seen == [60, 90, 60, 80, 60, 70]


def test_a_device_may_be_in_no_room():
    data = home_to_json(home())
    data["devices"][0]["room"] = None
    at = home_from_json(data)
    assert (
        at.plan.devices_by_did["0"].room == Room(HOME, HOME, HOME)
        and home_from_json(home_to_json(at)).state_key() == at.state_key()
    )
    assert compile_condition('room("home").temperature < 90', at.plan).holds_in(at)
    whole = json.loads(json.dumps(home_to_json(at, whole=True)))
    whole["devices"][0]["userdata"]["room"] = None
    assert home_from_json(whole).state_key() == at.state_key()


@pytest.mark.parametrize(
    ("find", "put", "says"),
    [
        ("to: self.target, rate", "to: self.slow, rate", "a target that moves is none"),
        ("derived: self.warmth > 68", "derived: self.hot", "is derived later"),
        ('code: self.state = "off"', "code: self.hot = True", "'hot' is derived"),
        ("rate: 7.5}", "rate: 7.5}, counts: self.state", "may have one of them"),
        ("precision: 0.1, starts", "starts", "a float needs a precision"),
        ('starts: "()"}', "starts: '(1, 2)'}", r"starts\[0\] = 1 is not str"),
        (
            "type: int, range: [0, 100], moves: {to: self.target, rate: 7.5}",
            "type: int, nullable: true, counts: self.hot",
            "never null",
        ),
        ('available: self.state != "unavailable"', "available: self.stat", "no attribute 'stat'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(find, put, says):
    text = GADGET + MORE
    assert find in text
    with pytest.raises(InputError, match=says):
        load_specs(read_yaml(io.StringIO(text.replace(find, put))))
