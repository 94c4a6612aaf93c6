"""The assistant behind features that take a question in words, such as the speaker's `complex_query`.

Invariant: without an endpoint the answer is quoted from what the household remembers, so that it is always the same.

The tools that list appliances, read their states, tell their features, run them and set their states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from homerl.envs.homeenv.sim.devices.attribute_limits_and_services import Argument
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.service_execution import CompiledService
from homerl.envs.personalhome.sim.appliance_features import load_features
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import clock_shown, device_shown, json_value, owned_shown
from homerl.envs.personalhome.sim.refusals import HouseholdRefused, unknown_name_refusal
from homerl.envs.personalhome.sim.tools.contract import HouseholdTool
from homerl.envs.personalhome.sim.tools.lookup import NAMES, find_appliance, find_room_ids

ASKED: Mapping[str, str] = {"complex_query": "query"}  # method of an appliance -> the argument that holds the question
QUOTED = 3  # memories and events that an answer rests on


def ask_assistant(state: HouseholdState, question: str) -> str:
    """The answer to a question, from the memories and events that match it best. What it rests on counts as shown."""
    rows: list[tuple[str, Any, str]] = [
        (f"memory:{at}", one.time, f"{one.memory} {one.additional_information}".strip())
        for at, one in enumerate(state.records.memories)
    ]
    rows += [(f"event:{at}", one.time, one.description) for at, one in enumerate(state.household.context.events)]
    rows.sort(key=lambda row: row[1], reverse=True)  # a rank keeps the order of equals: the latest first
    texts = [text for _, _, text in rows]
    best = [rows[at] for at in state.rank(question, texts)[:QUOTED]]
    state.note_shown(*(id for id, _, _ in best))
    return state.answer(question, [f"{clock_shown(time)} {text}" for _, time, text in best])


APPLIANCE = {"type": "string", "description": "the appliance's name, as get_owned_appliances lists it"}
STATE = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 40,
    "description": "new values by attribute, as get_appliances names them",
}


def get_owned_appliances(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All appliances: name, type and location."""
    state.note_shown(*(f"appliance:{device.did}" for device in state.appliances))
    return [owned_shown(device) for device in state.appliances]


