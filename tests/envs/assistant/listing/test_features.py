"""Whatever features an entity has: what the real one can do, its copy does, or a note says that it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homerl.envs.assistant.home_import import ImportedHome
from homerl.envs.assistant.listing.entity_products import HIDDEN, load_base_products, product_of_entity
from homerl.envs.assistant.listing.service_forms import shipped_service_forms, supported_services
from homerl.envs.homeenv.sim.values.auditor import Refused
from tests.envs.assistant.listing.making import alone, entity

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
    one = entity(f"{domain}.a", state, told, services=offered)
    return one, *product_of_entity(one, shipped_service_forms())


@settings(max_examples=300, deadline=None)
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", [0, None])
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


@pytest.mark.parametrize("more", [{}, {"preset_modes": ["none", "eco"], "preset_mode": "eco"}, {"fan_modes": ["low"]}])
@pytest.mark.parametrize(
    ("modes", "chosen"),
    [
        (["heat", "off"], "heat"),
        (["off", "cool"], "cool"),
        (["off", "dry"], "dry"),
        (["off", "auto", "cool"], "cool"),
        (["off", "heat", "cool", "heat_cool"], "heat_cool"),
        (["heat", "cool", "off"], "heat"),
        (["off", "dry", "auto"], None),
    ],
)
def test_a_thermostat_is_switched_on_in_a_mode_that_it_has(modes: list[str], chosen: str | None, more: Any) -> None:
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
