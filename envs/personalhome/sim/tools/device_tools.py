"""The tools that list appliances and sensors, read their states, tell the features of appliances, run them and set states.

Some features take a question in words, such as the speaker's `complex_query`. Without an endpoint the answer is quoted from
what the household remembers, so that it is always the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from homerl.envs.homeenv.sim.devices.attributes_and_services import Argument
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.appliance_features import load_features
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import clock_shown, device_shown, json_value, owned_shown
from homerl.envs.personalhome.sim.refusals import HouseholdRefused, unknown_name_refusal
from homerl.envs.personalhome.sim.tools.contract import (
    NAMES,
    Arguments,
    HouseholdTool,
    add_tool,
    find_appliance,
    find_room_ids,
    find_sensor,
)

TOOLS: list[HouseholdTool] = []
ASKED: Mapping[str, str] = {"complex_query": "query"}  # method of an appliance -> the argument that holds the question
QUOTED = 3  # memories and events that an answer rests on
APPLIANCE = {"type": "string", "description": "the appliance's name, as get_owned_appliances lists it"}
APPLIANCES = {"appliance_names": {**NAMES, "description": "names of appliances, as get_owned_appliances lists them"}}
ROOMS = {"locations": {**NAMES, "description": "names of rooms"}}
FEATURE = {"type": "string", "description": "the feature, as get_appliance_features names it"}
FEATURE_ARGUMENTS = {"type": "object", "description": "the feature's arguments by name"}
STATE = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 40,
    "description": "new values by attribute, as get_appliances names them",
}


@add_tool(TOOLS, "All appliances of the household: name, type and room.")
def get_owned_appliances(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """All appliances: name, type and location."""
    state.note_shown(*(f"appliance:{device.did}" for device in state.appliances))
    return [owned_shown(device) for device in state.appliances]


@add_tool(TOOLS, "The present states of some appliances, by the appliance's name.", APPLIANCES)
def get_appliances(state: HouseholdState, arguments: Arguments) -> dict[str, dict[str, Any]]:
    """The states of some appliances, by name. Raises `Refused` for an unknown one."""
    found = [find_appliance(state, name) for name in arguments["appliance_names"]]
    return {row["appliance"]: row for row in _read_devices(state, found)}


@add_tool(TOOLS, "The appliances of some rooms, with their present states.", ROOMS)
def get_appliances_by_location(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The appliances of some rooms with their states. Raises `Refused` for an unknown room."""
    wanted = find_room_ids(state, arguments["locations"])
    return _read_devices(state, (device for device in state.appliances if device.room.id in wanted))


@add_tool(TOOLS, "What some appliances can be told to do: the features, their parameters and what they require.", APPLIANCES)
def get_appliance_features(state: HouseholdState, arguments: Arguments) -> dict[str, list[dict[str, Any]]]:
    """What some appliances can be told to do, by name. Raises `Refused` for an unknown one."""
    found = [find_appliance(state, name) for name in arguments["appliance_names"]]
    state.note_shown(*(f"features:{device.did}" for device in found))
    return {device.did: list(_feature_rows(device, state.household.language)) for device in found}


@add_tool(
    TOOLS,
    "Run a feature of an appliance with arguments, and get its result.",
    {"appliance_name": APPLIANCE, "feature_method": FEATURE, "feature_kwargs": FEATURE_ARGUMENTS},
    optional=["feature_kwargs"],
)
def run_appliance_feature(state: HouseholdState, arguments: Arguments) -> Any:
    """Run a feature and return its result. Raises `Refused` for unknown names, wrong arguments or an unfit state."""
    device = find_appliance(state, arguments["appliance_name"])
    method, given = arguments["feature_method"], arguments.get("feature_kwargs", {})
    bind_feature(device, method, given)  # refuses an unknown feature with the names of the known ones
    result = json_value(state.home.call(device.did, method, (), given))
    state.note_shown(f"result:{device.did}.{method}")
    return {**result, "answer": _answer_question(state, given[ASKED[method]])} if method in ASKED else result


