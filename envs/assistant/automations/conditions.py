"""Conditions of an automation as conditions of the home.

Invariant: what is told is a condition's text, or whether it always holds: a condition on the trigger is decided when the
rule of that trigger is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from homerl.envs.assistant.automations import devices
from homerl.envs.assistant.automations.states import HOME, HomeFacts, parse_duration
from homerl.envs.assistant.automations.telling import (
    TemplateValue,
    UnreadableAutomation,
    join_with_and,
    join_with_or,
    negate_condition,
    value_to_condition,
    value_to_number,
)
from homerl.envs.assistant.automations.templates import WEEK, read_template
from homerl.envs.assistant.automations.text import find_hidden_key
from homerl.envs.assistant.listing.listing import ENTITY

CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
HELPER = re.compile(r"input_datetime\..+")


@dataclass
class AutomationScope:
    """What the parts of an automation know: the home, and, by name, what their templates may read.

    `ids` are the names of the trigger that set it off: its `id`, else its number. `names` grows by variables.
    """

    facts: HomeFacts
    ids: frozenset[str] = frozenset()
    names: dict[str, Any] = field(default_factory=dict)

    def read_condition(self, text: Any) -> str | bool:
        """A condition, a list of which all must hold, or the text of a template. Raises `Unread` or `Refused`."""
        if isinstance(text, list):
            return join_with_and([self.read_condition(one) for one in text])
        if isinstance(text, str):
            return self.read_template_condition(text)
        if not isinstance(text, Mapping):
            raise UnreadableAutomation("a condition is none")
        kind = text.get("condition") or next(iter(text), None)
        require_fully_read(text, "a condition")
        reader = KINDS.get(str(kind))
        if reader is None:
            raise UnreadableAutomation(f"a condition of the kind '{kind}' cannot be told here")
        return reader(self, text)

    def read_template_condition(self, text: str) -> str | bool:
        """A template as a condition."""
        if "{" not in text:
            raise UnreadableAutomation("a condition is the alias of one")
        return value_to_condition(self.read_template_value(text), self.facts)

    def read_template_value(self, text: str) -> Any:
        """What a template tells."""
        return read_template(text, self.facts, self.names)

    def read_number(self, text: Any) -> float | str:
        """A number, or the expression of one that a template tells."""
        value = self.read_template_value(text) if isinstance(text, str) and "{" in text else text
        try:
            return float(value) if not isinstance(value, bool) else 1 / 0
        except (TypeError, ValueError, ZeroDivisionError):
            return value_to_number(value, self.facts)


def require_fully_read(part: Mapping[str, Any], what: str) -> None:
    """Raise `Unread` if something of a part is not read."""
    if (key := find_hidden_key(part)) is not None:
        raise UnreadableAutomation(f"{what} has '{key}', which is not known here")


def entries_under_key(text: Mapping[str, Any], *keys: str) -> list[Any]:
    """The entries under the first of several keys that is there."""
    found: Any = next((text[key] for key in keys if text.get(key) is not None), [])
    return found if isinstance(found, list) else [found]


def entities_under_key(text: Mapping[str, Any]) -> list[str]:
    """The entities under a key, each once."""
    if not (found := list(dict.fromkeys(map(str, entries_under_key(text, "entity_id"))))):
        raise UnreadableAutomation("a trigger or condition has not one entity, but 0")
    return found


def parse_time_of_day(text: Any) -> int:
    """The seconds since midnight of a time of day, written as text, or as YAML may have read it: in seconds."""
    if isinstance(text, int) and not isinstance(text, bool) and 0 <= text < 86400:
        return text
    match = CLOCK.fullmatch(str(text).strip())
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise UnreadableAutomation(f"a trigger is at '{text}', which is no time of day")
    hour, minute, second = (int(part or 0) for part in match.groups())
    return 3600 * hour + 60 * minute + second


def _joining(kind: str) -> Callable[[AutomationScope, Mapping[str, Any]], str | bool]:
    def joined(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
        if not (parts := [scope.read_condition(part) for part in entries_under_key(text, "conditions", kind)]):
            raise UnreadableAutomation(f"a condition of the kind '{kind}' has no part that is enabled")
        return (
            join_with_and(parts)
            if kind == "and"
            else negate_condition(join_with_or(parts))
            if kind == "not"
            else join_with_or(parts)
        )

    return joined


def _state(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if text.get("state") is None:
        raise UnreadableAutomation("a condition by state does not say the state")
    if text.get("for") is not None:
        raise UnreadableAutomation("a condition by state has 'for', which is not known here")
    states, attribute, facts = entries_under_key(text, "state"), text.get("attribute"), scope.facts
    if attribute is not None:
        parts: list[str | bool] = [
            join_with_or([facts.is_attribute_value(one, attribute, state) for state in states])
            for one in entities_under_key(text)
        ]
    else:
        parts = [facts.is_state(one, states) for one in entities_under_key(text)]
    return join_with_or(parts) if text.get("match") == "any" else join_with_and(parts)


def _number(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    above, below, template = text.get("above"), text.get("below"), text.get("value_template")
    if template is not None:
        return scope.facts.number_within(_told(scope, text, template), above, below)
    return join_with_and(
        [scope.facts.entity_number_within(one, text.get("attribute"), above, below) for one in entities_under_key(text)]
    )


def _told(scope: AutomationScope, text: Mapping[str, Any], template: str) -> str:
    """The number that a template tells of an entity, which it calls `state`."""
    return value_to_number(
        read_template(
            template, scope.facts, scope.names | {"state": TemplateValue("entity", entity=entities_under_key(text)[0])}
        ),
        scope.facts,
    )


def _time(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    parts: list[str | bool] = []
    after, before = text.get("after"), text.get("before")
    edges = [_edge(0 if after is None else after), _edge(before)] if before is not None else []
    if len(edges) == 2 and all(edge.isdecimal() for edge in edges):
        word = "and" if int(edges[0]) < int(edges[1]) else "or"
        parts.append(f"(clock.time >= {edges[0]} {word} clock.time < {edges[1]})")
    elif edges:
        first, last = (_text(scope, one) for one in (0 if after is None else after, before))
        since, till = f"{first} <= clock.text", f"clock.text < {last}"
        parts.append(f"(({since} and {till}) if {first} < {last} else ({since} or {till}))")
    elif after is not None:
        parts.append(f"{_text(scope, after)} <= clock.text")
    if days := entries_under_key(text, "weekday"):
        if not all(day in WEEK for day in days):
            raise UnreadableAutomation(f"a condition is on the days {days}")
        parts.append(f"clock.weekday in ({', '.join(json.dumps(day) for day in days)},)")
    if not parts:
        raise UnreadableAutomation("a condition by time says no time")
    return join_with_and(parts)


def _edge(value: Any) -> str:
    """The seconds of a time of day as text; empty for that of a helper."""
    return "" if isinstance(value, str) and ENTITY.fullmatch(value) else str(parse_time_of_day(value))


def _text(scope: AutomationScope, value: Any) -> str:
    """A time of day as a text, `06:30:00`: told, or of a helper."""
    if isinstance(value, str) and ENTITY.fullmatch(value):
        if not HELPER.fullmatch(value) or getattr(scope.facts.slot_type(value, "state"), "format", None) != "time":
            raise UnreadableAutomation(f"a time of day is that of {value}, which is no such helper here")
        return f"device({json.dumps(value)}).state"
    at = parse_time_of_day(value)
    return f'"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"'


def _sun(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    offsets = (parse_offset(text.get(f"{key}_offset")) for key in ("after", "before"))
    return scope.facts.sun_condition(text.get("after"), text.get("before"), *offsets)


def parse_offset(text: Any) -> int:
    """An offset in seconds, which may be negative: a number, or `-HH:MM:SS`."""
    if isinstance(text, str) and text.strip()[:1] in ("-", "+"):
        return (-1 if text.strip()[0] == "-" else 1) * parse_duration(text.strip()[1:])
    return -parse_duration(-text) if isinstance(text, (int, float)) and text < 0 else parse_duration(text)


def _template(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if not isinstance(told := text.get("value_template"), str):
        raise UnreadableAutomation("a condition by a template has none")
    return scope.read_template_condition(told)


def _triggered(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    return bool(scope.ids & {str(one) for one in entries_under_key(text, "id")})


def _zone(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if entries_under_key(text, "zone") != ["zone.home"]:
        raise UnreadableAutomation("a condition is on a place, which is not known here")
    return join_with_and([scope.facts.is_state(one, [HOME]) for one in entities_under_key(text)])


def _device(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    return scope.read_condition(devices.rewrite_device_condition(text))


KINDS: dict[str, Callable[[AutomationScope, Mapping[str, Any]], str | bool]] = {
    **{kind: _joining(kind) for kind in ("and", "or", "not")},
    "state": _state,
    "numeric_state": _number,
    "time": _time,
    "sun": _sun,
    "template": _template,
    "trigger": _triggered,
    "zone": _zone,
    "device": _device,
}
