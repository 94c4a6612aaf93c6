"""Automations of a Home Assistant as automations of the home; scripts and scenes are devices that the home can call.

Read are triggers by state, by number and by time, conditions by state and by number, and actions that call services of
entities. Their keys are those of `automation_text.py`.

Invariants: an automation is taken as a whole or not at all, so a key that is not read in any of its parts makes the whole
unreadable; for each automation that is not taken, a note says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.automation import make_rule
from envs.homeenv.home import Home
from envs.homeenv.rules import Rule
from homerl.homeassistant.automation_text import hidden_key, readable
from homerl.homeassistant.client import Client
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.generic import Note
from homerl.homeassistant.listing import AUTOMATIONS, FORMS, STATES, Listing
from homerl.homeassistant.privacy import CODES
from homerl.homeassistant.times import seconds
from homerl.homeassistant.translation import from_homeassistant

CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
STATED = re.compile(r"input_(boolean|datetime|number|select|text)\..+")  # a helper whose state is the one that is meant
ANY = "*"  # any state, where a trigger names it
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
    """Give the home the automations that can be read. Returns what cannot."""
    notes = []
    for state in sorted(listing.sources[STATES], key=lambda row: row["entity_id"]):
        entity = state["entity_id"]
        if not entity.startswith("automation."):
            continue
        text = listing.sources.get(AUTOMATIONS, {}).get(entity)
        if text is None:
            notes.append(Note(entity, "automation", "its text could not be read: give an administrator's token"))
            continue
        try:
            kept = readable(text, listing.sources[FORMS], CODES)
            home.rules = (*home.rules, *_rules(home, entity, kept, state["state"] == "on"))
        except Unread as reason:
            notes.append(Note(entity, "automation", str(reason)))
        except Refused as refused:
            notes.append(Note(entity, "automation", refused.message))
    return notes


def _rules(home: Home, entity: str, text: Any, enabled: bool) -> Iterator[Rule]:
    """A rule for each trigger of an automation, and for each state that one lists."""
    if not isinstance(text, Mapping):
        raise Unread("its text is none of an automation")
    conditions = [_condition(one) for one in _listed(text, "conditions", "condition")]
    actions = [action for one in _listed(text, "actions", "action") for action in _actions(home, one)]
    triggers = [held for one in _listed(text, "triggers", "trigger") for held in _trigger(one)]
    _be_whole(text, "it")
    if not triggers:
        raise Unread("it has no trigger that is enabled")
    for number, (holds, hold) in enumerate(triggers):
        id = entity if len(triggers) == 1 else f"{entity}.{number + 1}"
        rule = make_rule(home, [*holds, *conditions], actions, str(text.get("alias") or ""), hold=hold, id=id)
        yield replace(rule, enabled=enabled)


def _listed(text: Mapping[str, Any], *keys: str) -> list[Any]:
    """The entries under the first of several keys that is there."""
    found: Any = next((text[key] for key in keys if text.get(key) is not None), [])
    return found if isinstance(found, list) else [found]


def _be_whole(part: Mapping[str, Any], what: str) -> None:
    """Raise `Unread` if something of a part is not read."""
    if (key := hidden_key(part)) is not None:
        raise Unread(f"{what} has '{key}', which is not known here")


def _trigger(trigger: Any) -> Iterator[tuple[list[str], int]]:
    """The conditions that each make a trigger act, and for how many seconds one must have held.

    A change from one listed state to another makes it act too, so each state is a condition of its own.
    """
    if not isinstance(trigger, Mapping):
        raise Unread("a trigger is a template")
    kind = trigger.get("trigger") or trigger.get("platform")
    if kind not in ("time", "state", "numeric_state"):
        raise Unread(f"a trigger of the kind '{kind}' is not known here")
    _be_whole(trigger, "a trigger")
    if kind == "time":
        yield [f"time_cron = {_cron(_one(trigger, 'at', 'time'), trigger.get('weekday'))}"], 0
    else:
        held = _reached(trigger) if kind == "state" else [_compared(trigger)]
        yield from (([one], _seconds(trigger.get("for"))) for one in held)


def _reached(trigger: Mapping[str, Any]) -> list[str]:
    """That an entity has come to a state of a trigger, for each of them."""
    states = _listed(trigger, "to")
    if not states or ANY in states or None in states:
        raise Unread("a trigger by state acts on any state")
    return list(dict.fromkeys(_state(trigger | {"to": one}, "to") for one in states))


def _condition(text: Any) -> str:
    if not isinstance(text, Mapping):
        raise Unread("a condition is a template")
    kind = text.get("condition")
    if kind not in ("and", "or", "not", "state", "numeric_state"):
        raise Unread(f"a condition of the kind '{kind}' cannot be told here")
    if kind in ("state", "numeric_state"):
        _be_whole(text, "a condition")
        return _state(text, "state") if kind == "state" else _compared(text)
    parts = [_condition(part) for part in _listed(text, "conditions")]
    _be_whole(text, "a condition")
    if not parts:
        raise Unread(f"a condition of the kind '{kind}' has no part that is enabled")
    joined = f" {'or' if kind != 'and' else 'and'} ".join(f"({part})" for part in parts)
    return f"not ({joined})" if kind == "not" else joined


def _state(text: Mapping[str, Any], key: str) -> str:
    """That an entity is in one of the states under a key."""
    if text.get(key) is None:
        raise Unread("a condition by state does not say the state")
    return f"device({json.dumps(_one(text, 'entity_id', 'entity'))}).state in {_tuple(text[key])}"


def _compared(text: Mapping[str, Any]) -> str:
    """That a number of an entity is within bounds."""
    attribute = str(text.get("attribute") or "state")
    if not attribute.isidentifier():
        raise Unread(f"a trigger or condition by number reads '{attribute}', which has another name here")
    value = f"device({json.dumps(_one(text, 'entity_id', 'entity'))}).{attribute}"
    bounds = [f"{value} {sign} {_number(text[key])}" for key, sign in (("above", ">"), ("below", "<")) if key in text]
    if not bounds:
        raise Unread("a trigger or condition by number has no bound")
    return " and ".join(bounds)


def _actions(home: Home, text: Any) -> Iterator[dict[str, Any]]:
    """The service calls of an action, one for each of its entities."""
    service = (text.get("action") or text.get("service")) if isinstance(text, Mapping) else None
    if not isinstance(service, str):
        raise Unread("an action is no call of a service")
    given, target = (part if isinstance(part := text.get(key), Mapping) else {} for key in ("data", "target"))
    data = {key: value for key, value in given.items() if key != "entity_id"}
    entities = _listed(target, "entity_id") or _listed(text, "entity_id") or _listed(given, "entity_id")
    if not entities:
        raise Unread(f"an action calls {service} for no named entity")
    _be_whole(text, "an action")
    for entity in map(str, entities):
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


def _tuple(values: Any) -> str:
    listed = values if isinstance(values, list) else [values]
    for value in listed:
        if isinstance(value, (bool, Mapping, list)) or STATED.fullmatch(str(value)):
            raise Unread(f"a state is '{value}'")
    texts = [json.dumps(str(value), ensure_ascii=False) for value in listed]
    return f"({', '.join(texts)},)"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unread(f"a bound is '{value}', which is no number")
    return value
