"""The tools that look at a household, and run its appliances: who lives there, what it remembers, its devices, the last day.

Some features take a question in words, such as the speaker's `complex_query`. The answer is quoted from what the household
remembers, so that it is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from homerl.envs.homeenv.sim.devices.attributes_and_services import Argument
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.appliance_catalogue import load_features
from homerl.envs.personalhome.sim.bm25_search import rank_by_bm25
from homerl.envs.personalhome.sim.household import Memory
from homerl.envs.personalhome.sim.household_state import DeviceKind, HouseholdState, Note, device_kind
from homerl.envs.personalhome.sim.household_view import (
    clock_shown,
    device_shown,
    event_shown,
    json_value,
    life_shown,
    member_shown,
    memory_shown,
    owned_shown,
    profile_shown,
    weather_shown,
)
from homerl.envs.personalhome.sim.tools.contract import (
    NAMES,
    Arguments,
    HouseholdRefused,
    HouseholdTool,
    add_tool,
    check_attribute,
    find_device,
    find_member,
    find_room_ids,
    unknown_name_refusal,
)

TOOLS: list[HouseholdTool] = []
MEMBER = {"type": "string", "description": "the member's id, from the household's profile"}
SEARCH = {
    "search_string": {"type": "string", "maxLength": 2000, "description": "what to look for, in a few words"},
    "num_memories": {"type": "integer", "minimum": 1, "maximum": 50, "description": "how many memories at most"},
}


@add_tool(
    TOOLS, "The household at a glance: size, kind of household, layout, pets, the ids of its members and the time now."
)
def get_household_profile(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """The household at a glance, with the ids of its members and the present time."""
    state.note_shown("profile", *(f"pet:{pet.name}" for pet in state.records.pets))
    return profile_shown(state)


@add_tool(
    TOOLS,
    "The profiles of some members: name, role, age, occupation, persona, hobbies, lifestyle and preferences.",
    {"member_ids": {**NAMES, "description": "ids of members, from the household's profile"}},
)
def get_household_member_info(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The profiles of some members, in the order asked. Raises `Refused` for an unknown member."""
    members = [find_member(state, member_id) for member_id in dict.fromkeys(arguments["member_ids"])]
    state.note_shown(*(f"member:{one.member_id}" for one in members))
    return [member_shown(one, state) for one in members]


