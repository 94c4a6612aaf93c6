"""What a tool of PersonalHomeTools is (PersonalHomeBench Table 15).

Invariants: a tool returns plain data (what JSON holds); a refused call raises `Refused` and has changed nothing; arguments
are checked against `parameters` before `run` sees them.

Checks the arguments of a call against the JSON Schemas of its tool.

Invariants: a call that passes has exactly the declared names, the declared types and values within bounds; a refusal names
the rule, the argument and how the tool is called. Texts hold whole characters, and numbers are finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from homerl.envs.homeenv.sim.tools import RULE_OF
from homerl.envs.homeenv.sim.values.types_and_ranges import clip_text
from homerl.envs.personalhome.sim.refusals import HouseholdRefused

if TYPE_CHECKING:
    from homerl.envs.personalhome.sim.household_state import HouseholdState


@dataclass(frozen=True)
class HouseholdTool:
    """A tool. `parameters` are the JSON Schemas of its arguments by name, `required` the names that must be given.

    `run` gets the household's state and the checked arguments, and returns plain data. `in_plans` tells that it is a step of
    a plan only, and no tool of an agent that looks around.
    """

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    run: Callable[[HouseholdState, Mapping[str, Any]], Any]
    required: tuple[str, ...] = ()
    in_plans: bool = False


# The rule for each keyword that arguments may violate, beyond HomeEnv's. Any other keyword means `wrong_type`.
RULES_OF = RULE_OF | dict.fromkeys(
    ("maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "pattern"),
    "out_of_range",
)


def household_tool_schema(tool: HouseholdTool) -> dict[str, Any]:
    """The tool as an OpenAI function schema."""
    parameters = {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in tool.parameters.items()},
        "required": list(tool.required),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def tool_signature(tool: HouseholdTool) -> str:
    """The tool as people write it: `get_member_memories(member_id: string, num_memories: integer)`. `?` marks an option."""
    names = (f"{name}{'' if name in tool.required else '?'}: {_type_of(schema)}" for name, schema in tool.parameters.items())
    return f"{tool.name}({', '.join(names)})"


def _type_of(schema: Mapping[str, Any]) -> str:
    types: str | list[str] = schema["type"]
    return types if isinstance(types, str) else " or ".join(one for one in types if one != "null")


def make_argument_validator(tool: HouseholdTool) -> Any:
    """A validator of the tool's arguments. It takes longer to make than to use."""
    return _Validator(household_tool_schema(tool)["function"]["parameters"])


def check_tool_arguments(tool: HouseholdTool, validator: Any, arguments: Mapping[str, Any]) -> None:
    """Raise `Refused` unless the arguments fit the tool. `validator` is `validator_of(tool)`."""
    if not isinstance(arguments, dict):
        raise HouseholdRefused("wrong_type", f"the arguments are an object; call {tool_signature(tool)}")
    try:
        wrong = next(validator.iter_errors(arguments), None)
    except (
        ValueError,
        TypeError,
        RecursionError,
    ):  # a number or a depth that no message can quote, or a key that is no text
        raise HouseholdRefused("wrong_type", f"an argument is too large, or no JSON; call {tool_signature(tool)}") from None
    if wrong:
        place = "".join(f"{part}: " for part in wrong.absolute_path)
        rule = RULES_OF.get(str(wrong.validator), "wrong_type")
        raise HouseholdRefused(rule, f"{clip_text(place + wrong.message)}; call {tool_signature(tool)}")


def _is_integer(checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: Any, value: Any) -> bool:
    return _is_integer(checker, value) or (isinstance(value, float) and math.isfinite(value))


def _is_string(checker: Any, value: Any) -> bool:
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value))


_Validator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number, "string": _is_string}
    ),
)
