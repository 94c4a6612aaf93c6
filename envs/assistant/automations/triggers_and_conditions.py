"""Triggers of an automation as what triggers rules of the home, and its conditions as conditions of the home.

Invariants:
- Each trigger of a rule is one way in which one entity changes, or one time; what its templates may read of it is told with
  it. What comes from outside of the home, such as the press of a remote, triggers nothing here.
- A condition on the trigger is decided when the rule of that trigger is made, so it always holds or never.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from homerl.envs.assistant.automations.automation_templates import (
    OF_CONDITION,
    OF_TRIGGER,
    WEEK,
    TemplateTruth,
    TemplateValue,
    entity_identity,
    read_template,
    value_to_condition,
    value_to_number,
)
from homerl.envs.assistant.automations.automation_text import (
    TARGET_TRIGGERS,
    UnreadableAutomation,
    find_hidden_key,
    is_outside_trigger,
    rewrite_device_condition,
    rewrite_device_trigger,
    rewrite_target_trigger,
)
from homerl.envs.assistant.automations.home_facts import (
    HOME,
    SUN,
    HomeFacts,
    device_reference,
    join_with_and,
    join_with_or,
    negate_condition,
)
from homerl.envs.assistant.automations.named_entities import OUTER, is_left_out
from homerl.envs.assistant.listing.home_listing import is_entity_id
from homerl.envs.assistant.listing.homeassistant_mapping import parse_clock_duration

UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 0.001}
LONGEST = 10**12  # of the numbers of a duration; YAML may write infinity
CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
HELPER = re.compile(r"input_datetime\..+")
INNER = frozenset(  # events that something in the home fires
    "state_changed call_service automation_triggered script_started timer.finished timer.started timer.cancelled "
    "timer.paused timer.restarted state_reported entity_registry_updated *".split()
)
EVENTS = {"sunrise": "above_horizon", "sunset": "below_horizon"}
# Quartz counts the days of the week from Sunday, which is 1
QUARTZ = {day: number for number, day in enumerate("sun mon tue wed thu fri sat".split(), 1)}
READ_BY_TEST = re.compile(r'device\("([^"]*)"\)|\bclock\b')  # what a condition reads that may change
ANY = "*"  # any state, where a trigger names it
MOST_STATES = 12  # by which a trigger is told apart


def parse_duration(text: Any) -> int:
    """A duration in whole seconds: a number, `HH:MM:SS`, or hours, minutes and seconds by name."""
    if text is None:
        return 0
    if isinstance(text, Mapping) and text.keys() <= UNITS.keys():
        return round(sum(_duration_amount(amount, text) * UNITS[unit] for unit, amount in text.items()))
    if not isinstance(text, str) or ":" not in text:
        return round(_duration_amount(text, text))
    if (read := parse_clock_duration(text.strip())) is None or read < 0 or "." in text:
        raise UnreadableAutomation(f"a duration is '{text}'")
    return read


def _duration_amount(amount: Any, text: Any) -> float:
    """A number of a duration's text."""
    if isinstance(amount, str) and re.fullmatch(r"\d+(\.\d+)?", amount):
        amount = float(amount)
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 <= amount <= LONGEST:
        raise UnreadableAutomation(f"a duration is '{text}'")
    return amount


@dataclass
class AutomationScope:
    """What the parts of an automation know: the home, and, by name, what their templates may read.

    `ids` are the names of the trigger that set it off: its `id`, else its number. `names` grows by variables. `tells_past`
    says whether templates read the state before, so that a trigger is told apart by it.
    """

    facts: HomeFacts
    ids: frozenset[str] = frozenset()
    names: dict[str, Any] = field(default_factory=dict)
    tells_past: bool = False

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
        reader = CONDITION_READERS.get(str(kind))
        if reader is None:
            raise UnreadableAutomation(f"a condition of the kind '{kind}' cannot be told here")
        return reader(self, text)

    def read_template_condition(self, text: str, truth: TemplateTruth = OF_CONDITION) -> str | bool:
        """A template as a condition, which passes only where it writes "true", or by the `truth` of another place."""
        if "{" not in text:
            raise UnreadableAutomation("a condition is the alias of one")
        return value_to_condition(self.read_template_value(text), self.facts, truth)

    def read_template_value(self, text: str) -> Any:
        """What a template tells."""
        return read_template(text, self.facts, self.names)


