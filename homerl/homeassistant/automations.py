"""Automations of a Home Assistant as automations of the home; scripts and scenes are devices that the home can call.

Read are triggers by state, by number and by time, conditions by state and by number, and actions that call services of
entities.

Invariants: an automation is taken as a whole or not at all; for each one that is not, a note says why.
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
from homerl.homeassistant.client import Client
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.generic import Note
from homerl.homeassistant.listing import AUTOMATIONS, STATES, Listing
from homerl.homeassistant.translation import from_homeassistant

CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
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
            home.rules = (*home.rules, *_rules(home, entity, text, state["state"] == "on"))
        except Unread as reason:
            notes.append(Note(entity, "automation", str(reason)))
        except Refused as refused:
            notes.append(Note(entity, "automation", refused.message))
    return notes


def _rules(home: Home, entity: str, text: Mapping[str, Any], enabled: bool) -> Iterator[Rule]:
    """A rule for each trigger of an automation."""
    conditions = [_condition(one) for one in _listed(text, "conditions", "condition")]
    actions = [action for one in _listed(text, "actions", "action") for action in _actions(home, one)]
    triggers = _listed(text, "triggers", "trigger")
    for number, trigger in enumerate(triggers):
        holds, hold = _trigger(trigger)
        id = entity if len(triggers) == 1 else f"{entity}.{number + 1}"
        rule = make_rule(home, [*holds, *conditions], actions, str(text.get("alias") or ""), hold=hold, id=id)
        yield replace(rule, enabled=enabled)


def _listed(text: Mapping[str, Any], *keys: str) -> list[Any]:
    """The entries under the first of several keys that is there."""
    found: Any = next((text[key] for key in keys if text.get(key) is not None), [])
    return found if isinstance(found, list) else [found]


def _trigger(trigger: Mapping[str, Any]) -> tuple[list[str], int]:
    """The conditions that a trigger stands for, and for how many seconds they must have held."""
    kind = trigger.get("trigger") or trigger.get("platform")
    if kind == "time":
        return [f"time_cron = {_cron(at, trigger.get('weekday'))}" for at in _one(trigger, "at")], 0
    if kind in ("state", "numeric_state"):
        return [_condition({"condition": kind, **trigger})], _seconds(trigger.get("for"))
    raise Unread(f"a trigger of the kind '{kind}' is not known here")


def _condition(text: Any) -> str:
    if not isinstance(text, Mapping):
        raise Unread("a condition is a template")
    kind = text.get("condition")
    if kind in ("and", "or", "not"):
        parts = [_condition(part) for part in _listed(text, "conditions")]
        joined = f" {'or' if kind != 'and' else 'and'} ".join(f"({part})" for part in parts)
        return f"not ({joined})" if kind == "not" else joined
    entities = _listed(text, "entity_id")
    if kind == "state" and len(entities) == 1:
        values = text.get("to") if text.get("to") is not None else text.get("state")
        if values is None or text.get("from") is not None or text.get("attribute"):
            raise Unread("a trigger or condition by state does not say one state to which it changes")
        return f"device({json.dumps(entities[0])}).state in {_tuple(values)}"
    if kind == "numeric_state" and len(entities) == 1 and "value_template" not in text:
        value = f"device({json.dumps(entities[0])}).{text.get('attribute') or 'state'}"
        bounds = [f"{value} {sign} {_number(text[key])}" for key, sign in (("above", ">"), ("below", "<")) if key in text]
        if bounds:
            return " and ".join(bounds)
    raise Unread(f"a condition of the kind '{kind}' cannot be told here")


def _actions(home: Home, text: Any) -> Iterator[dict[str, Any]]:
    """The service calls of an action, one for each of its entities."""
    service = (text.get("action") or text.get("service")) if isinstance(text, Mapping) else None
    if not isinstance(service, str):
        raise Unread("an action is no call of a service")
    target = text.get("target") or text
    data = {key: value for key, value in (text.get("data") or {}).items() if key != "entity_id"}
    entities = _listed(target, "entity_id") or _listed(text.get("data") or {}, "entity_id")
    if not entities or "{{" in json.dumps([entities, data]):
        raise Unread(f"an action calls {service} for no named entity, or with a template")
    for entity in entities:
        name, arguments = from_homeassistant(home, entity, service, data)
        yield {"did": entity, "locator": name, "arguments": arguments}


def _one(text: Mapping[str, Any], key: str) -> list[str]:
    values = _listed(text, key)
    if len(values) != 1:
        raise Unread("a trigger has several times")
    return [str(values[0])]


def _cron(at: str, days: Any) -> str:
    match = CLOCK.fullmatch(at)
    if match is None:
        raise Unread(f"a trigger is at '{at}', which is no time of day")
    hour, minute, second = (int(part or 0) for part in match.groups())
    named = [days] if isinstance(days, str) else days or []
    week = ",".join(str(WEEK[day]) for day in named if day in WEEK) or "*"
    return f"{second} {minute} {hour} ? * {week} *" if week != "*" else f"{second} {minute} {hour} * * ? *"


def _seconds(text: Any) -> int:
    """A duration in seconds: a number, `HH:MM:SS`, or hours, minutes and seconds by name."""
    if text is None:
        return 0
    if isinstance(text, Mapping):
        return int(
            sum(
                float(text.get(unit, 0)) * size
                for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
            )
        )
    if isinstance(text, (int, float)):
        return int(text)
    parts = str(text).split(":")
    if not all(part.isdigit() for part in parts):
        raise Unread(f"a duration is '{text}'")
    return sum(int(part) * 60**place for place, part in enumerate(reversed(parts)))


def _tuple(values: Any) -> str:
    texts = [json.dumps(str(value), ensure_ascii=False) for value in (values if isinstance(values, list) else [values])]
    return f"({', '.join(texts)},)"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unread(f"a bound is '{value}', which is no number")
    return value
