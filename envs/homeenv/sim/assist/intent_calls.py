"""What an intent does: its slots as Home Assistant reads them, and the service calls that follow.

Invariant: a call of an intent either makes all calls of an entity, or none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api
from homerl.envs.homeenv.sim.assist.entities_of_home import AssistEntity, EntityCall, EntitySetting
from homerl.envs.homeenv.sim.assist.entity_matching import EntityConstraints, MatchedEntities, NoMatch, match_entities
from homerl.envs.homeenv.sim.assist.value_translation import (
    IntentRules,
    domain_rules,
    rgb_of_colour,
    to_service_value,
    translation_table,
    value_as_share,
)
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused

LISTS = {"domain", "device_class"}
STEP = 10  # by which "up" and "down" change a volume


class IntentFailed(Exception):
    """An intent failed. `rule` is the auditor's rule, the text is Home Assistant's."""

    def __init__(self, rule: str, text: str) -> None:
        self.rule = rule
        super().__init__(text)


@dataclass(frozen=True)
class IntentSlots:
    """The slots of a call: which entities are meant, and the values by what they set."""

    wanted: EntityConstraints
    values: Mapping[str, Any]


def read_intent_slots(tool: str, arguments: Mapping[str, Any]) -> IntentSlots:
    """The slots of a tool call. Blank and unknown ones are ignored. Raises `Failed` for a value that no slot takes."""
    act = translation_table().tools[tool]
    schema = latest_recorded_api().tools[tool]["inputSchema"]
    given = {key: value for key, value in arguments.items() if not _blank(value)}
    texts = {slot: _text(tool, given[slot]) for slot in ("name", "area", "floor") if slot in given}
    sets = {slot: _words(tool, given[slot], schema["properties"].get(slot, {})) for slot in LISTS & given.keys()}
    values = {
        what: _value(tool, given[slot], what, schema["properties"][slot])
        for slot, what in act.value_slots.items()
        if slot in given
    }
    missing = [slot for slot in schema.get("required", ()) if slot not in given]
    if missing:
        raise invalid_slots(tool, "missing_argument")
    name = texts.get("name")
    wanted = EntityConstraints(
        name=None if name == "all" else name,
        area=texts.get("area") if "area" in act.by else None,
        floor=texts.get("floor") if "floor" in act.by else None,
        domains=sets.get("domain") or frozenset(act.domains),
        device_classes=sets.get("device_class") or frozenset(),
        states=frozenset(act.states),
        needs=act.needs,
        feature=act.feature,
        one=act.one,
    )
    return IntentSlots(wanted, values)


def invalid_slots(tool: str, rule: str = "wrong_type") -> IntentFailed:
    """The failure of a call whose slots are not valid."""
    return IntentFailed(rule, f"Received invalid slot info for {tool.rpartition('__')[2]}")


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _text(tool: str, value: Any) -> str:
    if isinstance(value, (dict, list)):
        raise invalid_slots(tool)
    return str(value)


def _words(tool: str, value: Any, schema: Mapping[str, Any]) -> frozenset[str]:
    """A list of words, or a word that stands for one."""
    words = value if isinstance(value, list) else [value]
    known = schema.get("items", {}).get("enum")
    if any(not isinstance(word, str) for word in words):
        raise invalid_slots(tool)
    if known is not None and not set(words) <= set(known):
        raise invalid_slots(tool, "out_of_range")
    return frozenset(words)


def _value(tool: str, value: Any, what: str, schema: Mapping[str, Any]) -> Any:
    """A slot's value as its schema has it: a text that is a number is one."""
    parts = [schema, *schema.get("allOf", ()), *schema.get("anyOf", ())]
    words = [word for part in parts for word in part.get("enum", ())]
    if value in words:
        return value
    if what == "color":
        if not isinstance(value, str) or rgb_of_colour(value) is None:
            raise invalid_slots(tool, "out_of_range")
        return value
    kinds = {part["type"] for part in parts if "type" in part}
    if not kinds & {"integer", "number"}:
        return _text(tool, value)
    return _number(tool, value, "integer" in kinds, parts)


def _number(tool: str, value: Any, whole: bool, parts: list[Mapping[str, Any]]) -> int | float:
    try:
        number = int(value) if whole else float(value)
    except (TypeError, ValueError, OverflowError):
        raise invalid_slots(tool) from None
    low = max((part["minimum"] for part in parts if "minimum" in part), default=None)
    high = min((part["maximum"] for part in parts if "maximum" in part), default=None)
    if number != number or (low is not None and number < low) or (high is not None and number > high):
        raise invalid_slots(tool, "out_of_range")
    return number


