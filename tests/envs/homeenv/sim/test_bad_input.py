"""Whatever a person got wrong: one message with the file, the place and the remedy."""

import json

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Entity
from homerl.envs.homeenv.sim.home_file import home_to_json, load_home, save_home

SPEC = """- name: lamp
  userdata: {category: light, spid: "900100"}
  attributes:
    - name: state
      type: str
      options: ["on", "off"]
    - name: brightness
      type: int
      range: [1, 100]
  services:
    - name: turn_on
      code: self.state = "on"
"""


def refused(read, *args) -> InputError:
    with pytest.raises(InputError) as error:
        read(*args)
    assert error.value.what and error.value.remedy and len(str(error.value).splitlines()) <= 3
    return error.value


@pytest.mark.parametrize(
    ("find", "put", "line", "what", "remedy"),
    [
        ("      options:", "      optoins:", 6, "optoins is not a known key", "did you mean options?"),
        ("  services:", "  servces:", 10, "servces is not a known key", "did you mean services?"),
        ("[1, 100]", "[100, 1]", 7, "the lower bound must be below the upper one", ""),
        ("[1, 100]", "[1, many]", 9, "'many'", "number"),
        ("type: int", "type: itn", 8, "is 'itn', which is not allowed", "did you mean int?"),
        ("self.state =", "self.stat =", 12, "service 'turn_on': 'self.stat' is not an attribute of self", ""),
        ('"on", "off"]', '"on", "off"', 7, "not valid YAML", ""),
        ("    - name: brightness", "    - name: state", 7, "attribute 'state': its name is used twice", ""),
        (
            '  userdata: {category: light, spid: "900100"}\n',
            "",
            1,
            "userdata is missing",
            "add the key 'userdata'",
        ),
    ],
)
def test_a_wrong_device_file_is_refused_with_file_line_and_remedy(tmp_path, find, put, line, what, remedy):
    assert find in SPEC
    path = tmp_path / "lamp.yaml"
    path.write_text(SPEC.replace(find, put))
    error = refused(Entity.load, path)
    assert what in error.what and remedy in error.remedy
    assert error.where.startswith(f"{path}:{line}")
    with path.open() as file:
        assert refused(Entity.load, file).where == error.where, "an open file knows its name as well"


def test_a_device_file_that_is_none(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    assert "a list of devices" in refused(Entity.load, tmp_path / "empty.yaml").what
    assert "did you mean" in refused(Entity.load, tmp_path / "empti.yaml").remedy
    assert "no such folder" in refused(Catalogue.load_folders, tmp_path / "nowhere").what
    (tmp_path / "bare").mkdir()
    assert "no device files" in refused(Catalogue.load_folders, tmp_path / "bare").what


def test_two_products_of_one_spid(tmp_path):
    (tmp_path / "a.yaml").write_text(SPEC)
    (tmp_path / "b.yaml").write_text(SPEC.replace("name: lamp", "name: candle"))
    error = refused(Catalogue.load_folders, tmp_path)
    assert "900100 is used by lamp and candle" in error.what and error.where.endswith("b.yaml:2")


def test_a_condition_that_names_a_missing_device():
    plan = HomeSampler.sample_test().plan
    error = refused(compile_condition, 'device("1O01").state == "on"', plan)
    assert "there is no device '1O01'" in error.what and "did you mean 1001?" in error.remedy
    assert 'device("1O01").state == "on"' in error.where and "column 1" in error.where
    assert "there is no room 'kichen'" in refused(compile_condition, "room('kichen').temperature > 1", plan).what


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_a_home_file_that_was_cut(tmp_path, share):
    path = tmp_path / "home.json"
    save_home(HomeSampler.sample_test(), path)
    text = path.read_text().rstrip()
    path.write_text(text[: int(len(text) * share)])
    error = refused(load_home, path)
    assert ("breaks off" in error.what or "is empty" in error.what) and error.where.startswith(str(path))
    assert share == 0 or error.where.count(":") == 2, "line and column"


@pytest.mark.parametrize(
    ("change", "what", "line"),
    [
        (
            lambda home: home["devices"][0]["state"].update(brightness=500),
            "1001.brightness = 500 is outside 1..100",
            False,
        ),
        (
            lambda home: home["devices"][0]["state"].pop("brightness"),
            "gives no value for 1001.brightness",
            False,
        ),
        (
            lambda home: home["devices"][0].update(room="attic"),
            "device 1001 is in room 'attic', which does not exist",
            False,
        ),
        (lambda home: home["devices"][0].update(did="1002"), "'1002' names two things", False),
        (lambda home: home["devices"][0].update(spid="1"), "which is not among the file's specs", False),
        (
            lambda home: home["specs"].update({"100001": "0"}),
            "the catalogue has no product 100001 with digest 0",
            False,
        ),
        (lambda home: home["specs"].update({"100001": {"name": "x"}}), "userdata", False),
        (lambda home: home["devices"][0].update(colour="red"), "devices.0.colour is not a known key", True),
        (lambda home: home["devices"][0].pop("name"), "devices.0.name is missing", True),
        (lambda home: home.update(clock="noon"), "clock is 'noon'", True),
        (lambda home: home.update(entrance="9"), "the entrance is device or room '9', which does not exist", False),
        (lambda home: home.update(format=9), "home format 9 is not known", False),
        (lambda home: home["air"].update(attic=home["air"]["bedroom"]), "air is given for room 'attic'", False),
        (lambda home: home["air"]["bedroom"].update(since=0), "cannot be used: `since`, `start` and `goal`", True),
        (lambda home: home["rooms"].append(home["rooms"][0]), "'living_room' names two things", False),
        (lambda home: home["rooms"][2].update(parent="attic"), "has the parent 'attic'", False),
        (lambda home: home["rooms"][0].update(size=3), "rooms.0.size is not a known key", True),
    ],
)
def test_a_home_that_was_edited_wrongly(tmp_path, change, what, line):
    path = tmp_path / "home.json"
    data = json.loads(json.dumps(home_to_json(HomeSampler.sample_test())))
    change(data)
    path.write_text(json.dumps(data, indent=1))
    error = refused(load_home, path)
    assert what in error.what and error.where.startswith(str(path))
    assert not line or error.where.removeprefix(f"{path}:").isdigit()


@pytest.mark.parametrize(
    ("change", "what", "line"),
    [
        (lambda lamp: lamp["attributes"][1].update(value=500), "1001.brightness = 500 is outside 1..100", False),
        (lambda lamp: lamp["attributes"][1].pop("value"), "devices.0.attributes.1.value is missing", True),
        (lambda lamp: lamp["userdata"].update(room="attic"), "device 1001 is in room 'attic', which does not exist", False),
        (lambda lamp: lamp["userdata"].update(did="1002"), "'1002' names two things", False),
        (lambda lamp: lamp["services"][0].update(code="self.colour = 1"), "service 'turn_on'", True),
        (lambda lamp: lamp.update(colour="red"), "devices.0.colour is not a known key", True),
        (lambda lamp: lamp.pop("name"), "devices.0.name is missing", True),
    ],
)
def test_a_home_file_that_was_edited_wrongly(tmp_path, change, what, line):
    path = tmp_path / "home.json"
    save_home(HomeSampler.sample_test(), path)
    data = json.loads(path.read_text())
    change(data["devices"][0])
    path.write_text(json.dumps(data, indent=1))
    error = refused(load_home, path)
    assert what in error.what and error.where.startswith(str(path))
    assert not line or error.where.removeprefix(f"{path}:").isdigit()
