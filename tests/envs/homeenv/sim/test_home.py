"""Homes: refused calls change nothing, forks are independent, keys are exact, files lose nothing."""

import json

import pytest
from draws import HALL, OWN, own_home

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device, Entity
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, load_home, save_home
from homerl.envs.homeenv.sim.values.auditor import Refused


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
    split = Home.build_home([Room("a|b", "c", "d")], [], {OUTDOORS: home.state_of(OUTDOORS), "a|b": home.state_of("hall")})
    joined = Home.build_home([Room("a|b", "c|d", "")], [], {OUTDOORS: home.state_of(OUTDOORS), "a|b": home.state_of("hall")})
    assert split.state_key() != joined.state_key()
    with pytest.raises(ValueError, match="different plans"):
        split.diff(joined)


def test_a_file_keeps_homes_with_specifications_of_ones_own(tmp_path):
    home = own_home(3)
    save_home(home, tmp_path / "home.json")
    for back in (load_home(tmp_path / "home.json"), home_from_json(home_to_json(home))):
        assert back.state_key() == home.state_key() and back.plan.devices[0].spec == home.plan.devices[0].spec
        assert back.plan.devices[1].spec is home.plan.devices[1].spec, "a shipped product is known again"
    assert isinstance(home_to_json(home)["specs"]["100001"], str), "and stored by its digest where it is named"
    assert back.read_value("1", "wake") == home.read_value("1", "wake")


def test_a_home_file_has_the_fields_of_smh_bench(tmp_path):
    """SMH-Bench Tables 5, 6, 7, 9 and 11; a home of nothing else (Table 4) is a home."""
    data = json.loads(json.dumps(home_to_json(HomeSampler.sample_test(), whole=True)))
    bathroom = {"id": "bathroom", "type": "bathroom", "name": "ensuite bathroom", "floor": 0, "parent": "bedroom"}
    assert data["rooms"][2] == bathroom
    lamp = data["devices"][0]
    assert {"name", "description", "attributes", "services", "components", "userdata"} == lamp.keys()
    assert {"did", "spid", "category", "subcategory", "tags", "room"} <= lamp["userdata"].keys()
    assert lamp["attributes"][1] == {
        "name": "brightness",
        "description": "How bright it shines",
        "type": "int",
        "value": 40,
        "range": [1, 100],
        "unit": "percentage",
    }
    assert {"name", "description", "arguments", "code"} <= lamp["services"][2].keys()
    bare = home_from_json({"rooms": data["rooms"], "devices": data["devices"]})
    assert bare.read_value("1001", "brightness") == 40 and bare.call("1001", "set_brightness", [7]) is None
    for device in data["devices"]:
        del device["userdata"]["product"]
    nameless = home_from_json({"rooms": data["rooms"], "devices": data["devices"]})
    assert nameless.state_of("1001") == bare.state_of("1001") | {"brightness": 40}


def test_service_code_runs_in_order_with_defaults_and_fails_as_a_refusal():
    home = own_home()
    home.call("1", "share", [5])
    assert home.read_value("1", "volume") == 2
    home.call("1", "raise_volume", kwargs={"by": 8})
    assert (home.read_value("1", "volume"), home.read_value("1", "peak")) == (10, 10), "the second line sees the first"
    key = home.state_key()
    for args, rule in (([], "out_of_range"), ([1, 2], "unknown_argument")):
        with pytest.raises(Refused) as refused:
            home.call("1", "raise_volume", args)
        assert refused.value.rule == rule and home.state_key() == key
    with pytest.raises(Refused, match="cannot be worked out"):
        home.call("1", "share", [0])
    home.call("1", "raise_volume", [-10])
    home.call("1", "raise_volume")
    assert home.read_value("1", "volume") == 2, "the default is two"


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
    light, own = Catalogue.load_shipped()["100001"], Entity.load(OWN.replace("900001", "100001"))[0]
    hall, attic = HALL, Room("attic", "storage", "attic")
    for rooms, devices, message in [
        ([hall, hall], [], "names two things"),
        ([hall], [Device("1", "a", hall, light), Device("1", "b", hall, light)], "names two things"),
        ([hall], [Device("1", "a", attic, light)], "does not exist"),
        ([Room("x", "closet", "x", parent="y"), Room("y", "closet", "y", parent="x")], [], "its own child"),
        ([hall], [Device("1", "a", hall, light), Device("2", "b", hall, own)], "two specifications"),
    ]:
        with pytest.raises(ValueError, match=message):
            Home.build_home(rooms, devices, {OUTDOORS: air, "hall": air, "x": air, "y": air})
    with pytest.raises(ValueError, match="gives no value for hall.temperature"):
        Home.build_home([hall], [], {OUTDOORS: air, "hall": {}})
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