@add_tool(
    TOOLS,
    "Set the state of an appliance directly. What the appliance measures cannot be set.",
    {"appliance_name": APPLIANCE, "state": STATE},
)
def update_appliance(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """Set attributes of an appliance and return its row. Raises `Refused` for unknown or measured ones and unfit values."""
    device = find_appliance(state, arguments["appliance_name"])
    index = device.spec.attribute_index
    for path, value in arguments["state"].items():
        if path not in index:
            raise unknown_name_refusal("unknown_attribute", f"attribute of {device.did}", path, index)
        offset, attribute = index[path]
        if attribute.read_only or attribute.counts is not None:
            writable = ", ".join(name for name, (_, one) in index.items() if not one.read_only and one.counts is None)
            raise HouseholdRefused("read_only", f"{device.did} measures {path}; what can be set is {writable or 'nothing'}")
        state.home.write_slot(state.home.plan.base[device.did] + offset, attribute.check_value(value, path))
    return _read_devices(state, [device])[0]


@add_tool(TOOLS, "All sensors of the household: name, type and room.")
def get_owned_sensors(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """All sensors: name, type and location."""
    state.note_shown(*(f"sensor:{device.did}" for device in state.sensors))
    return [owned_shown(device) for device in state.sensors]


@add_tool(
    TOOLS,
    "What some sensors read now, by the sensor's name.",
    {"sensor_names": {**NAMES, "description": "names of sensors, as get_owned_sensors lists them"}},
)
def get_sensors(state: HouseholdState, arguments: Arguments) -> dict[str, dict[str, Any]]:
    """What some sensors read now, by name. Raises `Refused` for an unknown sensor."""
    found = [find_sensor(state, name) for name in arguments["sensor_names"]]
    return {row["sensor"]: row for row in _read_devices(state, found)}


@add_tool(TOOLS, "The sensors of some rooms, and what they read now.", ROOMS)
def get_sensors_by_location(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """What the sensors of some rooms read now. Raises `Refused` for an unknown room."""
    wanted = find_room_ids(state, arguments["locations"])
    return _read_devices(state, (device for device in state.sensors if device.room.id in wanted))


def bind_feature(device: Device, method: str, given: Arguments) -> dict[str, Any]:
    """The canonical arguments of a feature. Raises `Refused` if there is no such feature or they do not fit."""
    service = device.spec.service_index.get(method)
    if service is None:
        raise unknown_name_refusal("unknown_feature", f"feature of {device.did}", method, device.spec.service_index)
    return service.bind_arguments((), given)


def _answer_question(state: HouseholdState, question: str) -> str:
    """The answer to a question, from the memories and events that match it best. What it rests on counts as shown."""
    rows: list[tuple[str, Any, str]] = [
        (f"memory:{at}", one.time, f"{one.memory} {one.additional_information}".strip())
        for at, one in enumerate(state.records.memories)
    ]
    rows += [(f"event:{at}", one.time, one.description) for at, one in enumerate(state.household.context.events)]
    rows.sort(key=lambda row: row[1], reverse=True)  # a rank keeps the order of equals: the latest first
    best = [rows[at] for at in state.rank(question, [text for _, _, text in rows])[:QUOTED]]
    state.note_shown(*(id for id, _, _ in best))
    return state.answer(question, [f"{clock_shown(time)} {text}" for _, time, text in best])


def _read_devices(state: HouseholdState, devices: Iterable[Device]) -> list[dict[str, Any]]:
    rows = []
    for device in devices:
        kind = "sensor" if is_sensor(device.spec) else "appliance"
        state.note_shown(f"{kind}:{device.did}", f"state:{device.did}")
        rows.append(device_shown(device, state))
    return rows


def _feature_rows(device: Device, language: str) -> Iterator[dict[str, Any]]:
    for path, compiled in device.spec.service_index.items():
        service, known = compiled.service, load_features().get(f"{device.spec.category}.{path}")
        row: dict[str, Any] = {"feature_method": path}
        if known:
            row["title"] = getattr(known.title, language, known.title.en)
        if service.description:
            row["description"] = service.description
        row["parameters"] = {argument.name: _parameter_row(argument) for argument in service.arguments}
        if service.requires:
            row["requires"] = " ".join(service.requires.split()).replace("self.", "")
        yield row


def _parameter_row(argument: Argument) -> dict[str, Any]:
    row: dict[str, Any] = {"type": argument.describe_type(), "required": argument.required}
    row |= {"default": json_value(argument.default)} if argument.default is not None else {}
    return row | ({"description": argument.description} if argument.description else {})
