"""The products of entities: what the real ones have and can do, in reach or not, or a note says that it is lost."""

from __future__ import annotations

import ast
import json
import random
from functools import cache
from typing import Any

import pytest
from crossed import crossed
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from ha.forms import OUT, forms
from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.entity_capabilities import applicable_fields, shipped_service_forms, supported_services
from homerl.envs.assistant.listing.entity_products import HIDDEN, load_base_products, product_of_entity
from homerl.envs.assistant.listing.home_listing import COLOURED, FORMS, complete_light_attributes
from homerl.envs.assistant.listing.homeassistant_mapping import from_homeassistant, refresh_home
from homerl.envs.assistant.listing.product_narrowing import narrow_product
from homerl.envs.core.world import tool_call_to_action
from homerl.envs.homeenv.sim.assist.assist_tools import live_context
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec, LoneDevice, spec_from_json
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.making import alone, make_entity, recorded_entity
from tests.envs.assistant.listing.replay import listing

BASES = sorted(load_base_products(), key=lambda spec: spec.spid)


def everything(spec: DeviceSpec) -> tuple[set[str], dict[str, set[str]]]:
    services = {service.name: {argument.name for argument in service.arguments} for service in spec.services}
    return {attribute.name for attribute in spec.attributes}, services


def plain(spec: DeviceSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_defaults=True)


@cache
def kept_whole(spid: str) -> DeviceSpec:
    """The product narrowed to everything that it has."""
    [spec] = (spec for spec in BASES if spec.spid == spid)
    return spec_from_json(narrow_product(plain(spec), *everything(spec)))


@pytest.mark.parametrize("spec", BASES, ids=lambda spec: spec.spid)
@few(8, 100)
@given(seed=st.integers(0, 1000), data=st.data())
def test_what_keeps_everything_behaves_alike(spec: DeviceSpec, seed: int, data: st.DataObject) -> None:
    same = kept_whole(spec.spid)
    service = data.draw(st.sampled_from(sorted(spec.service_index))) if spec.service_index else None
    if service is None:
        return
    declared = spec.service_index[service].service.arguments
    chosen = [one for one in declared if one.required or data.draw(st.booleans())]
    arguments = {one.name: one.sample_value(random.Random(seed)) for one in chosen}
    outcomes = []
    for device in (spec.rand(seed), same.rand(seed)):
        try:
            returned = getattr(device, service)(**arguments)
        except Refused as error:
            returned = error.rule
        outcomes.append((returned, values(device, spec)))
    assert outcomes[0] == outcomes[1]


def values(device: LoneDevice, spec: DeviceSpec) -> list[Any]:
    return [getattr(device, attribute.name) for attribute in spec.attributes]


@given(spec=st.sampled_from(BASES), data=st.data())
def test_what_is_dropped_is_in_no_code(spec: DeviceSpec, data: st.DataObject) -> None:
    attributes, services = everything(spec)
    kept = {"state"} | {one for one in sorted(attributes) if data.draw(st.booleans())}
    offered = {name: arguments for name, arguments in sorted(services.items()) if data.draw(st.booleans())}
    narrow = narrow_product(plain(spec), kept, offered)
    for service in narrow["services"]:
        for node in ast.walk(ast.parse(service["code"])):
            assert not isinstance(node, ast.Attribute) or node.attr in kept


LAMP = {
    "name": "lamp",
    "userdata": {"category": "light", "spid": "1"},
    "attributes": [
        {"name": "state", "type": "str", "options": ["on", "off"]},
        {"name": "brightness", "type": "int", "range": [0, 255]},
    ],
    "services": [
        {
            "name": "turn_on",
            "arguments": [{"name": "brightness", "type": "int", "range": [0, 255], "required": False}],
            "requires": "brightness == None or self.brightness != None",
            "code": 'self.state = "off" if brightness == 0 else "on"\n'
            "self.brightness = self.brightness if brightness == None else brightness",
        },
        {"name": "turn_off", "code": 'self.state = "off"'},
    ],
}


