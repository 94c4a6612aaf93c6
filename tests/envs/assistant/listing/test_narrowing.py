"""Products that have less."""

from __future__ import annotations

import ast
import random
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.assistant.listing.entity_products import load_base_products
from homerl.envs.assistant.listing.product_narrowing import narrow_product
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec, LoneDevice, spec_from_json
from homerl.envs.homeenv.sim.values.auditor import Refused

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