@add_tool(TOOLS, "The major events in the life of one member, with their dates.", {"member_id": MEMBER})
def get_household_member_major_events(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """The major events of one member's life. Raises `Refused` for an unknown member."""
    one = find_member(state, arguments["member_id"])
    state.note_shown(f"life:{one.member_id}")
    return life_shown(one)


@add_tool(
    TOOLS, "Search the memories of the whole household. Returns those that match the words best, with their time.", SEARCH
)
def get_household_memories(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The memories of everybody that match best. An empty search gives the latest ones."""
    return _search_memories(state, arguments, lambda memory: True)


@add_tool(
    TOOLS,
    "Search the memories about one member. Returns those that match the words best, with their time.",
    {"member_id": MEMBER, **SEARCH},
)
def get_member_memories(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The memories about one member that match best. Raises `Refused` for an unknown member."""
    about = find_member(state, arguments["member_id"]).member_id
    names = {about, *(one.name for one in (*state.household.members, *state.records.members) if one.member_id == about)}
    return _search_memories(state, arguments, lambda memory: not names.isdisjoint(memory.subjects))


def _search_memories(
    state: HouseholdState, arguments: Arguments, wanted: Callable[[Memory | Note], bool]
) -> list[dict[str, Any]]:
    memories = state.records.memories
    indices = [at for at, memory in enumerate(memories) if wanted(memory)]
    indices.sort(key=lambda at: memories[at].time, reverse=True)  # a rank keeps the order of equals: the latest first
    query, most = arguments["search_string"], arguments["num_memories"]
    if query.strip():
        texts = [f"{memories[at].memory} {memories[at].additional_information}" for at in indices]
        indices = [indices[place] for place in rank_by_bm25(query, texts)]
    state.note_shown(*(f"memory:{at}" for at in indices[:most]))
    return [memory_shown(memories[at]) for at in indices[:most]]


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


def listing_tools(kind: DeviceKind, names: str, named: str, rooms: str, placed: str) -> tuple[HouseholdTool, ...]:
    """The tools that list appliances or sensors: what is owned, and the values by name (`names`) and by room (`rooms`).

    `named` and `placed` are the descriptions of the last two.
    """
    owned = f"get_owned_{kind}s"

    def list_owned(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
        devices = state.devices_of_kind(kind)
        state.note_shown(*(f"{kind}:{device.did}" for device in devices))
        return [owned_shown(device) for device in devices]

    def read_by_name(state: HouseholdState, arguments: Arguments) -> dict[str, dict[str, Any]]:
        found = [find_device(state, kind, name) for name in arguments[f"{kind}_names"]]
        return {row[kind]: row for row in _read_devices(state, found)}

    def read_by_room(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
        wanted = find_room_ids(state, arguments["locations"])
        return _read_devices(state, (device for device in state.devices_of_kind(kind) if device.room.id in wanted))

    of_names = {f"{kind}_names": {**NAMES, "description": f"names of {kind}s, as {owned} lists them"}}
    return (
        HouseholdTool(owned, f"All {kind}s of the household: name, type and room.", {}, list_owned),
        HouseholdTool(names, named, of_names, read_by_name, (*of_names,)),
        HouseholdTool(rooms, placed, ROOMS, read_by_room, (*ROOMS,)),
    )


TOOLS += listing_tools(
    "appliance",
    "get_appliances",
    "The present states of some appliances, by the appliance's name.",
    "get_appliances_by_location",
    "The appliances of some rooms, with their present states.",
)


@add_tool(TOOLS, "What some appliances can be told to do: the features, their parameters and what they require.", APPLIANCES)
def get_appliance_features(state: HouseholdState, arguments: Arguments) -> dict[str, list[dict[str, Any]]]:
    """What some appliances can be told to do, by name. Raises `Refused` for an unknown one."""
    found = [find_device(state, "appliance", name) for name in arguments["appliance_names"]]
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
    device = find_device(state, "appliance", arguments["appliance_name"])
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
    device = find_device(state, "appliance", arguments["appliance_name"])
    index = device.spec.attribute_index
    for path, value in arguments["state"].items():
        check_attribute(device, path)
        offset, attribute = index[path]
        if attribute.read_only or attribute.counts is not None:
            writable = ", ".join(name for name, (_, one) in index.items() if not one.read_only and one.counts is None)
            raise HouseholdRefused("read_only", f"{device.did} measures {path}; what can be set is {writable or 'nothing'}")
        state.home.write_slot(state.home.plan.base[device.did] + offset, attribute.check_value(value, path))
    return _read_devices(state, [device])[0]


TOOLS += listing_tools(
    "sensor",
    "get_sensors",
    "What some sensors read now, by the sensor's name.",
    "get_sensors_by_location",
    "The sensors of some rooms, and what they read now.",
)


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
    best = [rows[at] for at in rank_by_bm25(question, [text for _, _, text in rows])[:QUOTED]]
    state.note_shown(*(id for id, _, _ in best))
    return "\n".join(f"{clock_shown(time)} {text}" for _, time, text in best)


def _read_devices(state: HouseholdState, devices: Iterable[Device]) -> list[dict[str, Any]]:
    rows = []
    for device in devices:
        state.note_shown(f"{device_kind(device)}:{device.did}", f"state:{device.did}")
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


FORM: dict[str, dict[str, Any]] = {
    "compact": {"type": "boolean", "description": "one line for each event, without its devices (default false)"},
    "sort_by_time": {"type": "boolean", "description": "the earliest first (default false)"},
    "indent": {"type": "string", "maxLength": 8, "description": "what lines begin with (default two spaces)"},
}


@add_tool(
    TOOLS,
    "The weather now. Outdoors: rain, snow, the share of sunshine from 0 to 1, temperature and wind. "
    "Indoors: dust (PM2.5), humidity, odour from 0 to 5, and temperature.",
)
def get_weather(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """The weather now, outside and inside."""
    state.note_shown("weather")
    return weather_shown(state)


@add_tool(TOOLS, "What appliances and sensors did or noticed in the last day, in the order of time.")
def get_appliance_and_sensor_events(state: HouseholdState, arguments: Arguments) -> list[dict[str, Any]]:
    """The events that concern a device, in the order of time."""
    events = [(at, event) for at, event in enumerate(state.household.context.events) if event.sensors or event.appliances]
    state.note_shown(*(f"event:{at}" for at, _ in events))
    return [event_shown(event) for _, event in sorted(events, key=lambda pair: pair[1].time)]


@add_tool(
    TOOLS, "What happened in the last day, in words with times. The latest comes first unless sorted by time.", FORM, [*FORM]
)
def get_contextual_event_descriptions(state: HouseholdState, arguments: Arguments) -> str:
    """All events in words: the latest first, or in the order of time; a line each, or with the devices below it."""
    events, indent = state.household.context.events, arguments.get("indent", "  ")
    state.note_shown(*(f"event:{at}" for at in range(len(events))))
    lines = []
    for event in sorted(events, key=lambda event: event.time, reverse=not arguments.get("sort_by_time", False)):
        if arguments.get("compact", False):
            lines.append(f"{clock_shown(event.time)} {event.description}")
        else:
            lines += [clock_shown(event.time), f"{indent}{event.description}"]
            devices = (("appliances", event.appliances), ("sensors", event.sensors))
            lines += [f"{indent}{kind}: {', '.join(names)}" for kind, names in devices if names]
    return "\n".join(lines)