def test_code_of_what_is_gone_is_worked_out() -> None:
    narrow = narrow_product(LAMP, {"state"}, {"turn_on": ()})
    assert [one["name"] for one in narrow["attributes"]] == ["state"]
    assert narrow["services"] == [{"name": "turn_on", "arguments": [], "code": "self.state = 'on'"}]


def test_code_of_what_is_there_stays() -> None:
    narrow = narrow_product(LAMP, {"state", "brightness"}, {"turn_on": ("brightness",), "turn_off": ()})
    assert [one["name"] for one in narrow["services"]] == ["turn_on", "turn_off"]
    lamp = spec_from_json(narrow).rand(1)
    lamp.turn_on(brightness=7)
    assert (lamp.state, lamp.brightness) == ("on", 7)


def test_a_computed_value_of_what_is_gone_is_none() -> None:
    lamp = LAMP | {"air": {"kind": "light", "brightness": "max(0, self.brightness / 2.55)", "state": "self.state"}}
    assert narrow_product(lamp, {"state"}, {})["air"] == {"kind": "light", "state": "self.state"}


def test_an_entity_supports_what_home_assistant_says() -> None:
    home = listing()
    for entity in home.entities:
        own = sorted(one for one in entity.services if one.startswith(f"{entity.domain}."))
        assert supported_services(home.sources[FORMS], entity.entity_id, entity.attributes) == own


def test_the_shipped_forms_are_the_recorded_ones() -> None:
    recorded = listing().sources[FORMS]
    shipped = shipped_service_forms()
    assert {"light", "climate", "media_player"} <= shipped.keys() <= recorded.keys()
    for entity in listing().entities:
        if entity.domain in shipped:
            assert supported_services(shipped, entity.entity_id, entity.attributes) == supported_services(
                recorded, entity.entity_id, entity.attributes
            )


def test_a_field_is_there_for_entities_that_fit_its_filter() -> None:
    form = shipped_service_forms()["light"]["turn_on"]
    names = {name for name, _ in applicable_fields(form, recorded_entity("light.bed_light").attributes)}
    assert {"brightness", "color_temp_kelvin", "effect"} <= names and "white" not in names
    plain = {name for name, _ in applicable_fields(form, {"supported_color_modes": ["onoff"], "supported_features": 0})}
    assert "brightness" not in plain and "profile" in plain


def test_the_file_of_forms_is_what_its_script_makes() -> None:
    assert json.loads(OUT.read_text("utf-8")) == forms()


LISTS = {  # what entities with a choice show of it
    "hvac_modes": ["off", "heat", "cool", "auto"],
    "preset_modes": ["eco", "boost"],
    "fan_modes": ["slow", "fast"],
    "swing_modes": ["off", "wide"],
    "source_list": ["A", "B"],
    "sound_mode_list": ["Film"],
    "available_modes": ["night"],
    "operation_list": ["eco", "gas"],
    "fan_speed_list": ["quiet", "loud"],
    "available_tones": ["horn"],
    "options": ["a", "b"],
}
KINDS = ("door", "gate", "garage", "shutter", "curtain", "awning", "damper", "window", "blind", "shade", None)
SPEED = {"fan_speed": "x"}
FEATURES = st.integers(0, (1 << 20) - 1)


def made(domain: str, state: str, features: int, **attributes: Any) -> Any:
    """The product of an entity, with the services that Home Assistant would offer, and what is noted of it."""
    told = {"supported_features": features, **attributes}
    offered = tuple(supported_services(shipped_service_forms(), f"{domain}.a", told))
    one = make_entity(f"{domain}.a", state, told, services=offered)
    return one, *product_of_entity(one, shipped_service_forms())


