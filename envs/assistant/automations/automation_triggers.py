"""Triggers of an automation as what triggers rules of the home.

Invariants: each trigger of a rule is one way in which one entity changes, or one time; what its templates may read of it is
told with it. What comes from outside of the home, such as the press of a remote, triggers nothing here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from homerl.envs.assistant.automations import device_automations as devices
from homerl.envs.assistant.automations.automation_conditions import (
    HOME,
    SUN,
    AutomationScope,
    entities_under_key,
    entries_under_key,
    parse_duration,
    parse_offset,
    parse_time_of_day,
    require_fully_read,
)
from homerl.envs.assistant.automations.automation_templates import (
    TemplateValue,
    UnreadableAutomation,
    read_template,
    value_to_number,
)
from homerl.envs.assistant.automations.automation_text import OUTER
from homerl.envs.assistant.listing.home_listing import ENTITY

INNER = frozenset(  # events that something in the home fires
    "state_changed call_service automation_triggered script_started timer.finished timer.started timer.cancelled "
    "timer.paused timer.restarted state_reported entity_registry_updated".split()
)
EVENTS = {"sunrise": "above_horizon", "sunset": "below_horizon"}
QUARTZ = {day: number for number, day in enumerate("sun mon tue wed thu fri sat".split(), 1)}
ANY = "*"  # any state, where a trigger names it


@dataclass(frozen=True)
class RuleTrigger:
    """What triggers a rule: `conditions` and `hold` as rules take them, and what must hold then.

    `ids` are the names by which conditions call it, and `names` what templates may read of it.
    """

    conditions: tuple[str, ...]
    hold: int = 0
    given: tuple[str, ...] = ()
    ids: frozenset[str] = frozenset()
    names: Mapping[str, Any] = field(default_factory=dict)


def read_triggers(scope: AutomationScope, texts: list[Any]) -> list[RuleTrigger]:
    """All triggers of an automation that something in the home sets off. Raises `UnreadableAutomation` or `Refused`."""
    found = list(_flat(texts))
    if not found:
        raise UnreadableAutomation("it has no trigger that is enabled")
    return [one for place, text in enumerate(found) for one in _of(scope, text, str(place))]


def _flat(texts: list[Any]) -> Iterator[Mapping[str, Any]]:
    for text in texts:
        if not isinstance(text, Mapping):
            raise UnreadableAutomation("a trigger is a template")
        if "triggers" in text and trigger_kind(text) in ("", "triggers"):
            yield from _flat(entries_under_key(text, "triggers"))
        else:
            yield text


def trigger_kind(text: Mapping[str, Any]) -> str:
    """The kind of a trigger."""
    return str(text.get("trigger") or text.get("platform") or "")


def _of(scope: AutomationScope, text: Mapping[str, Any], place: str) -> Iterator[RuleTrigger]:
    kind = trigger_kind(text)
    events = {*map(str, entries_under_key(text, "event_type"))}
    if kind == "event" and events and not INNER & events:
        return
    if kind in OUTER or (kind == "device" and devices.is_outside_trigger(text)):
        return
    if kind not in KINDS:
        raise UnreadableAutomation(f"a trigger of the kind '{kind}' is not known here")
    require_fully_read(text, "a trigger")
    ids = frozenset(str(one) for one in entries_under_key(text, "id")) or frozenset([place])
    for one in KINDS[kind](scope, text):
        names = {"platform": kind, "id": sorted(ids)[0], "idx": place, **one.names}
        yield RuleTrigger(one.conditions, one.hold, one.given, ids, {"trigger": names})


def _state(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    for entity in entities_under_key(text):
        if entity == SUN and "attribute" not in text:
            yield from _sun_reaches(scope, text)
        else:
            yield from _changes(scope, text, entity)


def _sun_reaches(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    wanted = entries_under_key(text, "to") or [
        {"above_horizon": "below_horizon"}.get(one, "above_horizon") for one in entries_under_key(text, "from")
    ]
    found = [event for event, state in EVENTS.items() if state in wanted]
    if not found or len(found) != len(wanted) or text.get("for") is not None:
        raise UnreadableAutomation("a trigger is by the sun in a way that is not known here")
    for event in found:
        yield from _sun(scope, {"event": event})


def _changes(scope: AutomationScope, text: Mapping[str, Any], entity: str) -> Iterator[RuleTrigger]:
    """That an entity, or an attribute of it, changes to, or from, some states."""
    hold, attribute, facts = parse_duration(text.get("for")), text.get("attribute"), scope.facts
    said = {key: entries_under_key(text, key) for key in ("to", "from", "not_to", "not_from")}
    said = {key: values for key, values in said.items() if values and values != [None]}
    if any(ANY in values or None in values for values in said.values()):
        raise UnreadableAutomation("a trigger by state acts on any state")

    def among(values: list[Any]) -> str:
        if attribute is None:
            return facts.is_state(entity, values)
        return " or ".join(f"({facts.is_attribute_value(entity, attribute, value)})" for value in values)

    names = {"entity_id": entity, "attribute": attribute, "for": None}
    if said.keys() == {"to"}:
        for value in dict.fromkeys(said["to"]):
            yield RuleTrigger((among([value]),), hold, names=names | _became(entity, attribute, value))
        return
    if said.keys() == {"from"} and len(said["from"]) == 1:
        before = {} if attribute else {"from_state": {"state": said["from"][0], "entity_id": entity}}
        yield RuleTrigger((f"not ({among(said['from'])})",), hold, names=names | before)
        return
    everything = not text.keys() & {"to", "from", "not_to", "not_from", "attribute"}
    if hold and (everything or ("from" in said and "to" not in said)):
        raise UnreadableAutomation("a trigger by any change has 'for', which is not known here")
    lines = [f"changed = {facts.watched_paths(entity, attribute, everything)}"]
    for key, form in (("from", "{}"), ("not_from", "not ({})")):
        lines += [f"before = {form.format(among(said[key]))}"] if key in said else []
    lines += [f"not ({among(said['not_to'])})"] if "not_to" in said else []
    known = {"from_state": {"state": said["from"][0], "entity_id": entity}} if len(said.get("from", ())) == 1 else {}
    for value in dict.fromkeys(said.get("to", [None])):
        more = [among([value])] if "to" in said else []
        yield RuleTrigger((*lines, *more), hold, names=names | known | _became(entity, attribute, value))


def _became(entity: str, attribute: str | None, value: Any) -> dict[str, Any]:
    """What templates read of the state to which an entity has come."""
    known = attribute is None and value is not None
    return {"to_state": {"state": value, "entity_id": entity} if known else TemplateValue("entity", entity=entity)}


def _number(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    for entity in entities_under_key(text):
        above, below, template = text.get("above"), text.get("below"), text.get("value_template")
        if template is not None:
            value = read_template(template, scope.facts, {"state": TemplateValue("entity", entity=entity)})
            within = scope.facts.number_within(value_to_number(value, scope.facts), above, below)
        else:
            within = scope.facts.entity_number_within(entity, text.get("attribute"), above, below)
        names = _became(entity, "", None) | {"entity_id": entity}
        yield RuleTrigger((within,), parse_duration(text.get("for")), names=names)


def _time(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    if not (times := entries_under_key(text, "at")):
        raise UnreadableAutomation("a trigger by time says no time")
    days = entries_under_key(text, "weekday")
    if not all(day in QUARTZ for day in days):
        raise UnreadableAutomation(f"a trigger is on the days {days}")
    for at in times:
        if isinstance(at, str) and ENTITY.fullmatch(at):
            yield from _helper(scope, at, days)
        else:
            yield RuleTrigger((f"time_cron = {daily_cron(parse_time_of_day(at), days)}",))


def _helper(scope: AutomationScope, entity: str, days: list[str]) -> Iterator[RuleTrigger]:
    """That the clock shows what a helper does, which people set to whole minutes."""
    form = getattr(scope.facts.slot_type(entity, "state"), "format", None)
    shown = {"time": "clock.text", "datetime": "clock.moment"}.get(str(form))
    if shown is None or not entity.startswith("input_datetime."):
        raise UnreadableAutomation(f"a trigger is at '{entity}', which is no time of day")
    week = ",".join(str(QUARTZ[day]) for day in days)
    each_minute = f"0 * * ? * {week} *" if week else "0 * * * * ? *"
    yield RuleTrigger((f"time_cron = {each_minute}",), given=(f"device({json.dumps(entity)}).state == {shown}",))


def daily_cron(at: int, days: list[str]) -> str:
    """A time of day (s) on some days, or on each."""
    week = ",".join(str(QUARTZ[day]) for day in days) or "*"
    time = f"{at % 60} {at // 60 % 60} {at // 3600}"
    return f"{time} ? * {week} *" if week != "*" else f"{time} * * ? *"


def _pattern(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    told = [text.get(key) for key in ("hours", "minutes", "seconds")]
    first = next((place for place, value in enumerate(told) if value is not None), None)
    if first is None:
        raise UnreadableAutomation("a trigger by a pattern of time has none")
    filled = ["*" if place < first else 0 if value is None else value for place, value in enumerate(told)]
    hour, minute, second = (f"*/{value[1:]}" if (value := str(one)).startswith("/") else value for one in filled)
    if not all(part == "*" or part.removeprefix("*/").isdecimal() for part in (hour, minute, second)):
        raise UnreadableAutomation(f"a trigger is at the times {told}")
    second, minute, hour = (str(int(part)) if part.isdecimal() else part for part in (second, minute, hour))
    yield RuleTrigger((f"time_cron = {second} {minute} {hour} * * ? *",))


def _sun(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    event = str(text.get("event"))
    at = scope.facts.sun_time(event, parse_offset(text.get("offset"))) % 86400
    yield RuleTrigger((f"time_cron = {daily_cron(at, [])}",), names={"event": event})


def _template(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    if not isinstance(told := text.get("value_template"), str):
        raise UnreadableAutomation("a trigger by a template has none")
    test = AutomationScope(scope.facts, names=dict(scope.names)).read_template_condition(told)
    if isinstance(test, str):
        yield RuleTrigger((test,), parse_duration(text.get("for")))


def _device(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    plain = devices.rewrite_device_trigger(text)
    yield from KINDS[plain["trigger"]](scope, plain)


def _zone(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    if entries_under_key(text, "zone") != ["zone.home"] or text.get("event") not in ("enter", "leave", None):
        raise UnreadableAutomation("a trigger is at a place, which is not known here")
    key = "from" if text.get("event") == "leave" else "to"
    yield from _state(scope, {"entity_id": text.get("entity_id"), key: HOME})


KINDS: dict[str, Callable[[AutomationScope, Mapping[str, Any]], Iterator[RuleTrigger]]] = {
    "state": _state,
    "numeric_state": _number,
    "time": _time,
    "time_pattern": _pattern,
    "sun": _sun,
    "template": _template,
    "device": _device,
    "zone": _zone,
}