def get_appliances(state: HouseholdState, arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The states of some appliances, by name. Raises `Refused` for an unknown one."""
    found = [find_appliance(state, name) for name in arguments["appliance_names"]]
    return {row["appliance"]: row for row in _read(state, found)}


def get_appliances_by_location(state: HouseholdState, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The appliances of some rooms with their states. Raises `Refused` for an unknown room."""
    wanted = find_room_ids(state, arguments["locations"])
    return _read(state, (device for device in state.appliances if device.room.id in wanted))


def get_appliance_features(state: HouseholdState, arguments: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What some appliances can be told to do, by name. Raises `Refused` for an unknown one."""
    found = [find_appliance(state, name) for name in arguments["appliance_names"]]
    state.note_shown(*(f"features:{device.did}" for device in found))
    language = state.household.language
    return {d.did: [_feature(d, path, one, language) for path, one in d.spec.service_index.items()] for d in found}


def run_appliance_feature(state: HouseholdState, arguments: Mapping[str, Any]) -> Any:
    """Run a feature and return its result. Raises `Refused` for unknown names, wrong arguments or an unfit state."""
    device = find_appliance(state, arguments["appliance_name"])
    method, given = arguments["feature_method"], arguments.get("feature_kwargs", {})
    bind_feature(device, method, given)
    result = json_value(state.home.call(device.did, method, (), given))
    state.note_shown(f"result:{device.did}.{method}")
    return {**result, "answer": ask_assistant(state, given[ASKED[method]])} if method in ASKED else result


def update_appliance(state: HouseholdState, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Set attributes of an appliance and return its row. Raises `Refused`, for example for a measured attribute."""
    device = find_appliance(state, arguments["appliance_name"])
    set_attributes(state, device, arguments["state"])
    return _read(state, [device])[0]


def bind_feature(device: Device, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical arguments of a feature. Raises `Refused` if there is no such feature or they do not fit."""
    service = device.spec.service_index.get(method)
    if service is None:
        raise unknown_name_refusal("unknown_feature", f"feature of {device.did}", method, device.spec.service_index)
    return service.bind_arguments((), given)


def set_attributes(state: HouseholdState, device: Device, wanted: Mapping[str, Any]) -> None:
    """Set attributes of an appliance by path. Raises `Refused` for unknown or measured ones and for unfit values."""
    index = device.spec.attribute_index
    for path, value in wanted.items():
        if path not in index:
            raise unknown_name_refusal("unknown_attribute", f"attribute of {device.did}", path, index)
        offset, attribute = index[path]
        if attribute.read_only or attribute.counts is not None:
            writable = ", ".join(name for name, (_, one) in index.items() if not one.read_only and one.counts is None)
            raise HouseholdRefused("read_only", f"{device.did} measures {path}; what can be set is {writable or 'nothing'}")
        state.home.write_slot(state.home.plan.base[device.did] + offset, attribute.check_value(value, path))


def _read(state: HouseholdState, devices: Iterable[Device]) -> list[dict[str, Any]]:
    rows = []
    for device in devices:
        state.note_shown(f"appliance:{device.did}", f"state:{device.did}")
        rows.append(device_shown(device, state))
    return rows


def _feature(device: Device, path: str, compiled: CompiledService, language: str) -> dict[str, Any]:
    service, known = compiled.service, load_features().get(f"{device.spec.category}.{path}")
    row: dict[str, Any] = {"feature_method": path}
    row |= {"title": getattr(known.title, language, known.title.en)} if known else {}
    row |= {"description": service.description} if service.description else {}
    row["parameters"] = {argument.name: _parameter(argument) for argument in service.arguments}
    return row | ({"requires": " ".join(service.requires.split()).replace("self.", "")} if service.requires else {})


def _parameter(argument: Argument) -> dict[str, Any]:
    row: dict[str, Any] = {"type": argument.describe_type(), "required": argument.required}
    row |= {"default": json_value(argument.default)} if argument.default is not None else {}
    return row | ({"description": argument.description} if argument.description else {})


TOOLS = (
    HouseholdTool(
        "get_owned_appliances",
        "All appliances of the household: name, type and room.",
        {},
        get_owned_appliances,
    ),
    HouseholdTool(
        "get_appliances",
        "The present states of some appliances, by the appliance's name.",
        {"appliance_names": {**NAMES, "description": "names of appliances, as get_owned_appliances lists them"}},
        get_appliances,
        required=("appliance_names",),
    ),
    HouseholdTool(
        "get_appliances_by_location",
        "The appliances of some rooms, with their present states.",
        {"locations": {**NAMES, "description": "names of rooms"}},
        get_appliances_by_location,
        required=("locations",),
    ),
    HouseholdTool(
        "get_appliance_features",
        "What some appliances can be told to do: the features, their parameters and what they require.",
        {"appliance_names": {**NAMES, "description": "names of appliances, as get_owned_appliances lists them"}},
        get_appliance_features,
        required=("appliance_names",),
    ),
    HouseholdTool(
        "run_appliance_feature",
        "Run a feature of an appliance with arguments, and get its result.",
        {
            "appliance_name": APPLIANCE,
            "feature_method": {"type": "string", "description": "the feature, as get_appliance_features names it"},
            "feature_kwargs": {"type": "object", "description": "the feature's arguments by name"},
        },
        run_appliance_feature,
        required=("appliance_name", "feature_method"),
    ),
    HouseholdTool(
        "update_appliance",
        "Set the state of an appliance directly. What the appliance measures cannot be set.",
        {"appliance_name": APPLIANCE, "state": STATE},
        update_appliance,
        required=("appliance_name", "state"),
    ),
)
