"""What a light is does not hang on how it spells `on`: it lights its room, or the check of its file says what to write."""

from pathlib import Path

import pytest

from homerl.envs.homeenv.sim.devices.air_physics import compute_air_inputs
from homerl.envs.homeenv.sim.devices.device_lint import lint_device_files
from homerl.envs.homeenv.sim.devices.device_spec import Entity
from homerl.envs.homeenv.sim.values.types_and_ranges import value_means_word

LIGHT = """- name: lamp
  userdata: {category: light, spid: "900100", rooms: [study]}
  attributes: [{STATE}, {name: brightness, type: int, range: [0, 100]}]
  services:
    - {name: set_state, description: x, arguments: [{VALUE}], code: self.NAME = value}
    - {name: dim, description: x, arguments: [{name: value, type: int, range: [0, 100]}], code: self.brightness = value}
"""
HEATER = """- name: warm_wall
  userdata: {category: heater, spid: "900101", rooms: [study]}
  attributes: [{name: target_temp, type: int, range: [10, 30], unit: celsius}]
  services:
    - {name: warm, description: x, arguments: [{name: to, type: int, range: [10, 30]}], code: self.target_temp = to}
"""


def light(name: str, type: str) -> str:
    return LIGHT.replace("STATE", f"name: {name}, {type}").replace("VALUE", f"name: value, {type}").replace("NAME", name)


@pytest.mark.parametrize(
    ("type", "on", "off"),
    [
        ('type: enum, options: ["on", "off"]', "on", "off"),
        ('type: enum, options: ["ON", "OFF", "TOGGLE"]', "ON", "OFF"),
        ("type: enum, options: [On, Off]", "On", "Off"),
        ("type: bool", True, False),
        ("type: int, range: [0, 1]", 1, 0),
        ("type: int, options: [1, 0]", 1, 0),
        ("type: str", "ON", "OFF"),
        ('type: enum, options: ["true", "false"]', "true", "false"),
    ],
)
def test_a_light_lights_its_room_however_it_spells_on(tmp_path: Path, type: str, on: object, off: object) -> None:
    (tmp_path / "lamp.yaml").write_text(light("state", type))
    (spec,) = Entity.load(tmp_path / "lamp.yaml")
    lux = [compute_air_inputs([(spec, {"state": state, "brightness": 50})]).lux for state in (on, off, None)]
    assert (
        lux == [150, 0, 0]
        and value_means_word(on, "on")
        and value_means_word(off, "off")
        and not value_means_word(off, "on")
    )
    assert not [finding for finding in lint_device_files(tmp_path).findings if "lights" in finding.what]


@pytest.mark.parametrize(("name", "type"), [("state", "type: enum, options: [lit, dark]"), ("power", "type: bool")])
def test_a_light_that_lights_nothing_is_warned_of_with_what_to_write(tmp_path: Path, name: str, type: str) -> None:
    (tmp_path / "lamp.yaml").write_text(light(name, type))
    (finding,) = (found for found in lint_device_files(tmp_path).findings if "lights" in found.what)
    air = finding.remedy.removeprefix("add ").replace(
        "self.NAME", "self.power" if name == "power" else 'self.state == "lit"'
    )
    (tmp_path / "lamp.yaml").write_text(light(name, type).replace("  services", f"  {air}\n  services"))
    assert not [found for found in lint_device_files(tmp_path).findings if "lights" in found.what]


def test_a_heater_is_proposed_for_what_heats(tmp_path: Path) -> None:
    (tmp_path / "heater.yaml").write_text(HEATER)
    assert any("kind: heater" in finding.remedy for finding in lint_device_files(tmp_path).findings)