def define_variables(scope: AutomationScope, variables: Any, known: bool = False) -> None:
    """Give a scope the variables of an automation or an action. One that cannot be read is asked for when it is used.

    With `known` those stay that the scope has already.
    """
    said = variables if isinstance(variables, Mapping) else {}
    for name, text in said.items():
        if known and name in scope.names:
            continue
        names = dict(scope.names)

        def value(text: Any = text, names: dict[str, Any] = names) -> Any:
            if is_left_out(text):
                raise UnreadableAutomation("a variable is no template that can be read")
            return replace(scope, names=names).read_template_value(text) if isinstance(text, str) and "{" in text else text

        try:
            scope.names[name] = value()
        except UnreadableAutomation:
            scope.names[name] = value


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


def _read_joined_conditions(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    kind = str(text.get("condition") or next(iter(text)))
    if not (parts := [scope.read_condition(part) for part in entries_under_key(text, "conditions", kind)]):
        raise UnreadableAutomation(f"a condition of the kind '{kind}' has no part that is enabled")
    if kind == "and":
        return join_with_and(parts)
    return negate_condition(join_with_or(parts)) if kind == "not" else join_with_or(parts)


def _read_state_condition(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if text.get("state") is None:
        raise UnreadableAutomation("a condition by state does not say the state")
    states, attribute, facts = entries_under_key(text, "state"), text.get("attribute"), scope.facts
    seconds = parse_duration(text.get("for"))
    if attribute is not None:
        if seconds:
            raise UnreadableAutomation("a condition by an attribute has 'for', which is not known here")
        parts: list[str | bool] = [
            join_with_or([facts.is_attribute_value(one, attribute, state) for state in states])
            for one in entities_under_key(text)
        ]
    elif seconds:
        parts = [facts.has_held_state(one, states, seconds) for one in entities_under_key(text)]
    else:
        parts = [facts.is_state(one, states) for one in entities_under_key(text)]
    return join_with_or(parts) if text.get("match") == "any" else join_with_and(parts)


def _read_number_condition(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    tests = (test for _, test in _number_tests(scope.facts, text, scope.names))
    return next(tests) if text.get("value_template") is not None else join_with_and([*tests])


def _number_tests(facts: HomeFacts, text: Mapping[str, Any], names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """By entity, that its number, or what a template makes of its state, is within bounds."""
    above, below, template = text.get("above"), text.get("below"), text.get("value_template")
    for entity in entities_under_key(text):
        if template is None:
            yield entity, facts.entity_number_within(entity, text.get("attribute"), above, below)
        else:
            value = read_template(template, facts, {**names, "state": TemplateValue("entity", entity=entity)})
            yield entity, facts.number_within(value_to_number(value, facts), above, below)


def _read_time_condition(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    parts: list[str | bool] = []
    after, before = text.get("after"), text.get("before")
    edges = [_plain_seconds(0 if after is None else after), _plain_seconds(before)] if before is not None else []
    if len(edges) == 2 and all(edge.isdecimal() for edge in edges):
        word = "and" if int(edges[0]) < int(edges[1]) else "or"
        parts.append(f"(clock.time >= {edges[0]} {word} clock.time < {edges[1]})")
    elif edges:
        first, last = (_clock_text(scope, one) for one in (0 if after is None else after, before))
        since, till = f"{first} <= clock.text", f"clock.text < {last}"
        parts.append(f"(({since} and {till}) if {first} < {last} else ({since} or {till}))")
    elif after is not None:
        parts.append(f"{_clock_text(scope, after)} <= clock.text")
    if days := entries_under_key(text, "weekday"):
        if not all(day in WEEK for day in days):
            raise UnreadableAutomation(f"a condition is on the days {days}")
        parts.append(f"clock.weekday in ({', '.join(json.dumps(day) for day in days)},)")
    if not parts:
        raise UnreadableAutomation("a condition by time says no time")
    return join_with_and(parts)


def _plain_seconds(value: Any) -> str:
    """The seconds of a time of day as text; empty for that of a helper."""
    return "" if is_entity_id(value) else str(parse_time_of_day(value))


def _clock_text(scope: AutomationScope, value: Any) -> str:
    """A time of day as a text, `06:30:00`: told, or of a helper."""
    if is_entity_id(value):
        if not HELPER.fullmatch(value) or getattr(scope.facts.slot_type(value, "state"), "format", None) != "time":
            raise UnreadableAutomation(f"a time of day is that of {value}, which is no such helper here")
        return f"{device_reference(value)}.state"
    at = parse_time_of_day(value)
    return f'"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"'


def _read_sun_condition(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
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


def _read_template_condition(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if not isinstance(told := text.get("value_template"), str):
        raise UnreadableAutomation("a condition by a template has none")
    return scope.read_template_condition(told)


def _read_zone_condition(scope: AutomationScope, text: Mapping[str, Any]) -> str | bool:
    if entries_under_key(text, "zone") != ["zone.home"]:
        raise UnreadableAutomation("a condition is on a place, which is not known here")
    return join_with_and([scope.facts.is_state(one, [HOME]) for one in entities_under_key(text)])


CONDITION_READERS: dict[str, Callable[[AutomationScope, Mapping[str, Any]], str | bool]] = {
    **dict.fromkeys(("and", "or", "not"), _read_joined_conditions),
    "state": _read_state_condition,
    "numeric_state": _read_number_condition,
    "time": _read_time_condition,
    "sun": _read_sun_condition,
    "template": _read_template_condition,
    "trigger": lambda scope, text: bool(scope.ids & {str(one) for one in entries_under_key(text, "id")}),
    "zone": _read_zone_condition,
    "device": lambda scope, text: scope.read_condition(rewrite_device_condition(text)),
}


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
    found = list(_list_single_triggers(texts))
    if not found:
        raise UnreadableAutomation("it has no trigger that is enabled")
    return [one for place, text in enumerate(found) for one in _read_trigger(scope, text, str(place))]


def _list_single_triggers(texts: list[Any]) -> Iterator[Mapping[str, Any]]:
    for text in texts:
        if not isinstance(text, Mapping):
            raise UnreadableAutomation("a trigger is a template")
        if "triggers" in text and trigger_kind(text) in ("", "triggers"):
            yield from _list_single_triggers(entries_under_key(text, "triggers"))
        else:
            yield text


def trigger_kind(text: Mapping[str, Any]) -> str:
    """The kind of a trigger."""
    return str(text.get("trigger") or text.get("platform") or "")


def comes_from_outside(text: Mapping[str, Any]) -> bool:
    """Whether nothing in the home sets off a trigger: it is by something outside, or by events that nothing in it fires."""
    kind, events = trigger_kind(text), entries_under_key(text, "event_type")
    if kind == "event":
        known = all(isinstance(one, str) and "{" not in one and not is_left_out(one) for one in events)
        return bool(events) and known and INNER.isdisjoint(events)
    return kind in OUTER or (kind == "device" and is_outside_trigger(text))


def _read_trigger(scope: AutomationScope, text: Mapping[str, Any], place: str) -> Iterator[RuleTrigger]:
    kind = trigger_kind(text)
    if comes_from_outside(text):
        return
    if kind not in TRIGGER_READERS:
        raise UnreadableAutomation(f"a trigger of the kind '{kind}' is not known here")
    require_fully_read(text, "a trigger")
    ids = frozenset(str(one) for one in entries_under_key(text, "id")) or frozenset([place])
    for one in TRIGGER_READERS[kind](scope, text):
        names = {"platform": kind, "id": sorted(ids)[0], "idx": place, **one.names}
        known = replace(scope, ids=frozenset(), names={**scope.names, "trigger": names})
        define_variables(known, text.get("variables"), known=True)
        yield RuleTrigger(one.conditions, one.hold, one.given, ids, known.names)


def _read_state_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    for entity in entities_under_key(text):
        if entity == SUN and "attribute" not in text:
            yield from _sun_reaches(scope, text)
        else:
            yield from _read_changes(scope, text, entity)


def _sun_reaches(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    wanted = entries_under_key(text, "to") or [
        {"above_horizon": "below_horizon"}.get(one, "above_horizon") for one in entries_under_key(text, "from")
    ]
    found = [event for event, state in EVENTS.items() if state in wanted]
    if not found or len(found) != len(wanted) or text.get("for") is not None:
        raise UnreadableAutomation("a trigger is by the sun in a way that is not known here")
    for event in found:
        yield from _read_sun_trigger(scope, {"event": event})


def _read_changes(
    scope: AutomationScope, text: Mapping[str, Any], entity: str, past: str | None = None
) -> Iterator[RuleTrigger]:
    """That an entity, or an attribute of it, changes to, or from, some states; with `past`, from this state alone."""
    hold, attribute, facts = parse_duration(text.get("for")), text.get("attribute"), scope.facts
    said = {key: entries_under_key(text, key) for key in ("to", "from", "not_to", "not_from")}
    said = {key: values for key, values in said.items() if values and values != [None]}
    if any(ANY in values or None in values for values in said.values()):
        raise UnreadableAutomation("a trigger by state acts on any state")
    origins = said.get("from", []) if past is None else [past]
    if attribute is None and past is None and scope.tells_past and len(origins) != 1:
        pasts = _states_before(facts, entity, said)
        for one in pasts:
            yield from _read_changes(scope, text, entity, one)
        if pasts:
            return

    def among(values: list[Any]) -> str:
        if attribute is None:
            return facts.is_state(entity, values)
        return " or ".join(f"({facts.is_attribute_value(entity, attribute, value)})" for value in values)

    names = {"entity_id": entity, "attribute": attribute, "for": None, "from_state": _state_as_named(entity, _raise_past)}
    if attribute is None and len(origins) == 1:
        names |= {"from_state": _state_as_named(entity, origins[0])}
    if said.keys() == {"to"} and past is None:
        for value in dict.fromkeys(said["to"]):
            yield RuleTrigger((among([value]),), hold, names=names | _names_of_new_state(entity, attribute, value))
        return
    if said.keys() == {"from"} and len(said["from"]) == 1:
        named = names | _names_of_new_state(entity, attribute, None)
        yield RuleTrigger((f"not ({among(said['from'])})",), hold, names=named)
        return
    everything = not text.keys() & {"to", "from", "not_to", "not_from", "attribute"}
    if hold and (everything or ("from" in said and "to" not in said)):
        raise UnreadableAutomation("a trigger by any change has 'for', which is not known here")
    lines = [f"changed = {facts.watched_paths(entity, attribute, everything)}"]
    before = {"from": said.get("from"), "not_from": said.get("not_from")} if past is None else {"from": [past]}
    for key, form in (("from", "{}"), ("not_from", "not ({})")):
        lines += [f"before = {form.format(among(values))}"] if (values := before.get(key)) else []
    lines += [f"not ({among(said['not_to'])})"] if "not_to" in said else []
    for value in dict.fromkeys(said.get("to", [None])):
        more = [among([value])] if "to" in said else []
        yield RuleTrigger((*lines, *more), hold, names=names | _names_of_new_state(entity, attribute, value))


def _states_before(facts: HomeFacts, entity: str, said: Mapping[str, list[Any]]) -> list[str]:
    """The states from which an entity may come to what a trigger says; empty where they are not known, or are too many."""
    kind = facts.slot_type(entity, "state")
    known = [one for one in kind.options or () if isinstance(one, str)] if not kind.nullable else []
    found = [one for one in said.get("from", known) if one not in said.get("not_from", ())]
    return found if all(isinstance(one, str) for one in found) and len(found) <= MOST_STATES else []


def _names_of_new_state(entity: str, attribute: str | None, value: Any) -> dict[str, Any]:
    """What templates read of the state to which an entity has come."""
    known = attribute is None and value is not None
    if not known:
        return {"to_state": TemplateValue("entity", entity=entity)}
    return {"to_state": _state_as_named(entity, value) | {"attributes": TemplateValue("attributes", entity=entity)}}


def _raise_past() -> Any:
    raise UnreadableAutomation("a template reads the state before, which a trigger does not name")


def _state_as_named(entity: str, state: Any) -> dict[str, Any]:
    """What templates read of a state of an entity that a trigger names."""
    return {"state": state, **entity_identity(entity)}


def _read_number_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    for entity, test in _number_tests(scope.facts, text, {}):
        lines: tuple[str, ...] = (test,)
        if {*READ_BY_TEST.findall(test)} - {entity}:  # a change of what else it reads sets off nothing
            everything = text.get("value_template") is not None
            watched = scope.facts.watched_paths(entity, text.get("attribute"), everything)
            lines = (f"changed = {watched}", f"becomes = {test}")
        names = _names_of_new_state(entity, "", None) | {"entity_id": entity}
        yield RuleTrigger(lines, parse_duration(text.get("for")), names=names)


def _read_time_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    if not (times := entries_under_key(text, "at")):
        raise UnreadableAutomation("a trigger by time says no time")
    days = entries_under_key(text, "weekday")
    if not all(day in QUARTZ for day in days):
        raise UnreadableAutomation(f"a trigger is on the days {days}")
    for at in times:
        if is_entity_id(at):
            yield from _read_helper_trigger(scope, at, days)
        else:
            yield RuleTrigger((f"time_cron = {daily_cron(parse_time_of_day(at), days)}",))


def _read_helper_trigger(scope: AutomationScope, entity: str, days: list[str]) -> Iterator[RuleTrigger]:
    """That the clock shows what a helper does, which people set to whole minutes."""
    form = getattr(scope.facts.slot_type(entity, "state"), "format", None)
    shown = {"time": "clock.text", "datetime": "clock.moment"}.get(str(form))
    if shown is None or not entity.startswith("input_datetime."):
        raise UnreadableAutomation(f"a trigger is at '{entity}', which is no time of day")
    week = ",".join(str(QUARTZ[day]) for day in days)
    each_minute = f"0 * * ? * {week} *" if week else "0 * * * * ? *"
    yield RuleTrigger((f"time_cron = {each_minute}",), given=(f"{device_reference(entity)}.state == {shown}",))


def daily_cron(at: int, days: list[str]) -> str:
    """A time of day (s) on some days, or on each."""
    week = ",".join(str(QUARTZ[day]) for day in days) or "*"
    time = f"{at % 60} {at // 60 % 60} {at // 3600}"
    return f"{time} ? * {week} *" if week != "*" else f"{time} * * ? *"


def _read_pattern_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
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


def _read_sun_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    event = str(text.get("event"))
    at = scope.facts.sun_time(event, parse_offset(text.get("offset"))) % 86400
    yield RuleTrigger((f"time_cron = {daily_cron(at, [])}",), names={"event": event})


def _read_template_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    if not isinstance(told := text.get("value_template"), str):
        raise UnreadableAutomation("a trigger by a template has none")
    test = AutomationScope(scope.facts, names=dict(scope.names)).read_template_condition(told, OF_TRIGGER)
    if isinstance(test, str):
        yield RuleTrigger((test,), parse_duration(text.get("for")))


def _read_device_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    plain = rewrite_device_trigger(text)
    yield from TRIGGER_READERS[plain["trigger"]](scope, plain)


def _read_target_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    plain = rewrite_target_trigger(text)
    if plain["entity_id"]:  # an area may hold none
        yield from _read_state_trigger(scope, plain)


def _read_zone_trigger(scope: AutomationScope, text: Mapping[str, Any]) -> Iterator[RuleTrigger]:
    if entries_under_key(text, "zone") != ["zone.home"] or text.get("event") not in ("enter", "leave", None):
        raise UnreadableAutomation("a trigger is at a place, which is not known here")
    key = "from" if text.get("event") == "leave" else "to"
    yield from _read_state_trigger(scope, {"entity_id": text.get("entity_id"), key: HOME})


TRIGGER_READERS: dict[str, Callable[[AutomationScope, Mapping[str, Any]], Iterator[RuleTrigger]]] = {
    "state": _read_state_trigger,
    "numeric_state": _read_number_trigger,
    "time": _read_time_trigger,
    "time_pattern": _read_pattern_trigger,
    "sun": _read_sun_trigger,
    "template": _read_template_trigger,
    "device": _read_device_trigger,
    "zone": _read_zone_trigger,
    **dict.fromkeys(TARGET_TRIGGERS, _read_target_trigger),
}
