"""The tools that are steps of plans only: they write down what changed, and make routines.

What was written about members, pets, memories and sensors stands in the state's records; the household itself never changes.
Appliances are set as `update_appliance` sets them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, get_args

from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value
from homerl.envs.personalhome.sim.household import Animal, Gender, Memory, same_day_in_year
from homerl.envs.personalhome.sim.household_state import HouseholdState, Note, Routine
from homerl.envs.personalhome.sim.household_view import device_shown, member_shown, pet_shown
from homerl.envs.personalhome.sim.tools.contract import (
    TEXT,
    Arguments,
    HouseholdRefused,
    HouseholdTool,
    add_tool,
    check_attribute,
    find_device,
    find_member,
    require_room,
    unknown_name_refusal,
)
from homerl.envs.personalhome.sim.tools.household_tools import (
    APPLIANCE,
    FEATURE,
    FEATURE_ARGUMENTS,
    STATE,
    bind_feature,
    update_appliance,
)

TOOLS: list[HouseholdTool] = []
add_step = partial(add_tool, TOOLS, in_plans=True)

HOUSEHOLD = {"type": "string", "description": "the household's id, from its profile"}
LOCATION = {"type": "string", "description": "the name of the room that it is in"}
AGE = {"type": "integer", "minimum": 0, "maximum": 120}
LINES = {"type": "array", "items": TEXT, "maxItems": 20}


def _object_schema(properties: Arguments, *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": [*required], "additionalProperties": False}


USER = _object_schema(
    {
        "member_id": {"type": "string"},
        **dict.fromkeys(("name", "role", "occupation", "persona", "lifestyle", "preference"), TEXT),
        "age": AGE,
        "gender": {"type": "string", "enum": [*get_args(Gender)]},
        "hobbies": LINES,
    },
    "member_id",
)
PET = _object_schema({"name": TEXT, "animal": {"type": "string", "enum": [*get_args(Animal)]}, "age": AGE}, "name")
MEMORY = _object_schema(
    {"memory": TEXT, "subjects": LINES, "additional_information": TEXT, "time": TEXT}, "memory", "subjects"
)
FUNCTION = _object_schema({"appliance": APPLIANCE, "feature": FEATURE, "args": FEATURE_ARGUMENTS}, "appliance", "feature")


@add_step(
    "Rewrite what is known of a member, such as age or occupation. Only the given fields change.",
    {"user": {**USER, "description": "the member's id and the fields that change"}},
)
def update_user_information(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """Rewrite what is known of a member, and return the profile. Raises `Refused` for an unknown member."""
    given = dict(arguments["user"])
    old, today = find_member(state, given.pop("member_id")), state.now.date()
    if "age" in given:  # the birthday keeps its day of the year
        not_yet = (today.month, today.day) < (old.birthday.month, old.birthday.day)
        given["birthday"] = same_day_in_year(old.birthday, today.year - given.pop("age") - not_yet)
    if "hobbies" in given:
        given["hobbies"] = tuple(given["hobbies"])
    new = old.model_copy(update=given)
    members = tuple(new if one is old else one for one in state.records.members)
    state.records = replace(state.records, members=members)
    state.note_shown(f"member:{new.member_id}")
    return member_shown(new, state)


@add_step(
    "Write memories of the household down. One of the same time and subjects as a known one takes its place.",
    {"household_id": HOUSEHOLD, "memories": {"type": "array", "items": MEMORY, "minItems": 1, "maxItems": 10}},
)
def update_memories(state: HouseholdState, arguments: Arguments) -> None:
    """Write memories down. One of the same time and subjects as a known one takes its place.

    Raises `Refused` for an unknown household, an unknown subject, or a time that cannot be read.
    """
    _require_household(state, arguments["household_id"])
    memories: list[Memory | Note] = [*state.records.memories]
    for given in arguments["memories"]:
        note = _read_note(state, given)
        same = [at for at, one in enumerate(memories) if (one.time, one.subjects) == (note.time, note.subjects)]
        if same:
            memories[same[0]] = note
        else:
            memories.append(note)
    state.records = replace(state.records, memories=tuple(memories))


@add_step(
    "Write down what a sensor reads. This changes the record, and nothing in the home.",
    {
        "sensor_name": {"type": "string", "description": "the sensor's name, as get_owned_sensors lists it"},
        "sensor_location": LOCATION,
        "status": {**STATE, "description": "readings by attribute, as get_sensors names them"},
    },
)
def update_sensor_status(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """Write down what a sensor reads, and return its row. Raises `Refused` for unknown names and unfit values."""
    device = find_device(state, "sensor", arguments["sensor_name"])
    require_room(state, device, arguments["sensor_location"])
    index, written = device.spec.attribute_index, dict(state.records.statuses)
    for path, value in arguments["status"].items():
        check_attribute(device, path)
        written[f"{device.did}.{path}"] = index[path][1].check_value(value, path)
    state.records = replace(state.records, statuses=written)
    state.note_shown(f"sensor:{device.did}", f"state:{device.did}")
    return device_shown(device, state)


@add_step(
    "Set the state of an appliance in a room directly. What the appliance measures cannot be set.",
    {"appliance_name": APPLIANCE, "appliance_location": LOCATION, "status": STATE},
)
def update_appliance_status(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """Set attributes of an appliance and return its row. Raises `Refused` as `update_appliance`, or if it is elsewhere."""
    device = find_device(state, "appliance", arguments["appliance_name"])
    require_room(state, device, arguments["appliance_location"])
    return update_appliance(state, {"appliance_name": device.did, "state": arguments["status"]})


@add_step(
    "Rewrite what is known of a pet. Only the given fields change.",
    {"pet": {**PET, "description": "the pet's name and the fields that change"}, "household_id": HOUSEHOLD},
)
def update_pet_information(state: HouseholdState, arguments: Arguments) -> dict[str, Any]:
    """Rewrite what is known of a pet, and return it. Raises `Refused` for an unknown pet or household."""
    _require_household(state, arguments["household_id"])
    given, pets = arguments["pet"], state.records.pets
    if given["name"] not in [pet.name for pet in pets]:
        raise unknown_name_refusal("unknown_pet", "pet", given["name"], (pet.name for pet in pets))
    pets = tuple(pet.model_copy(update=given) if pet.name == given["name"] else pet for pet in pets)
    state.records = replace(state.records, pets=pets)
    state.note_shown(f"pet:{given['name']}")
    return next(pet_shown(pet, state) for pet in pets if pet.name == given["name"])


@add_step(
    "Chain features of appliances into a routine, in order. Returns the routine's name.",
    {"functions": {"type": "array", "items": FUNCTION, "minItems": 1, "maxItems": 10}},
)
def create_routine(state: HouseholdState, arguments: Arguments) -> str:
    """Chain features into a routine, without running them, and return its name.

    Raises `Refused` if a feature does not exist or its arguments do not fit.
    """
    functions = []
    for given in arguments["functions"]:
        device, values = find_device(state, "appliance", given["appliance"]), given.get("args", {})
        bind_feature(device, given["feature"], values)
        functions.append((device.did, given["feature"], json.dumps(values, ensure_ascii=False, sort_keys=True)))
    routine = Routine(f"routine_{len(state.records.routines) + 1}", tuple(functions))
    state.records = replace(state.records, routines=(*state.records.routines, routine))
    return routine.name


def _require_household(state: HouseholdState, household_id: str) -> None:
    if household_id != state.household.household_id:
        raise unknown_name_refusal("unknown_household", "household", household_id, [state.household.household_id])


def _read_note(state: HouseholdState, given: Arguments) -> Note:
    """The memory that is to be written; without a time, of now. Raises `Refused`."""
    known: list[str] = [name for one in state.records.members for name in (one.member_id, one.name)]
    known += [pet.name for pet in state.records.pets]
    for subject in given["subjects"]:
        if subject not in known:
            raise unknown_name_refusal("unknown_member", "member or pet", subject, known)
    try:
        time = datetime.fromisoformat(given["time"]).replace(tzinfo=None) if "time" in given else state.now
    except ValueError:
        said = f"{quote_value(given['time'])} is no time; write it like {state.now.isoformat()}"
        raise HouseholdRefused("wrong_type", said) from None
    return Note(given["memory"], tuple(given["subjects"]), given.get("additional_information", ""), time)
