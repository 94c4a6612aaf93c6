"""What a tool of PersonalHomeTools is (PersonalHomeBench Table 15), how arguments are checked and calls refused.

Invariants:
- A tool returns plain data (what JSON holds). A refused call raises `Refused` and has changed nothing.
- `run` sees only arguments that fit `parameters`: exactly the declared names, the declared types, values within bounds,
  texts of whole characters, and finite numbers.
- A refusal names a rule of `RULES`, the argument and how the tool is called. That of an unknown name lists the known ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.toolset import RULE_OF
from homerl.envs.homeenv.sim.values import auditor as audit
from homerl.envs.homeenv.sim.values.types_and_ranges import clip_text, quote_value
from homerl.envs.personalhome.sim.household import Member
from homerl.envs.personalhome.sim.household_state import DeviceKind, HouseholdState

RULES: dict[str, str] = audit.RULES | {
    "unknown_household": "the call is about another household",
    "unknown_member": "no member of the household has this id",
    "unknown_pet": "no pet of the household has this name",
    "unknown_appliance": "the household owns no appliance of this name",
    "unknown_sensor": "the household owns no sensor of this name",
    "unknown_location": "no room of the home has this name, or the device is in another room",
    "unknown_feature": "the appliance has no such feature",
}


class HouseholdRefused(audit.Refused):
    """The refusal of a tool's call. `rule` is a key of `RULES`."""

    rules = RULES


def unknown_name_refusal(rule: str, what: str, given: str, known: Iterable[str]) -> HouseholdRefused:
    """The refusal of an unknown name: it quotes the name and lists the known ones."""
    there_is = clip_text(", ".join(known), 600) or "none"
    return HouseholdRefused(rule, f"there is no {what} {quote_value(given)} (there is {there_is})")


Arguments = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])
TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 2000}
NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 60}

# The rule for each keyword that arguments may violate, beyond HomeEnv's. Any other keyword means `wrong_type`.
RULES_OF = RULE_OF | dict.fromkeys(
    ("maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "pattern"),
    "out_of_range",
)


def _is_json_integer(checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_json_number(checker: Any, value: Any) -> bool:
    return _is_json_integer(checker, value) or (isinstance(value, float) and math.isfinite(value))


def _is_json_string(checker: Any, value: Any) -> bool:
    # Half of a surrogate pair is a Python character, but no file can hold it.
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value))


_ArgumentValidator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_json_integer, "number": _is_json_number, "string": _is_json_string}
    ),
)


@dataclass(frozen=True)
class HouseholdTool:
    """A tool. `parameters` are the JSON Schemas of its arguments by name, `required` the names that must be given.

    `run` gets the household's state and the checked arguments, and returns plain data. `in_plans` tells that it is a step of
    a plan only, and no tool of an agent that looks around.
    """

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    run: Callable[[HouseholdState, Arguments], Any]
    required: tuple[str, ...] = ()
    in_plans: bool = False

    @cached_property
    def argument_validator(self) -> Any:
        """A validator of the arguments. It takes longer to make than to use."""
        return _ArgumentValidator(household_tool_schema(self)["function"]["parameters"])


def add_tool(
    tools: list[HouseholdTool],
    description: str,
    parameters: Mapping[str, Mapping[str, Any]] = {},
    optional: Sequence[str] = (),
    in_plans: bool = False,
) -> Callable[[Function], Function]:
    """Add the decorated function to `tools` as a tool of its name. It needs all parameters that are not `optional`.

    Example:
        @add_tool(TOOLS, "The present states of some appliances.", {"appliance_names": NAMES})
        def get_appliances(state: HouseholdState, arguments: Arguments) -> dict[str, Any]: ...
    """

    def add(run: Function) -> Function:
        required = tuple(name for name in parameters if name not in optional)
        tools.append(HouseholdTool(run.__name__, description, parameters, run, required, in_plans))
        return run

    return add


def household_tool_schema(tool: HouseholdTool) -> dict[str, Any]:
    """The tool as an OpenAI function schema."""
    parameters = {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in tool.parameters.items()},
        "required": list(tool.required),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": parameters}}


def tool_signature(tool: HouseholdTool) -> str:
    """The tool as people write it: `get_member_memories(member_id: string, num_memories: integer)`. `?` marks an option."""
    names = []
    for name, schema in tool.parameters.items():
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        names.append(f"{name}{'' if name in tool.required else '?'}: {' or '.join(one for one in types if one != 'null')}")
    return f"{tool.name}({', '.join(names)})"


def check_tool_arguments(tool: HouseholdTool, arguments: Arguments) -> None:
    """Raise `Refused` unless the arguments fit the tool."""
    if not isinstance(arguments, dict):
        raise HouseholdRefused("wrong_type", f"the arguments are an object; call {tool_signature(tool)}")
    try:
        wrong = next(tool.argument_validator.iter_errors(arguments), None)
    # A number or a depth that no message can quote, or a key that is no text.
    except (ValueError, TypeError, RecursionError):
        raise HouseholdRefused("wrong_type", f"an argument is too large, or no JSON; call {tool_signature(tool)}") from None
    if wrong:
        place = "".join(f"{part}: " for part in wrong.absolute_path)
        rule = RULES_OF.get(str(wrong.validator), "wrong_type")
        raise HouseholdRefused(rule, f"{clip_text(place + wrong.message)}; call {tool_signature(tool)}")


# What arguments name


def find_member(state: HouseholdState, member_id: str) -> Member:
    """A member as the records have it now. Raises `Refused`."""
    members = {one.member_id: one for one in state.records.members}
    if member_id not in members:
        raise unknown_name_refusal("unknown_member", "member", member_id, members)
    return members[member_id]


def find_device(state: HouseholdState, kind: DeviceKind, name: str) -> Device:
    """An appliance or a sensor by name. Raises `Refused`."""
    known = {device.did: device for device in state.devices_of_kind(kind)}
    if name not in known:
        raise unknown_name_refusal(f"unknown_{kind}", kind, name, known)
    return known[name]


def check_attribute(device: Device, path: str) -> None:
    """Raise `Refused` unless the device has the attribute."""
    index = device.spec.attribute_index
    if path not in index:
        raise unknown_name_refusal("unknown_attribute", f"attribute of {device.did}", path, index)


def find_room_ids(state: HouseholdState, locations: Sequence[str]) -> set[str]:
    """The ids of the rooms that are called so, by name or id, in any case. Raises `Refused` if there is none."""
    rooms, found = state.home.plan.rooms, set[str]()
    for location in locations:
        wanted = location.strip().casefold()
        ids = {room.id for room in rooms if wanted in (room.name.casefold(), room.id.casefold())}
        if not ids:
            names = dict.fromkeys(room.name for room in rooms)
            raise unknown_name_refusal("unknown_location", "room", location, names)
        found |= ids
    return found


def require_room(state: HouseholdState, device: Device, location: str) -> None:
    """Raise `Refused` unless the device is in the room that is called so."""
    if device.room.id not in find_room_ids(state, [location]):
        raise HouseholdRefused("unknown_location", f"{device.did} is in {device.room.name}, not in {location}")