def match_intent_targets(home: Home, tool: str, slots: IntentSlots) -> MatchedEntities:
    """The entities that a call means. Raises `Failed`."""
    wanted = slots.wanted
    if not (wanted.name or wanted.area or wanted.floor or wanted.domains or wanted.device_classes):
        raise IntentFailed("missing_argument", "Service handler cannot target all devices")
    try:
        return match_entities(home, wanted)
    except NoMatch as none:
        rules = {"no_area": "unknown_room", "no_floor": "unknown_room"}
        raise IntentFailed(rules.get(none.reason, "unknown_device"), str(none)) from None


def calls_of_intent(
    home: Home, tool: str, entity: AssistEntity, values: Mapping[str, Any], always: bool = False
) -> list[EntityCall]:
    """The service calls that an intent makes on an entity. Raises `Refused` if there are none that can make it.

    With `always`, they begin with the call that switches the entity on, even if it is on.
    """
    act, acts = translation_table().tools[tool], entity.shape.acts
    stepped = {what: _stepped(home, entity, what, values[what]) for what in act.steps.values() if what in values}
    values = {**values, **stepped}
    if any(values.get(what) == 0 for what in ("brightness", "percentage")) and "turn_off" in acts:
        return [acts["turn_off"]]
    able = {what: value for what, value in values.items() if what in entity.shape.sets}
    rules = domain_rules(entity.domain)
    if lost := [what for what in values.keys() - able.keys() if rules.instead.get(what) in entity.shape.sets]:
        raise Refused("unknown_service", f"{entity.id} does not support {', '.join(sorted(lost))}")
    if not able:
        if act.act is None or act.act not in acts:
            raise Refused("unknown_service", f"{entity.id} does not support {act.act or ', '.join(act.value_slots)}")
        return [acts[act.act]]
    found = [] if _awake(home, entity) and not always else [acts["turn_on"]] if _wakes(entity, able) else []
    found += [entity.shape.before[what] for what in able if what in entity.shape.before]
    chosen = ((entity.shape.sets[what], what, value) for what, value in able.items())
    return found + _merged(
        (
            setting,
            to_service_value(what, setting.kind.nearest_in_range(value) if rules.is_clamped(what) else value, setting.kind),
        )
        for setting, what, value in chosen
    )


def _merged(pairs: Iterator[tuple[EntitySetting, Any]]) -> list[EntityCall]:
    """Settings as calls. Named arguments of one service are one call."""
    found: list[EntityCall] = []
    named: dict[str, dict[str, Any]] = {}
    for setting, value in pairs:
        if setting.argument is None:
            found.append(EntityCall(setting.service, (value,)))
        else:
            named.setdefault(setting.service, {})[setting.argument] = value
    return found + [EntityCall(service, (), kwargs) for service, kwargs in named.items()]


def _wakes(entity: AssistEntity, values: Mapping[str, Any]) -> bool:
    return "turn_on" in entity.shape.acts and not set(translation_table().domains[entity.domain].wakes).isdisjoint(values)


def _awake(home: Home, entity: AssistEntity) -> bool:
    """Whether an entity is on. One whose values are arguments of its service `turn_on` needs no call of its own."""
    named = any(setting.argument for setting in entity.shape.sets.values())
    return entity.state_text(home) != "off" or (named and entity.domain == "light")


def _stepped(home: Home, entity: AssistEntity, what: str, step: Any) -> int:
    """The value after a step up or down, from 0 to 100."""
    path = entity.shape.shows.get("volume_level")
    kind = entity.device.spec.attribute_index[path][1] if path else None
    now = value_as_share(home.read_value(entity.device.did, path), kind) if path and kind else None
    by = {"up": STEP, "down": -STEP}.get(step, step) if isinstance(step, str) else step
    return max(0, min(100, (now or 0) + int(by)))


def make_entity_calls(home: Home, entity: AssistEntity, found: list[EntityCall]) -> None:
    """Make the calls, all or none. Raises `Refused`."""
    if len(found) > 1:
        trial = home.fork()
        for step in found:
            trial.call(entity.device.did, step.service, step.args, step.kwargs)
    for step in found:
        home.call(entity.device.did, step.service, step.args, step.kwargs)


def needed_domains(act: IntentRules) -> tuple[str, ...]:
    """The domains of which a home must have one for the tool to be offered; none if it always is."""
    return act.offered or act.domains
