"""What an automation says of entities, as conditions and expressions over the home.

Invariant: a state is a text there, as is `21`, which is not `21.0`; so a number here is compared as a number alone.

Conditions of an automation as conditions of the home.

Invariant: what is told is a condition's text, or whether it always holds: a condition on the trigger is decided when the
rule of that trigger is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from homerl.envs.assistant.automations import device_automations as devices
from homerl.envs.assistant.automations.automation_templates import (
    WEEK,
    TemplateValue,
    UnreadableAutomation,
    join_with_and,
    join_with_or,
    negate_condition,
    read_template,
    value_to_condition,
    value_to_number,
)
from homerl.envs.assistant.automations.automation_text import find_hidden_key
from homerl.envs.assistant.listing.home_listing import ENTITY
from homerl.envs.assistant.listing.homeassistant_mapping import device_link, entity_domain, parse_clock_duration
from homerl.envs.assistant.privacy import PEOPLE, is_password
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import AVAILABLE
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType

STATED = re.compile(r"input_(boolean|datetime|number|select|text)\..+")  # a helper whose state is the one that is meant
NUMBER = re.compile(r"-?\d+(\.\d+)?")
HOME = "home"  # the only place of a person that an import keeps
TEXTS = ("str", "enum")  # types of states that are here what they are there
DURATION = "second"  # the unit of what may be a text there, such as `0:05:00`
UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 0.001}
LONGEST = 10**12  # of the numbers of a duration; YAML may write infinity
SUN = "sun.sun"


class HomeFacts:
    """What is told of the entities of a home. `sun` has the seconds since midnight at which it rises and sets."""

    def __init__(self, home: Home, sun: Mapping[str, int]) -> None:
        self.home, self.sun = home, sun

    def is_state(self, entity: str, states: Sequence[Any]) -> str:
        """That an entity is in one of these states."""
        if entity == SUN:
            return self._is_sun(states)
        flags = self._flags(entity)
        dead, states = [flags[one] for one in states if one in flags], [one for one in states if one not in flags]
        if not states:
            return f"({' or '.join(dead)})"
        if self.slot_type(entity, "state").type not in TEXTS:
            if dead and not any(NUMBER.fullmatch(str(one)) for one in states):
                return f"({' or '.join(dead)})"  # a number is never any other word
            raise UnreadableAutomation(f"the state of {entity} is compared as a text, and here it is a number")
        self._be_known(entity, states)
        for one in states:
            if not isinstance(one, str) or STATED.fullmatch(one):
                raise UnreadableAutomation(f"a state is '{one}', which is no text of one")
        parts = [*dead, f"device({json.dumps(entity)}).state in ({', '.join(map(code_literal, states))},)"]
        return f"({' or '.join(parts)})" if dead else parts[0]

    def entity_text(self, entity: str) -> str:
        """The state of an entity, which is a text."""
        if self.slot_type(entity, "state").type not in TEXTS:
            raise UnreadableAutomation(f"the state of {entity} is compared as a text, and here it is a number")
        self._be_known(entity, [HOME] if entity_domain(entity) not in PEOPLE else [])
        return f"device({json.dumps(entity)}).state"

    def entity_number(self, entity: str, attribute: str | None) -> str:
        """The number that an entity shows."""
        name = "state" if attribute is None else self.own_attribute_name(entity, attribute)
        kind = self.slot_type(entity, name)
        if kind.type not in NUMBERS or kind.unit == DURATION or getattr(kind, "internal", False):
            raise UnreadableAutomation(
                f"a trigger or condition by number reads '{attribute or 'state'}' of {entity}, which is no such number here"
            )
        return f"device({json.dumps(entity)}).{name}"

    def is_attribute_value(self, entity: str, attribute: str, value: Any) -> str:
        """That an attribute of an entity has a value."""
        name = self.own_attribute_name(entity, attribute)
        kind = self.slot_type(entity, name)
        if value is None:
            return f"device({json.dumps(entity)}).{name} == None"
        alike = {"bool": (bool,), "int": (int, float), "float": (int, float), "str": (str,), "enum": (str,)}
        if not isinstance(value, alike.get(kind.type, ())) or isinstance(value, bool) is not (kind.type == "bool"):
            raise UnreadableAutomation(f"'{attribute}' of {entity} is compared with '{value}', which is no value of it here")
        return f"device({json.dumps(entity)}).{name} == {code_literal(value)}"

    def entity_number_within(self, entity: str, attribute: str | None, above: Any, below: Any) -> str:
        """That a number of an entity is within bounds, which are beyond them themselves."""
        if entity == SUN and attribute in (None, "elevation"):
            raise UnreadableAutomation("the height of the sun is not known here")
        return self.number_within(self.entity_number(entity, attribute), above, below)

    def number_within(self, value: str, above: Any, below: Any) -> str:
        """That a number is within bounds."""
        bounds = ((above, ">"), (below, "<"))
        said = [f"{value} {sign} {self._bound(bound)}" for bound, sign in bounds if bound is not None]
        if not said:
            raise UnreadableAutomation("a trigger or condition by number has no bound")
        return " and ".join(said)

    def watched_paths(self, entity: str, attribute: str | None = None, everything: bool = False) -> str:
        """What changes where the state of an entity does, or its attribute, or anything that it shows."""
        told = self.slot_type(entity, "state") and self.home.plan.devices_by_did[entity].spec.readable_attributes
        device = f"device({json.dumps(entity)})"
        if everything:
            return device
        if attribute is not None:
            return f"{device}.{self.own_attribute_name(entity, attribute)}"
        return f"{device}.state" + (f", {device}.{AVAILABLE}" if AVAILABLE in told else "")

    def slot_type(self, entity: str, path: str) -> ValueType:
        """The type of what an entity shows. Raises `Refused` if it is not in the home, or shows no such thing."""
        return self.home.plan.slots[self.home.plan.slot_of(entity, path)].type

    def own_attribute_name(self, entity: str, attribute: str) -> str:
        """Our name of an attribute there. What has this name here may be another one there."""
        theirs = device_link(self.home, entity).attributes
        name = next((mine for mine, there in theirs.items() if there == attribute), attribute)
        if name == "state" or theirs.get(name, attribute) != attribute:
            raise UnreadableAutomation(
                f"a trigger or condition by number reads '{attribute}', which {entity} does not show here"
            )
        return name

    def group_members(self, entity: str) -> list[str]:
        """The entity, or the members of a group, and of those in it."""
        if entity_domain(entity) != "group":
            return [entity]
        listed = self.home.state_of(entity).get("entity_id") if entity in self.home.plan.devices_by_did else None
        if not listed:
            raise UnreadableAutomation(f"the members of {entity} are not known here")
        return list(dict.fromkeys(one for name in listed if name != entity for one in self.group_members(name)))

    def sun_time(self, event: Any, offset: float = 0) -> int:
        """The seconds since midnight at which the sun rises or sets."""
        if event not in self.sun:
            raise UnreadableAutomation("when the sun rises and sets is not known here")
        return int(self.sun[event] + offset)

    def _is_sun(self, states: Sequence[Any]) -> str:
        rises, sets = self.sun_time("sunrise"), self.sun_time("sunset")
        above = f"({rises} <= clock.time and clock.time < {sets})"
        told = {"above_horizon": above, "below_horizon": f"not {above}"}
        if not rises < sets or not all(one in told for one in states):
            raise UnreadableAutomation(f"the sun is in {list(states)}, which is not known here")
        return str(join_with_or([told[one] for one in states]))

    def _be_known(self, entity: str, states: Sequence[Any]) -> None:
        if entity_domain(entity) in PEOPLE and list(states) != [HOME]:
            raise UnreadableAutomation(f"the state of {entity} is a place, which is not known here")
        if is_password(entity, self.home.state_of(entity)):
            raise UnreadableAutomation(f"the state of {entity} is not known here, since it may be a password")

    def _flags(self, entity: str) -> dict[str, str]:
        """What tells that an entity is out of reach, or has no value, where its state cannot: a condition by that state."""
        device = self.home.plan.devices_by_did.get(entity)
        if device is None or AVAILABLE not in device.spec.readable_attributes:
            return {}
        named = f"device({json.dumps(entity)})"
        reached = f"{named}.{AVAILABLE} == "
        return {"unavailable": f"{reached}False", "unknown": f"({reached}True and {named}.state == None)"}

    def _bound(self, value: Any) -> Any:
        if isinstance(value, str) and ENTITY.fullmatch(value):
            return self.entity_number(value, None)
        if isinstance(value, str) and NUMBER.fullmatch(value):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnreadableAutomation(f"a bound is '{value}', which is no number")
        return value


def parse_duration(text: Any) -> int:
    """A duration in whole seconds: a number, `HH:MM:SS`, or hours, minutes and seconds by name."""
    if text is None:
        return 0
    if isinstance(text, Mapping) and text.keys() <= UNITS.keys():
        return round(sum(_amount(amount, text) * UNITS[unit] for unit, amount in text.items()))
    if not isinstance(text, str) or ":" not in text:
        return round(_amount(text, text))
    if (read := parse_clock_duration(text.strip())) is None or read < 0 or "." in text:
        raise UnreadableAutomation(f"a duration is '{text}'")
    return read


def _amount(amount: Any, text: Any) -> float:
    """A number of a duration's text."""
    if isinstance(amount, str) and re.fullmatch(r"\d+(\.\d+)?", amount):
        amount = float(amount)
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 <= amount <= LONGEST:
        raise UnreadableAutomation(f"a duration is '{text}'")
    return amount


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
        """A condition, a list of which all must hold, or the text of a template.

        Raises `UnreadableAutomation` or `Refused`.
        """
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