@few(100, 300)
@given(
    domain=st.sampled_from(sorted({spec.category for spec in load_base_products()} & shipped_service_forms().keys())),
    features=FEATURES,
    lists=st.sets(st.sampled_from(sorted(LISTS))),
    state=st.sampled_from(["on", "off", "unavailable", "unknown", "open", "closed"]),
    kind=st.sampled_from(KINDS),
)
def test_what_it_supports_is_modelled_or_noted(domain: str, features: int, lists: set[str], state: str, kind: Any) -> None:
    one, spec, _, notes = made(domain, state, features, device_class=kind, **{name: LISTS[name] for name in lists})
    noted = {note.part for note in notes}
    for full in one.services:
        name = full.partition(".")[2]
        service = spec.service_index.get(name)
        modelled = service is not None and (service.service.code or service.service.returns)
        unsupported = name in HIDDEN or (domain in ("vacuum", "water_heater") and service is None)
        assert modelled or unsupported or f"service {full}" in noted, full


@crossed(kind=KINDS, position=[0, None])
def test_a_cover_of_any_class_has_the_position_that_can_be_set(kind: str | None, position: int | None) -> None:
    shown = {"device_class": kind} | ({"current_position": position} if position is not None else {})
    imported = alone("cover.a", "closed", supported_features=15, **shown)
    assert imported.notes == ()
    imported.home.call("cover.a", "set_cover_position", (), {"position": 50})
    imported.home.advance(120)
    assert imported.home.read_value("cover.a", "state") == "open"
    assert position is None or imported.home.read_value("cover.a", "current_position") == 50


@pytest.mark.parametrize("kind", KINDS)
def test_a_cover_without_a_position_takes_its_time(kind: str | None) -> None:
    home = alone("cover.a", "closed", supported_features=11, device_class=kind).home
    assert "set_cover_position" not in home.plan.devices_by_did["cover.a"].spec.service_index
    home.call("cover.a", "open_cover")
    home.advance(120)
    assert home.read_value("cover.a", "state") == "open"


def thermostat(modes: list[str], **more: Any) -> ImportedHome:
    return alone("climate.a", "off", hvac_modes=modes, temperature=20, supported_features=385, **more)


@crossed(
    more=[{}, {"preset_modes": ["none", "eco"], "preset_mode": "eco"}, {"fan_modes": ["low"]}],
    case=[
        (["heat", "off"], "heat"),
        (["off", "cool"], "cool"),
        (["off", "dry"], "dry"),
        (["off", "auto", "cool"], "cool"),
        (["off", "heat", "cool", "heat_cool"], "heat_cool"),
        (["heat", "cool", "off"], "heat"),
        (["off", "dry", "auto"], None),
    ],
)
def test_a_thermostat_is_switched_on_in_a_mode_that_it_has(case: tuple[list[str], str | None], more: Any) -> None:
    modes, chosen = case
    for service in ("turn_on", "toggle"):
        imported = thermostat(modes, **more)
        imported.home.call("climate.a", service)
        assert imported.home.read_value("climate.a", "state") == (chosen or "off")
        assert chosen or any(note.part == f"service climate.{service}" for note in imported.notes)
        if chosen:
            imported.home.call("climate.a", "toggle")
            assert imported.home.read_value("climate.a", "state") == "off"


def test_a_boiler_is_switched_on_in_a_mode_that_it_has() -> None:
    home = alone("water_heater.a", "gas", operation_list=["gas", "turbo"], temperature=50, supported_features=15).home
    for service, state in (("turn_off", "off"), ("turn_on", "gas")):
        home.call("water_heater.a", service)
        assert home.read_value("water_heater.a", "state") == state


@pytest.mark.parametrize(
    ("entity_id", "attributes", "service", "argument"),
    [
        ("humidifier.a", {"available_modes": ["x"], "mode": "x", "supported_features": 1}, "set_mode", {"mode": "x"}),
        ("fan.a", {"preset_modes": ["x"], "preset_mode": None, "supported_features": 56}, "turn_on", {"preset_mode": "x"}),
        ("media_player.a", {"source_list": ["x"], "supported_features": 2048}, "select_source", {"source": "x"}),
        ("vacuum.a", {"fan_speed_list": ["x"], "fan_speed": "x", "supported_features": 8224}, "set_fan_speed", SPEED),
        ("siren.a", {"available_tones": ["x"], "supported_features": 7}, "turn_on", {"tone": "x"}),
        ("select.a", {"options": ["off", "x"]}, "select_next", {}),
    ],
)
def test_a_choice_is_one_of_the_entitys_own(entity_id: str, attributes: Any, service: str, argument: Any) -> None:
    home = alone(entity_id, "off", **attributes).home
    home.call(entity_id, service, (), argument)
    for name in argument:
        with pytest.raises(Refused):
            home.call(entity_id, service, (), {name: "another"})


