"""Automations of a Home Assistant as automations of the home; scripts and scenes are devices that the home can call.

Read are triggers by state, by number and by time, conditions by state and by number, and actions that call services of
entities. Their keys are those of `automation_text.py`.

An automation that is not exposed itself is kept in the home's origin, for those who guard the real home. So is, of one that
is not taken, whose change makes it act and on what.

What must hold when an automation acts is no part of what makes it act: where it becomes true later, nothing happens.

Invariants: an automation is taken as a whole or not at all, so a key that is not read in any of its parts makes the whole
unreadable; for each automation that is not taken, a note says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from envs.homeenv.automation import recorded_rule
from envs.homeenv.home import Home
from envs.homeenv.plan.origin import AVAILABLE, Hidden, Unfollowed
from envs.homeenv.values.audit import Refused
from envs.homeenv.values.types import NUMBERS, ValueType
from homerl.homeassistant.automation_text import HIDDEN, NESTED, NESTING, hidden_key, readable
from homerl.homeassistant.client import Client
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.generic import Note
from homerl.homeassistant.listing import AUTOMATIONS, ENTITY, FORMS, STATES, Listing
from homerl.homeassistant.privacy import CODES, PEOPLE, is_password
from homerl.homeassistant.times import seconds
from homerl.homeassistant.translation import domain_of, from_homeassistant, link_of

CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
STATED = re.compile(r"input_(boolean|datetime|number|select|text)\..+")  # a helper whose state is the one that is meant
ANY = "*"  # any state, where a trigger names it
HOME = "home"  # the only place of a person that an import keeps
TEXTS = ("str", "enum")  # types of states that are here what they are there
DURATION = "second"  # the unit of what may be a text there, such as `0:05:00`
UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
WEEK = {day: number for number, day in enumerate("sun mon tue wed thu fri sat".split(), 1)}


class Unread(Exception):
    """A part of an automation that has no counterpart here."""


async def with_automations(client: Client, listing: Listing) -> Listing:
    """The listing with the texts of its automations, as far as the token may read them."""
    texts: dict[str, Any] = {}
    for entity in sorted(state["entity_id"] for state in listing.sources[STATES]):
        if entity.startswith("automation."):
            try:
                texts[entity] = (await client.call(AUTOMATIONS, entity_id=entity)).get("config")
            except HomeAssistantError as error:
                if error.code is None:
                    raise
                texts[entity] = None
    return listing.model_copy(update={"sources": listing.sources | {AUTOMATIONS: texts}})


def add_automations(home: Home, listing: Listing) -> list[Note]:
    """Give the home the automations that can be read, and its origin what is not exposed. Returns what cannot be read."""
    notes: list[Note] = []
    hidden: list[Hidden] = []
    unfollowed: list[Unfollowed] = []
    states = {row["entity_id"]: row["state"] for row in listing.sources[STATES]}
    for entity, text in sorted(listing.sources[AUTOMATIONS].items()):
        if text is None:
            notes.append(Note(entity, "automation", "its text could not be read: give an administrator's token"))
            continue
        kept = readable(text, listing.sources[FORMS], CODES)
        try:
            read = list(_read(home, entity, kept))
            rules = tuple(recorded_rule(home, one, str(kept.get("alias") or "")) for one in read)
        except (Unread, Refused) as reason:
            notes.append(Note(entity, "automation", reason.message if isinstance(reason, Refused) else str(reason)))
            unfollowed += _unfollowed(home, entity, kept)
            continue
        if entity in states:
            home.rules += tuple(replace(rule, enabled=states[entity] == "on") for rule in rules)
        else:
            hidden += read
    if home.plan.origin is not None:
        origin = home.plan.origin.model_copy(update={"hidden": tuple(hidden), "unfollowed": tuple(unfollowed)})
        home.plan = replace(home.plan, origin=origin)
    return notes


def _unfollowed(home: Home, id: str, text: Any) -> Iterator[Unfollowed]:
    """What is known of an automation that was not taken, if a device here makes it act."""
    parts: Mapping[str, Any] = text if isinstance(text, Mapping) else {}
    triggers = _triggers(_listed(parts, "triggers", "trigger"))
    reads = dict.fromkeys(did for one in triggers for text in _texts(one) if (did := text.lower()) in home.plan.by_did)
    acts = dict.fromkeys(did for one in _listed(parts, "actions", "action") for did in _acts(one))
    if reads and acts:
        yield Unfollowed(id=id, reads=tuple(reads), acts=tuple(acts))


def _triggers(listed: list[Any]) -> Iterator[Mapping[str, Any]]:
    """The triggers of a list, and those that they hold."""
    for one in listed:
        if isinstance(one, Mapping):
            yield one
            yield from _triggers(_listed(one, NESTED))


def _texts(part: Any) -> Iterator[str]:
    """All texts of a part. A trigger names entities in several places: a time or a bound may be the state of a helper."""
    if isinstance(part, str):
        yield part
    held = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    yield from (text for one in held for text in _texts(one))


def _acts(action: Any) -> Iterator[str]:
    """What an action, or one within it, acts on: entities, or, where it names none, its service, or their kind."""
    if isinstance(action, list):
        yield from (found for one in action for found in _acts(one))
    if not isinstance(action, Mapping):
        return
    service = next((one for key in ("action", "service", "domain") if isinstance(one := action.get(key), str)), None)
    if service is not None:
        yield from _entities(action) or ([service] if service != HIDDEN else [])
    yield from (one for one in _listed(action, "scene") if isinstance(one, str) and ENTITY.fullmatch(one))
    yield from (found for key in NESTING for found in _acts(action.get(key)))


def _entities(part: Mapping[str, Any]) -> list[str]:
    """The entities that an action names."""
    places = (place for key in ("target", "data") if isinstance(place := part.get(key), Mapping))
    named = [one for place in (part, *places) for one in _listed(place, "entity_id")]
    return [one for one in named if isinstance(one, str) and ENTITY.fullmatch(one)]


def _read(home: Home, entity: str, text: Any) -> Iterator[Hidden]:
    """The rules of an automation: one for each trigger, and for each state that one lists."""
    if not isinstance(text, Mapping):
        raise Unread("its text is none of an automation")
    conditions = [_condition(home, one) for one in _listed(text, "conditions", "condition")]
    actions = [action for one in _listed(text, "actions", "action") for action in _actions(home, one)]
    triggers = [held for one in _listed(text, "triggers", "trigger") for held in _trigger(home, one)]
    _be_whole(text, "it")
    if not triggers:
        raise Unread("it has no trigger that is enabled")
    for number, (holds, hold) in enumerate(triggers):
        id = entity if len(triggers) == 1 else f"{entity}.{number + 1}"
        yield Hidden(id=id, conditions=tuple(holds), given=tuple(conditions), actions=tuple(actions), hold=hold)


def _listed(text: Mapping[str, Any], *keys: str) -> list[Any]:
    """The entries under the first of several keys that is there."""
    found: Any = next((text[key] for key in keys if text.get(key) is not None), [])
    return found if isinstance(found, list) else [found]


def _be_whole(part: Mapping[str, Any], what: str) -> None:
    """Raise `Unread` if something of a part is not read."""
    if (key := hidden_key(part)) is not None:
        raise Unread(f"{what} has '{key}', which is not known here")


def _trigger(home: Home, trigger: Any) -> Iterator[tuple[list[str], int]]:
    """The conditions that each make a trigger act, and for how many seconds one must have held.

    A change from one listed state to another makes it act too, so each state is a condition of its own.
    """
    if not isinstance(trigger, Mapping):
        raise Unread("a trigger is a template")
    kind = trigger.get("trigger") or trigger.get("platform") or next(iter(trigger), None)
    if kind not in ("time", "state", "numeric_state"):
        raise Unread(f"a trigger of the kind '{kind}' is not known here")
    _be_whole(trigger, "a trigger")
    if kind == "time":
        yield [f"time_cron = {_cron(_one(trigger, 'at', 'time'), trigger.get('weekday'))}"], 0
    else:
        held = _reached(home, trigger) if kind == "state" else [_compared(home, trigger)]
        yield from (([one], _seconds(trigger.get("for"))) for one in held)


def _reached(home: Home, trigger: Mapping[str, Any]) -> list[str]:
    """That an entity has come to a state of a trigger, for each of them."""
    states = _listed(trigger, "to")
    if not states or ANY in states or None in states:
        raise Unread("a trigger by state acts on any state")
    return list(dict.fromkeys(_state(home, {**trigger, "to": one}, "to") for one in states))


def _condition(home: Home, text: Any) -> str:
    if not isinstance(text, Mapping):
        raise Unread("a condition is a template")
    kind = text.get("condition") or next(iter(text), None)
    if kind not in ("and", "or", "not", "state", "numeric_state"):
        raise Unread(f"a condition of the kind '{kind}' cannot be told here")
    if kind in ("state", "numeric_state"):
        _be_whole(text, "a condition")
        return _state(home, text, "state") if kind == "state" else _compared(home, text)
    parts = [_condition(home, part) for part in _listed(text, "conditions")]
    _be_whole(text, "a condition")
    if not parts:
        raise Unread(f"a condition of the kind '{kind}' has no part that is enabled")
    joined = f" {'or' if kind != 'and' else 'and'} ".join(f"({part})" for part in parts)
    return f"not ({joined})" if kind == "not" else joined


def _state(home: Home, text: Mapping[str, Any], key: str) -> str:
    """That an entity is in one of the states under a key. They are texts there: `21` is not `21.0`."""
    if text.get(key) is None:
        raise Unread("a condition by state does not say the state")
    entity, states = _one(text, "entity_id", "entity"), _listed(text, key)
    flags = _flags(home, entity)
    dead, states = [flags[one] for one in states if one in flags], [one for one in states if one not in flags]
    if not states:
        return f"({' or '.join(dead)})"
    if _slot(home, entity, "state").type not in TEXTS:
        raise Unread(f"the state of {entity} is compared as a text, and here it is a number")
    if domain_of(entity) in PEOPLE and states != [HOME]:
        raise Unread(f"the state of {entity} is a place, which is not known here")
    if is_password(entity, home.state_of(entity)):
        raise Unread(f"the state of {entity} is not known here, since it may be a password")
    parts = [*dead, f"device({json.dumps(entity)}).state in {_tuple(states)}"]
    return f"({' or '.join(parts)})" if dead else parts[0]


def _flags(home: Home, entity: str) -> dict[str, str]:
    """What tells that an entity is out of reach, or has no value, where its state cannot: a condition by that state."""
    device = home.plan.by_did.get(entity)
    if device is None or AVAILABLE not in device.spec.told:
        return {}
    named = f"device({json.dumps(entity)})"
    reached = f"{named}.{AVAILABLE} == "
    return {"unavailable": f"{reached}False", "unknown": f"({reached}True and {named}.state == None)"}


def _compared(home: Home, text: Mapping[str, Any]) -> str:
    """That a number of an entity is within bounds, which are beyond them themselves."""
    entity, attribute = _one(text, "entity_id", "entity"), text.get("attribute")
    name = "state" if attribute is None else _named(home, entity, str(attribute))
    kind = _slot(home, entity, name)
    if kind.type not in NUMBERS or kind.unit == DURATION or getattr(kind, "internal", False):
        raise Unread(
            f"a trigger or condition by number reads '{attribute or 'state'}' of {entity}, which is no such number here"
        )
    value = f"device({json.dumps(entity)}).{name}"
    bounds = [f"{value} {sign} {_number(text[key])}" for key, sign in (("above", ">"), ("below", "<")) if key in text]
    if not bounds:
        raise Unread("a trigger or condition by number has no bound")
    return " and ".join(bounds)


def _slot(home: Home, entity: str, path: str) -> ValueType:
    """The type of what an entity shows. Raises `Refused` if it is not in the home, or shows no such thing."""
    return home.plan.slots[home.plan.slot_of(entity, path)].type


def _named(home: Home, entity: str, attribute: str) -> str:
    """Our name of an attribute there. What has this name here may be another one there."""
    theirs = link_of(home, entity).attributes
    name = next((mine for mine, there in theirs.items() if there == attribute), attribute)
    if name == "state" or theirs.get(name, attribute) != attribute:
        raise Unread(f"a trigger or condition by number reads '{attribute}', which {entity} does not show here")
    return name


def _actions(home: Home, text: Any) -> Iterator[dict[str, Any]]:
    """The service calls of an action, one for each of its entities."""
    service = (text.get("action") or text.get("service")) if isinstance(text, Mapping) else None
    if not isinstance(service, str):
        raise Unread("an action is no call of a service")
    given, target = (part if isinstance(part := text.get(key), Mapping) else {} for key in ("data", "target"))
    data = {key: value for key, value in given.items() if key != "entity_id"}
    named = [found for place in (target, text, given) if (found := _listed(place, "entity_id"))]
    if len(named) != 1:
        raise Unread(f"an action calls {service} for {'no named entity' if not named else 'entities in several places'}")
    if several := next((key for key in (*NESTING, "domain") if key in text), None):
        raise Unread(f"an action has '{several}' beside its service")
    _be_whole(text, "an action")
    for entity in dict.fromkeys(map(str, named[0])):
        name, arguments = from_homeassistant(home, entity, service, data)
        yield {"did": entity, "locator": name, "arguments": arguments}


def _one(text: Mapping[str, Any], key: str, what: str) -> str:
    """The only value under a key."""
    values = _listed(text, key)
    if len(values) != 1:
        raise Unread(f"a trigger or condition has not one {what}, but {len(values)}")
    return str(values[0])


def _cron(at: str, days: Any) -> str:
    match = CLOCK.fullmatch(at)
    if match is None:
        raise Unread(f"a trigger is at '{at}', which is no time of day")
    hour, minute, second = (int(part or 0) for part in match.groups())
    named = [days] if isinstance(days, str) else days or []
    if not all(day in WEEK for day in named):
        raise Unread(f"a trigger is on the days {named}")
    week = ",".join(str(WEEK[day]) for day in named) or "*"
    return f"{second} {minute} {hour} ? * {week} *" if week != "*" else f"{second} {minute} {hour} * * ? *"


def _seconds(text: Any) -> int:
    """A duration in seconds: a number, `HH:MM:SS`, or hours, minutes and seconds by name."""
    if text is None:
        return 0
    if isinstance(text, Mapping) and text.keys() <= UNITS.keys():
        return sum(_whole(amount, text) * UNITS[unit] for unit, amount in text.items())
    if not isinstance(text, str) or ":" not in text:
        return _whole(text, text)
    if (read := seconds(text)) is None or read < 0 or "." in text:
        raise Unread(f"a duration is '{text}'")
    return read


def _whole(amount: Any, text: Any) -> int:
    """A number of a duration's text."""
    if isinstance(amount, str) and amount.isdecimal():
        return int(amount)
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0 or amount % 1:
        raise Unread(f"a duration is '{text}'")
    return int(amount)


def _tuple(listed: list[Any]) -> str:
    for value in listed:
        if not isinstance(value, str) or STATED.fullmatch(value):
            raise Unread(f"a state is '{value}', which is no text of one")
    texts = [json.dumps(value, ensure_ascii=False) for value in listed]
    return f"({', '.join(texts)},)"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unread(f"a bound is '{value}', which is no number")
    return value
