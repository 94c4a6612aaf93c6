"""What lights can do follows from their colour modes, whether they shine or not, and their numbers are taken as there."""

from __future__ import annotations

from typing import Any

import pytest

from homerl.envs.assistant.listing.home_listing import COLOURED, complete_light_attributes
from homerl.envs.assistant.listing.homeassistant_mapping import from_homeassistant
from homerl.envs.core.world import tool_call_to_action
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.making import alone
from tests.envs.assistant.listing.replay import listing

TUNABLE = {"min_color_temp_kelvin": 2000, "max_color_temp_kelvin": 6500}
SET = "light__HassLightSet"


def asked(modes: list[str], slots: dict[str, Any], state: str = "off", **attributes: Any) -> tuple[Home, str | None]:
    """The home of one lamp after an intent, and the rule by which that was refused."""
    home = alone("light.a", state, supported_color_modes=modes, **attributes).home
    env = HomeEnv(home, toolset="assist")
    blocked = env.step(tool_call_to_action(SET, {"name": "light.a", **slots}, True))[4]["blocked"]
    return env.engine.home, blocked and blocked["rule"]


@pytest.mark.parametrize("state", ["off", "unavailable", "unknown"])
@pytest.mark.parametrize("mode", COLOURED)
def test_a_lamp_that_does_not_shine_has_its_colour(mode: str, state: str) -> None:
    for beside in ([], ["color_temp"]):
        spec = alone("light.a", state, supported_color_modes=[mode, *beside]).home.plan.devices_by_did["light.a"].spec
        assert {"hs_color", "rgb_color", "brightness"} <= spec.readable_attributes.keys()
        assert {"color_name", "hs_color", "rgb_color"} <= {a.name for a in spec.service_index["turn_on"].service.arguments}
    home, refused = asked([mode], {"color": "red"})
    assert refused is None and home.read_value("light.a", "rgb_color") == (255, 0, 0)


@pytest.mark.parametrize("told", [TUNABLE, {"min_mireds": 154, "max_mireds": 500}])
@pytest.mark.parametrize(("kelvin", "set_to"), [(9000, (6493, 6500)), (1000, (2000,)), (3000, (3000,))])
def test_a_colour_temperature_beyond_the_lamps_is_the_nearest(
    told: dict[str, int], kelvin: int, set_to: tuple[int, ...]
) -> None:
    home, refused = asked(["color_temp"], {"temperature": kelvin}, **told)
    assert refused is None and home.read_value("light.a", "color_temp_kelvin") in set_to
    _, arguments = from_homeassistant(home, "light.a", "light.turn_on", {"color_temp_kelvin": kelvin})
    assert arguments["color_temp_kelvin"] in set_to


@pytest.mark.parametrize("modes", [["onoff"], ["brightness"]])
def test_what_the_real_one_ignores_switches_the_lamp_on(modes: list[str]) -> None:
    home, refused = asked(modes, {"color": "red", "temperature": 3000})
    assert refused is None and home.read_value("light.a", "state") == "on"


def test_a_colour_is_not_said_to_be_set_on_a_lamp_with_whites_alone() -> None:
    home, refused = asked(["color_temp"], {"color": "red", "brightness": 40}, **TUNABLE)
    assert refused == "unknown_service" and home.read_value("light.a", "state") == "off"
    for colour in ({"rgb_color": [255, 0, 0]}, {"color_name": "red"}, {"xy_color": [0.6, 0.3]}):
        with pytest.raises(Refused):
            from_homeassistant(home, "light.a", "light.turn_on", colour)


@pytest.mark.parametrize(("name", "value"), [("brightness", 300), ("brightness_step", -900), ("transition", 9000)])
def test_numbers_are_taken_as_there(name: str, value: float) -> None:
    home = alone("light.a", "on", brightness=200, supported_color_modes=["brightness"], supported_features=32).home
    service, arguments = from_homeassistant(home, "light.a", "light.turn_on", {name: value})
    home.call("light.a", service, (), arguments)


def test_a_share_beyond_a_hundred_is_refused_as_there() -> None:
    home = alone("light.a", "on", brightness=200, supported_color_modes=["brightness"]).home
    service, arguments = from_homeassistant(home, "light.a", "light.turn_on", {"brightness_pct": 150})
    with pytest.raises(Refused):
        home.call("light.a", service, (), arguments)


def test_a_light_of_today_stays_as_it_is() -> None:
    for entity in listing().entities:
        if entity.domain == "light":
            assert complete_light_attributes(entity.attributes) == entity.attributes
    assert complete_light_attributes({"color_temp": 370, "min_mireds": "x"}) == {
        "color_temp_kelvin": 2702,
        "max_color_temp_kelvin": None,
    }


def test_a_white_of_its_own_is_noted() -> None:
    notes = alone("light.a", "off", supported_color_modes=["rgbw"]).notes
    assert any("rgbw" in note.why for note in notes)
