"""Homes: refused calls change nothing, forks are independent, keys are exact, files lose nothing."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.documents import InputError
from envs.homeenv.audit import Refused
from envs.homeenv.home import OUTDOORS, ROOM_STATE, Device, Home, Room
from envs.homeenv.home_file import home_from_json, home_to_json, load_home, save_home
from envs.homeenv.spec import Catalogue, Entity
from envs.homemaker.make import HomeRecipe, HomeSampler, make_home

ROOT = Path(__file__).parents[2]
SOME = settings(max_examples=40, deadline=None)
OWN = """
- name: alarm_clock
  userdata: {category: clock, spid: "900001"}
  attributes:
    - {name: ringing, type: bool}
    - {name: volume, type: int, range: [0, 10]}
    - {name: peak, type: int, range: [0, 10]}
    - {name: colour, type: hex}
    - name: wake
      type: dict
      items: [{name: hour, type: int, range: [0, 23]}, {name: gentle, type: bool}]
    - {name: days, type: list, range: [0, 7], items: [{type: enum, options: [mon, tue, 3]}]}
  services:
    - name: raise_volume
      arguments: [{name: by, type: int, range: [-20, 20], required: false, default: 2}]
      code: |
        self.volume = self.volume + by
        self.peak = max(self.peak, self.volume)
    - name: set_wake
      arguments:
        - name: wake
          type: dict
          items: [{name: hour, type: int, range: [0, 23]}, {name: gentle, type: bool}]
      requires: not self.ringing
      code: self.wake = wake
    - name: set_days
      arguments: [{name: days, type: list, range: [0, 7], items: [{type: enum, options: [mon, tue, 3]}]}]
      code: self.days = days
    - name: ring
      code: self.ringing = True if self.volume > 0 else False
    - name: share
      arguments: [{name: among, type: int, range: [0, 5]}]
      code: self.volume = 10 // among
  components:
    - name: lamp
      attributes:
        - {name: state, type: str, options: ["on", "off"]}
        - {name: level, type: float, range: [-1, 1], precision: 0.1}
      services:
        - {name: turn_on, code: 'self.state = "on"'}
        - {name: turn_off, code: 'self.state = "off"'}
        - name: set_level
          arguments: [{name: level, type: float, range: [-1, 1], precision: 0.1}]
          code: self.level = level