def require_fully_read(part: Mapping[str, Any], what: str) -> None:
    """Raise `UnreadableAutomation` if something of a part is not read."""
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


def _joined(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    kind = str(text.get("condition") or next(iter(text)))
    if not (parts := [scope.read_condition(part) for part in entries_under_key(text, "conditions", kind)]):
        raise UnreadableAutomation(f"a condition of the kind '{kind}' has no part that is enabled")
    if kind == "and":
        return join_with_and(parts)
    return negate_condition(join_with_or(parts)) if kind == "not" else join_with_or(parts)


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
        names = scope.names | {"state": TemplateValue("entity", entity=entities_under_key(text)[0])}
        number = value_to_number(read_template(template, scope.facts, names), scope.facts)
        return scope.facts.number_within(number, above, below)
    return join_with_and(
        [scope.facts.entity_number_within(one, text.get("attribute"), above, below) for one in entities_under_key(text)]
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
    """That the sun has risen, or has set, and not yet the other one, as a condition of the clock says it."""
    offsets = [parse_offset(text.get(f"{key}_offset")) for key in ("after", "before")]
    after, before = text.get("after"), text.get("before")
    from_ = scope.facts.sun_time(after, offsets[0]) if after else None
    to = scope.facts.sun_time(before, offsets[1]) if before else None
    if after == "sunset" and before == "sunrise":
        return f"(clock.time >= {from_} or clock.time < {to})"
    parts = [f"clock.time >= {from_}"] if from_ is not None else []
    parts += [f"clock.time <= {to}"] if to is not None else []
    if not parts:
        raise UnreadableAutomation("a condition by the sun says nothing of it")
    return " and ".join(parts)


def parse_offset(text: Any) -> int:
    """An offset in seconds, which may be negative: a number, or `-HH:MM:SS`."""
    if isinstance(text, str) and text.strip()[:1] in ("-", "+"):
        return (-1 if text.strip()[0] == "-" else 1) * parse_duration(text.strip()[1:])
    return -parse_duration(-text) if isinstance(text, (int, float)) and text < 0 else parse_duration(text)


def _template(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if not isinstance(told := text.get("value_template"), str):
        raise UnreadableAutomation("a condition by a template has none")
    return scope.read_template_condition(told)


def _zone(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if entries_under_key(text, "zone") != ["zone.home"]:
        raise UnreadableAutomation("a condition is on a place, which is not known here")
    return join_with_and([scope.facts.is_state(one, [HOME]) for one in entities_under_key(text)])


KINDS: dict[str, Callable[[AutomationScope, Mapping[str, Any]], str | bool]] = {
    **dict.fromkeys(("and", "or", "not"), _joined),
    "state": _state,
    "numeric_state": _number,
    "time": _time,
    "sun": _sun,
    "template": _template,
    "trigger": lambda scope, text: bool(scope.ids & {str(one) for one in entries_under_key(text, "id")}),
    "zone": _zone,
    "device": lambda scope, text: scope.read_condition(devices.rewrite_device_condition(text)),
}
