"""Products made from nothing but what an entity shows: its attributes, and the forms of its services.

Invariants: what cannot be made is noted, with the reason; a service whose effect its form does not tell changes nothing,
and is noted too.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from homerl.envs.assistant.listing.capabilities import CAPABILITIES, Typed, apply_entity_limits
from homerl.envs.assistant.listing.home_listing import ListedEntity
from homerl.envs.assistant.listing.service_forms import Forms, applicable_fields
from homerl.envs.assistant.privacy import is_secret_attribute

WRITTEN = frozenset(  # kinds of selectors whose values are texts
    "text select state time date datetime duration entity area device template icon".split()
)
SWITCHED = ("on", "off")  # states of what can only be switched


class ImportNote(NamedTuple):
    """Something of an entity that was not understood: `part` is `attribute fan_speed` or `service turn_on`.

    It is `minor` if nobody would miss it: a value that the entity does not tell now, or a service that only reads.
    """

    entity: str
    part: str
    why: str
    minor: bool = False


def to_identifier(theirs: str) -> str:
    """A name that code can use."""
    name = re.sub(r"\W", "_", theirs, flags=re.ASCII).strip("_") or "x"
    name = f"x_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
    return name if name.isidentifier() else "x"


def generic_state(entity: ListedEntity) -> Typed:
    """The state as an attribute: a number if it has a unit, one of the entity's own options, or a text."""
    state: Typed = {"name": "state", "type": "str"}
    if "unit_of_measurement" in entity.attributes or "state_class" in entity.attributes:
        state |= {"type": "float", "nullable": True}
    return apply_entity_limits(state, "state", entity)


def generic_attributes(entity: ListedEntity, known: frozenset[str], notes: list[ImportNote]) -> Iterator[tuple[str, Typed]]:
    """The attributes that nothing else explains, as (Home Assistant's name, attribute)."""
    for name, value in sorted(entity.attributes.items()):
        if name in known or name in CAPABILITIES or is_secret_attribute(name):
            continue
        typed = _type_of_value(value)
        if typed is None:
            why = "it has no value now, so its type is not known" if value is None else "its value is nested"
            notes.append(ImportNote(entity.entity_id, f"attribute {name}", why, minor=value is None))
        else:
            yield name, {"name": to_identifier(name), **typed, "nullable": True, "read_only": True}


def _type_of_value(value: Any) -> Typed | None:
    if isinstance(value, bool):
        return {"type": "bool"}
    if isinstance(value, (int, float)):
        return {"type": "float"}
    if isinstance(value, str):
        return {"type": "str"}
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return {"type": "list", "items": [{"type": "str"}]}
    if isinstance(value, list) and all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in value):
        return {"type": "list", "items": [{"type": "float"}]}
    return None


def generic_service(
    entity: ListedEntity, full: str, forms: Forms, attributes: Mapping[str, Typed], notes: list[ImportNote]
) -> dict[str, Any] | None:
    """A service by its form. It sets the attributes that its arguments name, and the state if its name says so."""
    domain, _, name = full.partition(".")
    form = forms.get(domain, {}).get(name)
    if form is None:
        notes.append(ImportNote(entity.entity_id, f"service {full}", "Home Assistant does not list its fields"))
        return None
    arguments: list[Typed] = []
    for field, said in applicable_fields(form, entity.attributes):
        typed = _type_of_selector(said.get("selector") or {})
        if typed is None:
            (kind,) = [*(said.get("selector") or {}), "?"][:1]
            why = f"its field {field} is of the kind '{kind}', which cannot be simulated"
            notes.append(ImportNote(entity.entity_id, f"service {full}", why))
            if said.get("required"):
                return None
            continue
        made = {"name": to_identifier(field), **apply_entity_limits(typed, field, entity)}
        arguments.append(made if said.get("required") else made | {"required": False})
    code = list(_write_code(name, arguments, attributes))
    if not code:
        reads = not (form.get("response") or {}).get("optional", True)  # what must answer
        why = "what it changes is not known, so here it changes nothing"
        notes.append(ImportNote(entity.entity_id, f"service {full}", why, minor=reads or domain == "script"))
    made = {
        "name": to_identifier(name),
        "description": form.get("description") or name.replace("_", " ").capitalize(),
        "code": "\n".join(code),
    }
    return made | ({"arguments": arguments} if arguments else {})


def _write_code(name: str, arguments: list[Typed], attributes: Mapping[str, Typed]) -> Iterator[str]:
    state = attributes.get("state", {})
    switched = state.get("type") == "str" and set(SWITCHED) <= set(state.get("options", SWITCHED))
    if name in ("turn_on", "turn_off") and switched:
        yield f'self.state = "{name[5:]}"'
    if name == "toggle" and switched:
        yield 'self.state = "off" if self.state == "on" else "on"'
    for argument in arguments:
        target = argument["name"]
        if name in ("set_value", "select_option") and target in ("value", "option"):
            target = "state"
        if "derived" in attributes.get(target, {}):
            continue
        if (target in attributes and target != "state") or (target == "state" and state.get("type") == argument["type"]):
            given, was = argument["name"], f"self.{target}"
            yield f"{was} = {given}" if argument.get("required", True) else f"{was} = {given} if {given} != None else {was}"


def _type_of_selector(selector: Mapping[str, Any]) -> Typed | None:
    """The type of what a selector lets people choose; None for what is no plain value."""
    kind, said = next(iter(selector.items()), ("text", None))
    said = said or {}
    if kind == "number":
        low, high, step = said.get("min"), said.get("max"), said.get("step", 1)
        whole = isinstance(step, (int, float)) and step % 1 == 0
        whole = whole and not any(isinstance(bound, float) and bound % 1 for bound in (low, high))
        typed: Typed = {"type": "int" if whole else "float"}
        return typed | ({"range": [low, high]} if low is not None and high is not None and low < high else {})
    if kind == "boolean":
        return {"type": "bool"}
    if kind == "select" and said.get("options") and not said.get("custom_value"):
        options = [option["value"] if isinstance(option, dict) else option for option in said["options"]]
        return _type_of_several(said, {"type": "str", "options": list(map(str, options))})
    if kind == "color_rgb":
        return {"type": "tuple", "items": [{"type": "int", "range": [0, 255]}] * 3}
    if kind == "color_temp":
        return {"type": "int", "unit": "kelvin"}
    if kind in WRITTEN:
        return _type_of_several(said, {"type": "str"})
    return None


def _type_of_several(said: Mapping[str, Any], one: Typed) -> Typed:
    return {"type": "list", "items": [one]} if said.get("multiple") else one