"""
JUNK = st.sampled_from([None, True, -1, 0, 7, 10**400, 1e9, -0.0, float("nan"), "on", "x" * 500, (), (1, 2), [3], {"a": 1}])


HALL = Room("hall", "hallway", "entrance hall")


def own_home(seed: int = 0) -> Home:
    """A home of shipped and own devices, with every type of value in it."""
    rng = random.Random(seed)
    specs = [*Entity.load(OWN), *(Catalogue.shipped()[spid] for spid in ("100001", "100101", "102101"))]
    air = {path: kind.sample(rng) for path, kind in ROOM_STATE.items()}
    devices = [Device(str(i), spec.name, HALL, spec) for i, spec in enumerate(specs, 1)]
    state = {d.did: {path: a.sample(rng) for path, (_, a) in d.spec.attribute_index.items()} for d in devices}
    rooms = [HALL, Room("closet", "closet", "walk-in closet", parent="hall")]
    return Home.build(rooms, devices, {OUTDOORS: air, "hall": air, "closet": air} | state, 1_750_000_000)


HOMES = st.integers(0, 20).map(own_home) | st.integers(0, 200).map(make_home)


@st.composite
def calls(draw, home: Home) -> tuple:
    """A call that may be right or wrong in any of its parts."""
    device = draw(st.sampled_from(home.plan.devices))
    services = list(device.spec.service_index)
    path = draw(st.sampled_from([*services, "explode"]))
    declared = device.spec.service_index[path].service.arguments if path in services else ()
    rng = draw(st.randoms(use_true_random=False))
    args = [draw(JUNK) if rng.random() < 0.4 else argument.sample(rng) for argument in declared]
    args += [1] if rng.random() < 0.05 else []
    did = device.did if rng.random() < 0.95 else draw(st.sampled_from(["0", None, 5, []]))
    return did, path, args, {"bogus": 1} if rng.random() < 0.05 else {}


def run(home: Home, call: tuple) -> bool:
    """Whether the call was taken."""
    try:
        home.call(*call)
    except Refused:
        return False
    return True


def fresh_key(home: Home) -> str:
    return Home(home.plan, home.values, home.clock).state_key()


@SOME
@given(HOMES, st.data())
def test_calls_keep_every_promise(home, data):
    start = home.fork()
    for _ in range(8):
        call = data.draw(calls(home))
        before, key, twin = home.values.copy(), home.state_key(), home.fork()
        taken = run(home, call)
        if not taken:
            assert home.values == before and home.state_key() == key, "a refused call changed something"
        assert twin.values == before and twin.state_key() == key, "a fork felt its parent's call"
        assert home.state_key() == fresh_key(home), "the running key is not the recomputed one"
        assert run(twin, call) == taken and twin.values == home.values and twin.state_key() == home.state_key()
        assert (home.state_key() == key) == (home.values == before)
        for slot, value in zip(home.plan.slots, home.values, strict=True):
            assert repr(slot.type.check(value)) == repr(value), "a slot left its type"
    differing = {i for i, (a, b) in enumerate(zip(start.values, home.values, strict=True)) if a != b}
    changes = start.diff(home)
    assert {change.slot for change in changes} == differing
    assert all((c.before, c.after) == (start.values[c.slot], home.values[c.slot]) for c in changes)
    assert [(c.slot, c.after, c.before) for c in changes] == [(c.slot, c.before, c.after) for c in home.diff(start)]


@SOME
@given(HOMES, st.data())
def test_a_stored_home_is_the_same_home(home, data):
    for _ in range(3):
        run(home, data.draw(calls(home)))
    back = home_from_json(home_to_json(home))
    assert back.values == home.values and back.clock == home.clock and back.plan.digest == home.plan.digest
    assert back.state_key() == home.state_key() and home_to_json(back) == home_to_json(home)
    call = data.draw(calls(home))
    assert run(back, call) == run(home, call) and back.state_key() == home.state_key()


def test_equal_keys_by_different_ways_behave_alike():
    one, other = own_home(), own_home()
    one.call("2", "turn_on")
    one.call("2", "set_brightness", [30])
    other.call("2", "turn_off")
    other.call("2", "turn_on")
    other.call("2", "set_brightness", [90])
    assert one.state_key() != other.state_key()
    other.call("2", "set_brightness", [30])
    assert one.state_key() == other.state_key()
    for home in (one, other):
        home.call("2", "set_hs_color", [(0, -0.0)])
    assert one.state_key() == other.state_key()


def test_the_key_covers_plan_and_clock():
    home = own_home()
    later = home.fork()
    later.clock += 1
    assert later.state_key() != home.state_key()
    split = Home.build([Room("a|b", "c", "d")], [], {OUTDOORS: home.state_of(OUTDOORS), "a|b": home.state_of("hall")})
    joined = Home.build([Room("a|b", "c|d", "")], [], {OUTDOORS: home.state_of(OUTDOORS), "a|b": home.state_of("hall")})
    assert split.state_key() != joined.state_key()
    with pytest.raises(ValueError, match="different plans"):
        split.diff(joined)


def test_a_file_keeps_homes_with_specifications_of_ones_own(tmp_path):
    home = own_home(3)
    save_home(home, tmp_path / "home.json")
    for back in (load_home(tmp_path / "home.json"), home_from_json(home_to_json(home))):
        assert back.state_key() == home.state_key() and back.plan.devices[0].spec == home.plan.devices[0].spec
        assert back.plan.devices[-1].spec is home.plan.devices[-1].spec, "a shipped product is known again"
    assert isinstance(home_to_json(home)["specs"]["100001"], str), "and stored by its digest where it is named"
    assert back.get("1", "wake") == home.get("1", "wake")


def test_a_home_file_has_the_fields_of_smh_bench(tmp_path):
    """SMH-Bench Tables 5, 6, 7, 9 and 11; a home of nothing else (Table 4) is a home."""
    data = json.loads(json.dumps(home_to_json(HomeSampler.sample_test(), whole=True)))
    bathroom = {"id": "bathroom", "type": "bathroom", "name": "ensuite bathroom", "floor": 0, "parent": "bedroom"}
    assert data["rooms"][2] == bathroom
    lamp = data["devices"][0]
    assert {"name", "description", "attributes", "services", "components", "userdata"} == lamp.keys()
    assert {"did", "spid", "category", "subcategory", "tags", "room"} <= lamp["userdata"].keys()
    assert lamp["attributes"][1] == {
        "name": "brightness", "description": "How bright it shines", "type": "int", "value": 40, "range": [1, 100],
        "unit": "percentage",
    }  # fmt: skip
    assert {"name", "description", "arguments", "code"} <= lamp["services"][2].keys()
    bare = home_from_json({"rooms": data["rooms"], "devices": data["devices"]})
    assert bare.get("1001", "brightness") == 40 and bare.call("1001", "set_brightness", [7]) is None
    for device in data["devices"]:
        del device["userdata"]["product"]
    nameless = home_from_json({"rooms": data["rooms"], "devices": data["devices"]})
    assert nameless.state_of("1001") == bare.state_of("1001") | {"brightness": 40}


def test_keys_are_the_same_in_another_process(tmp_path):
    homes = [own_home(), make_home(7), make_home(8, HomeRecipe(devices=(30, 30)))]
    for i, home in enumerate(homes):
        home.call("1", "lamp.set_level", [0.3]) if i == 0 else None
        save_home(home, tmp_path / f"{i}.json")
    code = (
        "import sys\nfrom envs.homeenv.home_file import load_home\n"
        "print(*(load_home(path).state_key() for path in sys.argv[1:]))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, *(str(tmp_path / f"{i}.json") for i in range(3))],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.split() == [home.state_key() for home in homes]


def test_service_code_runs_in_order_with_defaults_and_fails_as_a_refusal():
    home = own_home()
    home.call("1", "share", [5])
    assert home.get("1", "volume") == 2
    home.call("1", "raise_volume", kwargs={"by": 8})
    assert (home.get("1", "volume"), home.get("1", "peak")) == (10, 10), "the second line sees the first"
    key = home.state_key()
    for args, rule in (([], "out_of_range"), ([1, 2], "unknown_argument")):
        with pytest.raises(Refused) as refused:
            home.call("1", "raise_volume", args)
        assert refused.value.rule == rule and home.state_key() == key
    with pytest.raises(Refused, match="cannot be worked out"):
        home.call("1", "share", [0])
    home.call("1", "raise_volume", [-10])
    home.call("1", "raise_volume")
    assert home.get("1", "volume") == 2, "the default is two"


def test_each_wrong_call_has_its_rule():
    home = HomeSampler.sample_test()
    for call, rule in [
        (("9999", "turn_on"), "unknown_device"),
        ((None, "turn_on"), "unknown_device"),
        ((["1001"], "turn_on"), "unknown_device"),
        (("1001", "explode"), "unknown_service"),
        (("1001", "set_brightness"), "missing_argument"),
        (("1001", "set_brightness", [50, 60]), "unknown_argument"),
        (("1001", "set_brightness", [50], {"brightness": 60}), "unknown_argument"),
        (("1001", "set_brightness", [], {"volume": 60}), "unknown_argument"),
        (("1001", "set_brightness", ["bright"]), "wrong_type"),
        (("1001", "set_brightness", [0]), "out_of_range"),
        (("1003", "set_brightness", [10]), "precondition"),
    ]:
        with pytest.raises(Refused) as refused:
            home.call(*call)
        assert refused.value.rule == rule, call
    assert home.state_key() == HomeSampler.sample_test().state_key()


def test_incoherent_homes_are_refused():
    home, air = own_home(), own_home().state_of(OUTDOORS)
    light, own = Catalogue.shipped()["100001"], Entity.load(OWN.replace("900001", "100001"))[0]
    hall, attic = HALL, Room("attic", "storage", "attic")
    for rooms, devices, message in [
        ([hall, hall], [], "names two things"),
        ([hall], [Device("1", "a", hall, light), Device("1", "b", hall, light)], "names two things"),
        ([hall], [Device("1", "a", attic, light)], "does not exist"),
        ([Room("x", "closet", "x", parent="y"), Room("y", "closet", "y", parent="x")], [], "its own child"),
        ([hall], [Device("1", "a", hall, light), Device("2", "b", hall, own)], "two specifications"),
    ]:
        with pytest.raises(ValueError, match=message):
            Home.build(rooms, devices, {OUTDOORS: air, "hall": air, "x": air, "y": air})
    with pytest.raises(ValueError, match="gives no value for hall.temperature"):
        Home.build([hall], [], {OUTDOORS: air, "hall": {}})
    with pytest.raises(ValueError, match="slots got 0 values"):
        Home(home.plan, [])


@pytest.mark.parametrize(
    ("find", "put", "what"),
    [
        ("name: volume", "name: ringing", "used twice"),
        ("name: lamp", "name: volume", "used twice"),
        ("name: raise_volume", "name: raise volume", "a letter first"),
        ("name: peak", "name: _peak", "a letter first"),
        ("default: 2", "default: 99", "default = 99"),
        ("self.volume + by", "self.volume + bye", "'bye' is not allowed"),
        ("self.peak = max(", "self.top = max(", "not an attribute of self"),
        ("self.peak = max(self.peak, self.volume)", "print(self.peak)", "not an assignment"),
        ("self.volume + by", "self.volume.real", "not allowed here"),
        ("not self.ringing", "self.rings", "no attribute 'rings'"),
        ("self.volume + by", "().__class__", "not allowed here"),
    ],
)
def test_specifications_that_could_not_work_are_refused_at_loading(find, put, what):
    assert find in OWN
    with pytest.raises(InputError, match=what):
        Entity.load(OWN.replace(find, put))


def test_two_components_of_one_name_are_refused():
    twice = OWN + OWN[OWN.index("    - name: lamp") :]
    with pytest.raises(InputError, match="component 'lamp'"):
        Entity.load(twice)