def test_a_thermostat_says_what_it_lacks() -> None:
    modes = {"swing_modes": ["a"], "swing_mode": "a", "fan_modes": ["b"], "fan_mode": "b"}
    humid = {"humidity": 50, "target_temp_low": None, "target_temp_high": None}
    notes = alone(
        "climate.a", "off", hvac_modes=["off", "heat"], temperature=20, supported_features=431, **modes, **humid
    ).notes
    assert any(note.part == "service climate.set_temperature" and "target_temp_low" in note.why for note in notes)


TUNABLE = {"min_color_temp_kelvin": 2000, "max_color_temp_kelvin": 6500}
SET = "light__HassLightSet"


def asked(modes: list[str], slots: dict[str, Any], state: str = "off", **attributes: Any) -> tuple[Home, str | None]:
    """The home of one lamp after an intent, and the rule by which that was refused."""
    home = alone("light.a", state, supported_color_modes=modes, **attributes).home
    env = HomeEnv(home, toolset="assist")
    blocked = env.step(tool_call_to_action(SET, {"name": "light.a", **slots}, True))[4]["blocked"]
    return env.engine.home, blocked and blocked["rule"]


@crossed(mode=COLOURED, state=["off", "unavailable", "unknown"])
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


@cache
def whole_home() -> Home:
    return import_home(listing(), everything=True).home


@cache
def in_state(state: str) -> Home:
    attributes = {entity.entity_id: entity.attributes for entity in listing().entities}
    rows = [{"entity_id": did, "state": state, "attributes": attributes[did]} for did in whole_home().plan.devices_by_did]
    return refresh_home(whole_home(), rows)


@cache
def back() -> Home:
    """The home when all is in reach again."""
    return refresh_home(in_state("unavailable"), [one.model_dump() for one in listing().entities])


def told(home: Home, did: str) -> str:
    """The state of an entity in `GetLiveContext`."""
    found = json.loads(live_context(home, {"name": did})[0]).get("result", "")
    return next((line.partition(": ")[2].strip("'") for line in found.splitlines() if line.startswith("  state:")), "")


@pytest.mark.parametrize("did", sorted(whole_home().plan.devices_by_did))
def test_an_agent_is_told_which_of_the_two_it_is(did: str) -> None:
    if whole_home().plan.devices_by_did[did].spec.category in ("calendar", "script"):
        return  # tools of their own, and in no list
    assert told(in_state("unavailable"), did) == "unavailable"
    assert told(in_state("unknown"), did) != "unavailable"
    assert told(back(), did) == told(whole_home(), did)


def test_nothing_is_called_that_is_out_of_reach() -> None:
    gone = in_state("unavailable").fork()
    for did, device in gone.plan.devices_by_did.items():
        for name in device.spec.service_index:
            with pytest.raises(Refused) as refused:
                gone.call(did, name)
            assert refused.value.rule in ("unavailable", "missing_argument"), (did, name)


@pytest.mark.parametrize("state", ["unavailable", "unknown"])
@pytest.mark.parametrize(("did", "unit"), [("sensor.a", "°C"), ("number.a", "%"), ("date.a", None), ("text.a", None)])
def test_it_is_told_where_it_is_imported(did: str, unit: str | None, state: str) -> None:
    home = alone(did, state, min=1, max=5, unit_of_measurement=unit).home
    assert told(home, did) == state and home.read_value(did, "state") in (None, state)
    assert home.plan.devices_by_did[did].spec.can_be_reached(home.state_of(did)) == (state == "unknown")


def test_an_attribute_of_the_same_name_is_another() -> None:
    home = alone("sensor.a", "3", unit_of_measurement="W", available="twice a day").home
    assert home.read_value("sensor.a", "available") is True and home.read_value("sensor.a", "available_2") == "twice a day"
