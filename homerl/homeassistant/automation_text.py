"""The text of an automation: which keys of which part are read, and which change nothing.

A text is kept as far as it is read, or tells on what the automation acts. Of every other key only its name is kept, so that
whoever reads the text sees that there is more to it. A part that its owner disabled is left out, and so are the codes in it.

Invariants: what is kept of what was kept is the same; no template and no address with a password or a query is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from homerl.homeassistant.forms import Forms, every_field
from homerl.homeassistant.listing import ENTITY

HIDDEN = "(left out)"  # stands for what is not read
PRIVATE = re.compile(r"\{[{%]|://\S*[?@]")  # a template, which may hold anything; an address with a password or a query
NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)?")

IDLE = frozenset("id alias description metadata".split())  # keys of any part that change nothing
IDLE_OF_ALL = (IDLE | frozenset("mode max max_exceeded initial_state trace".split())) - {"alias"}  # of an automation
TRIGGERS = {  # by kind of trigger, the keys that are read
    "time": ("at", "weekday"),
    "state": ("entity_id", "to", "for"),
    "numeric_state": ("entity_id", "above", "below", "attribute", "for"),
}
CONDITIONS = {"state": ("entity_id", "state"), "numeric_state": ("entity_id", "above", "below", "attribute")}
JOINING = ("and", "or", "not")  # kinds of conditions that are made of others

ACTIONS = ("then", "else", "default", "sequence", "parallel")  # keys under which an action holds others
BRANCHES = ("choose", "repeat")  # and those under which it holds parts with a sequence of others
NESTING = (*ACTIONS, *BRANCHES)

NESTED = "triggers"  # the key under which a trigger holds others

Keep = Callable[[Any], Any]


def readable(text: Any, forms: Forms, codes: Collection[str], sealed: Collection[str] = ()) -> Any:
    """The text of an automation as far as it is read. Arguments of services named in `codes` are left out.

    Nobody reads what is written into entities of the `sealed` domains, some of which are passwords.
    """

    def action(one: Any) -> Any:
        return _action(one, forms, codes, sealed)

    known: dict[str, Keep] = {"alias": _value}
    for key, keep in (("trigger", _trigger), ("condition", _condition), ("action", action)):
        known[key] = known[f"{key}s"] = _each(keep)
    return _part(text, known, IDLE_OF_ALL)


def hidden_key(part: Any, key: str = "") -> str | None:
    """The key under which something of a part was left out; None if the part is whole."""
    if part == HIDDEN:
        return key
    parts = part.items() if isinstance(part, Mapping) else [(key, one) for one in part] if isinstance(part, list) else ()
    return next((found for name, one in parts if (found := hidden_key(one, name)) is not None), None)


def _part(text: Any, known: Mapping[str, Keep], idle: Collection[str] = IDLE) -> Any:
    """A part with its known keys. What is null, and `enabled: true`, says nothing."""
    if not isinstance(text, Mapping):
        return HIDDEN
    said = {key: value for key, value in text.items() if value is not None and key not in idle}
    if said.get("enabled") is True:
        del said["enabled"]
    return {key: known[key](value) if key in known else HIDDEN for key, value in said.items()}


def _each(keep: Keep) -> Keep:
    """Keeps the enabled ones of several parts, of which a single one needs no list."""

    def kept(parts: Any) -> Any:
        listed = parts if isinstance(parts, list) else [parts]
        return [keep(part) for part in listed if not (isinstance(part, Mapping) and part.get("enabled") is False)]

    return kept


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return HIDDEN if PRIVATE.search(value) else value
    if isinstance(value, Mapping):
        return {key: _value(one) for key, one in value.items()}
    return [_value(one) for one in value] if isinstance(value, list) else value


def _ids(value: Any) -> Any:
    """Ids of entities as Home Assistant reads them: in small letters, and several with commas between them in one text."""
    kept = _value(value)
    if isinstance(kept, list):
        return [_ids(one) for one in kept]
    if not isinstance(kept, str) or kept == HIDDEN:
        return kept
    first, *others = (one.strip().lower() for one in kept.split(","))
    return [first, *others] if others else first


def _entities(value: Any) -> Any:
    """Ids of entities alone, where another text may stand: a device trigger may have an id of the registry."""
    kept = _ids(value)
    listed = kept if isinstance(kept, list) else [kept]
    return kept if all(isinstance(one, str) and ENTITY.fullmatch(one) for one in listed) else HIDDEN


def _name(value: Any) -> Any:
    return value if isinstance(value, str) and NAME.fullmatch(value) else HIDDEN


def _kind(text: Any, *keys: str) -> str:
    """The kind of a part, under the first of several keys that is there."""
    found = next((text[key] for key in keys if text.get(key)), "") if isinstance(text, Mapping) else ""
    return found if isinstance(found, str) else ""


def _trigger(text: Any) -> Any:
    """A trigger, or a list of others within it.

    One of a kind that is not read keeps the entities that it names: what it waits for is not known, but of whom is.
    """
    read = TRIGGERS.get(_kind(text, "trigger", "platform"))
    named = {"target": _target, "entity_id": _entities, NESTED: _each(_trigger)} if read is None else _keys(read)
    return _part(text, {"trigger": _name, "platform": _name, **named})


def _condition(text: Any) -> Any:
    kind = _kind(text, "condition")
    if not kind and isinstance(text, Mapping) and (short := next((one for one in JOINING if one in text), None)):
        kind, text = short, {"condition": short, "conditions": text[short], **{k: v for k, v in text.items() if k != short}}
    if kind in JOINING:
        return _part(text, {"condition": _name, "conditions": _each(_condition)})
    return _part(text, {"condition": _name, **_keys(CONDITIONS.get(kind, ()))})


def _keys(read: Collection[str]) -> dict[str, Keep]:
    """What is kept under the keys of a trigger or a condition."""
    return {key: _ids if key == "entity_id" else _value for key in read}


def _action(text: Any, forms: Forms, codes: Collection[str], sealed: Collection[str]) -> Any:
    domain, _, service = _kind(text, "action", "service").partition(".")
    fields = [name for name, _ in every_field(forms.get(domain, {}).get(service, {})) if domain not in sealed]

    def data(told: Any) -> Any:
        return _part(told, dict.fromkeys(fields, _value) | {"entity_id": _ids}, codes)

    nested = _each(lambda one: _action(one, forms, codes, sealed))
    known: dict[str, Keep] = {"action": _name, "service": _name, "entity_id": _ids, "target": _target, "data": data}
    known["scene"] = _ids  # short for a call of `scene.turn_on`
    known |= dict.fromkeys(ACTIONS, nested)
    known |= dict.fromkeys(BRANCHES, _each(lambda one: _part(one, {"sequence": nested})))
    return _part(text, known | {"domain": _name})


def _target(told: Any) -> Any:
    return _part(told, {"entity_id": _ids})
