"""What a service returns: plain data about the device after the call, and nothing at all if the call is refused."""

import pytest
from draws import HALL

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device, DeviceSpec, Entity
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused

URN = """- name: urn
  userdata: {category: urn, spid: "900200"}
  attributes:
    - {name: level, type: float, range: [0, 100]}
    - {name: taps, type: tuple, items: [{type: int}, {type: int}]}
  services:
    - name: fill
      arguments: [{name: by, type: float, range: [0, 50]}]
      requires: self.level < 90
      code: self.level = self.level + by
      returns: self.level
    - name: report
      arguments: [{name: cups, type: int, range: [0, 9], required: false, default: 4}]
      code: ""
      returns:
        level: self.level
        per_cup: self.level / cups
        lasts: self.level >= cups
        taps: self.taps
    - {name: empty, code: self.level = 0}
    - {name: swell, code: self.level = 1, returns: 1e308 * 10}
"""
HALL_AIR = {"temperature": 20.0, "humidity": 50.0, "brightness": 0.0}


def urn(level: float = 20.0) -> Home:
    device = Device("urn", "urn", HALL, Entity.load(URN)[0])
    return Home.build_home(
        [HALL], [device], {OUTDOORS: HALL_AIR, HALL.id: HALL_AIR, "urn": {"level": level, "taps": (1, 2)}}
    )


def test_a_call_returns_what_its_service_says_after_its_writes():
    home = urn()
    assert home.call("urn", "fill", [30]) == 50.0
    assert home.call("urn", "report") == {"level": 50.0, "per_cup": 12.5, "lasts": True, "taps": [1, 2]}
    assert home.call("urn", "report", kwargs={"cups": 5})["per_cup"] == 10.0
    assert home.call("urn", "empty") is None and home.read_value("urn", "level") == 0.0


def test_a_refused_call_returns_nothing_and_changes_nothing():
    for level, service, args, rule in [
        (95.0, "fill", [1], "precondition"),
        (80.0, "fill", [30], "out_of_range"),
        (50.0, "report", [0], "out_of_range"),
        (50.0, "swell", [], "out_of_range"),
    ]:
        home = urn(level)
        key = home.state_key()
        with pytest.raises(Refused) as refused:
            home.call("urn", service, args)
        assert refused.value.rule == rule and home.state_key() == key, service


def test_a_device_outside_a_home_returns_the_same():
    lone = Entity.load(URN)[0].rand(1)
    lone.empty()
    assert lone.fill(12) == lone.level == 12.0


@pytest.mark.parametrize(
    ("find", "put", "line", "what"),
    [
        ("returns: self.level\n", "returns: self.height\n", 11, "service 'fill': self has no attribute 'height'"),
        ("self.level / cups", "self.level / mugs", 17, "service 'report': 'mugs' is not allowed here"),
        ("self.level >= cups", "open('x')", 18, "service 'report': 'open('x')' is not allowed here"),
        ("returns: self.level\n", "returns: self.level = 1\n", 11, "service 'fill': cannot be parsed"),
        ("returns: self.level\n", "returns: [self.level]\n", 11, "returns"),
    ],
)
def test_a_wrong_answer_is_refused_with_file_and_line(tmp_path, find, put, line, what):
    assert find in URN
    path = tmp_path / "urn.yaml"
    path.write_text(URN.replace(find, put))
    with pytest.raises(InputError) as error:
        Entity.load(path)
    assert error.value.where.startswith(f"{path}:{line}") and what in error.value.what and error.value.remedy


def test_a_specification_keeps_its_answers_and_one_without_them_its_digest():
    spec = Entity.load(URN)[0]
    again = DeviceSpec.model_validate_json(spec.model_dump_json(exclude_defaults=True))
    assert again.content_digest == spec.content_digest and again.services[1].returns == spec.services[1].returns
    assert Catalogue.load_shipped()["100001"].content_digest == "66b165fc1d36c62c"
    assert Entity.load(URN.replace("      returns: self.level\n", ""))[0].content_digest != spec.content_digest
