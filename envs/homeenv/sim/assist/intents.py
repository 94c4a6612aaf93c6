"""Intents, as Home Assistant reads them: which entities their slots mean, and which service calls follow.

The filters of entities run in Home Assistant's order: domains, states, name, abilities, device classes, floor, area. Names
match without case. An entity, an area and a floor are meant by any of their names, and by their id.

Invariants:
- A match has an entity, or `NoMatch` says in Home Assistant's words which filter left none.
- An intent either makes all its calls on an entity, or none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api
from homerl.envs.homeenv.sim.assist.entities_of_home import (
    AssistArea,
    AssistEntity,
    EntityCall,
    areas_of_plan,
    entities_of_plan,
    floors_of_plan,
)
from homerl.envs.homeenv.sim.assist.value_translation import (
    IntentRules,
    domain_rules,
    rgb_of_colour,
    to_service_value,
    translation_table,
    value_as_share,
)
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import Storey
from homerl.envs.homeenv.sim.values.auditor import Refused

REASONS = {
    "domain": "No entities matched the domain",
    "state": "No entities were in the required state",
    "name": "No entities matched the name",
    "feature": "No entities supported the required features",
    "device_class": "No entities matched the device class",
    "floor": "No entities were on the floor",
    "area": "No entities were in the area",
    "no_floor": "The floor does not exist",
    "no_area": "The area does not exist",
    "several_named": "Multiple entities share the name",
    "several": "Multiple entities matched, but a single target is required",
}


class NoMatch(Exception):
    """Nothing was matched. `reason` is a key of `REASONS`."""

    def __init__(self, reason: str, wanted: EntityConstraints) -> None:
        named = (("name", wanted.name), ("area", wanted.area), ("floor", wanted.floor))
        sets = (("domains", wanted.domains), ("device classes", wanted.device_classes), ("states", wanted.states))
        parts = [f"{label} {value!r}" for label, value in named if value]
        parts += [f"{label} {', '.join(sorted(values))}" for label, values in sets if values]
        given = ", ".join(parts + ([f"features {wanted.feature}"] if wanted.feature else []))
        self.reason = reason
        super().__init__(f"{REASONS[reason]} (given {given})" if given else REASONS[reason])


@dataclass(frozen=True)
class EntityConstraints:
    """What must be true of an entity. None and the empty set ask for nothing.

    `needs` is an ability, and `feature` Home Assistant's number for it. With `one`, a single entity must be left.
    """

    name: str | None = None
    area: str | None = None
    floor: str | None = None
    domains: frozenset[str] = frozenset()
    device_classes: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    needs: str | None = None
    feature: int | None = None
    one: bool = False
    duplicates: bool = False


@dataclass(frozen=True)
class MatchedEntities:
    """The entities that are meant, and the floors or areas that were named."""

    entities: tuple[AssistEntity, ...]
    floors: tuple[Storey, ...] = ()
    areas: tuple[AssistArea, ...] = ()


def match_entities(home: Home, wanted: EntityConstraints) -> MatchedEntities:
    """The entities that are meant. Raises `NoMatch`."""
    found = list(entities_of_plan(home.plan))

    def keep(reason: str, fits: Callable[[AssistEntity], bool]) -> None:
        found[:] = filter(fits, found)
        if not found:
            raise NoMatch(reason, wanted)

    # The first filter that leaves no entity names the reason of the failure, so their order matters.
    keep("domain", lambda e: not wanted.domains or e.domain in wanted.domains)
    keep("state", lambda e: not wanted.states or e.state_text(home) in wanted.states)
    if wanted.name:
        keep("name", lambda e: _is_meant_by(e.id, e.names, wanted.name))
    if wanted.needs:
        keep("feature", lambda e: wanted.needs in e.shape.acts or wanted.needs in e.shape.sets)
    if wanted.device_classes:
        keep("device_class", lambda e: e.shape.device_class in wanted.device_classes)
    floors: list[Storey] = []
    if wanted.floor:
        floors = [f for f in floors_of_plan(home.plan) if _is_meant_by(f.id, (f.name, *f.aliases), wanted.floor)]
        if not floors:
            raise NoMatch("no_floor", wanted)
        above = {room for floor in floors for room in floor.rooms}
        keep("floor", lambda e: e.area is not None and e.area.room.id in above)
    places: list[AssistArea] = []
    if wanted.area:
        places = [area for area in areas_of_plan(home.plan) if _is_meant_by(area.room.id, area.names, wanted.area)]
        if not places:
            raise NoMatch("no_area", wanted)
        keep("area", lambda e: e.area in places)
    if wanted.name and not wanted.duplicates:
        found = _prefer_near_entity(home, found)
        if len(found) > 1:
            raise NoMatch("several_named", wanted)
    if wanted.one and len(found) > 1:
        found = _prefer_near_entity(home, found)
        if len(found) > 1:
            raise NoMatch("several", wanted)
    return MatchedEntities(tuple(found), tuple(floors), tuple(places))


def is_same_name(name: str, called: str | None) -> bool:
    """Whether two names are one: case and outer spaces do not matter."""
    return called is not None and name.strip().casefold() == called.strip().casefold()


def _is_meant_by(id: str, names: Sequence[str], by: str | None) -> bool:
    """Whether somebody means a thing by its id or by one of its names."""
    return id == by or any(is_same_name(name, by) for name in names)


def _prefer_near_entity(home: Home, found: list[AssistEntity]) -> list[AssistEntity]:
    """The one entity in the area where the person speaks; all of them if there is not exactly one."""
    near = [one for one in found if one.area and one.area.room == home.plan.entrance_room]
    return near if len(near) == 1 else found


# The slots of an intent, and the service calls that follow from them

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
    """The slots of a tool call. Blank and unknown ones are ignored. Raises `IntentFailed` for a value that no slot takes."""
    act = translation_table().tools[tool]
    schema = latest_recorded_api().tools[tool]["inputSchema"]
    blank = {key for key, value in arguments.items() if value is None or (isinstance(value, str) and not value.strip())}
    given = {key: value for key, value in arguments.items() if key not in blank}
    texts = {slot: _read_text(tool, given[slot]) for slot in ("name", "area", "floor") if slot in given}
    sets = {}
    for slot in [slot for slot in ("domain", "device_class") if slot in given]:  # a list of words, or a word alone
        words = given[slot] if isinstance(given[slot], list) else [given[slot]]
        known = schema["properties"].get(slot, {}).get("items", {}).get("enum")
        if any(not isinstance(word, str) for word in words):
            raise invalid_slots(tool)
        if known is not None and not set(words) <= set(known):
            raise invalid_slots(tool, "out_of_range")
        sets[slot] = frozenset(words)
    values = {
        what: _read_value(tool, given[slot], what, schema["properties"][slot])
        for slot, what in act.value_slots.items()
        if slot in given
    }
    if any(slot not in given for slot in schema.get("required", ())):
        raise invalid_slots(tool, "missing_argument")
    name = texts.get("name")
    wanted = EntityConstraints(
        # Home Assistant reads the name `all` as no name.
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


def _read_text(tool: str, value: Any) -> str:
    if isinstance(value, (dict, list)):
        raise invalid_slots(tool)
    return str(value)


def _read_value(tool: str, value: Any, what: str, schema: Mapping[str, Any]) -> Any:
    """The value of a slot in the type of its schema. A text may hold a number."""
    parts = [schema, *schema.get("allOf", ()), *schema.get("anyOf", ())]
    if value in [word for part in parts for word in part.get("enum", ())]:
        return value
    if what == "color":
        if not isinstance(value, str) or rgb_of_colour(value) is None:
            raise invalid_slots(tool, "out_of_range")
        return value
    kinds = {part["type"] for part in parts if "type" in part}
    if not kinds & {"integer", "number"}:
        return _read_text(tool, value)
    try:
        number = int(value) if "integer" in kinds else float(value)
    except (TypeError, ValueError, OverflowError):
        raise invalid_slots(tool) from None
    low = max((part["minimum"] for part in parts if "minimum" in part), default=None)
    high = min((part["maximum"] for part in parts if "maximum" in part), default=None)
    if number != number or (low is not None and number < low) or (high is not None and number > high):
        raise invalid_slots(tool, "out_of_range")
    return number


def match_intent_targets(home: Home, tool: str, slots: IntentSlots) -> MatchedEntities:
    """The entities that a call means. Raises `IntentFailed`."""
    wanted = slots.wanted
    if not (wanted.name or wanted.area or wanted.floor or wanted.domains or wanted.device_classes):
        raise IntentFailed("missing_argument", "Service handler cannot target all devices")
    try:
        return match_entities(home, wanted)
    except NoMatch as none:
        rule = "unknown_room" if none.reason in ("no_area", "no_floor") else "unknown_device"
        raise IntentFailed(rule, str(none)) from None


def calls_of_intent(
    home: Home, tool: str, entity: AssistEntity, values: Mapping[str, Any], always: bool = False
) -> list[EntityCall]:
    """The service calls that an intent makes on an entity. Raises `Refused` if no call can do what it asks for.

    With `always`, they begin with the call that switches the entity on, even if it is on.
    """
    act, acts = translation_table().tools[tool], entity.shape.acts
    stepped = {what: _volume_after_step(home, entity, values[what]) for what in act.steps.values() if what in values}
    values = {**values, **stepped}
    # Home Assistant switches off what is set to a brightness or a speed of 0.
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
    calls: list[EntityCall] = []
    # A light whose values are arguments of its service `turn_on` needs no call of its own to be on.
    turned_on_by_values = entity.domain == "light" and any(setting.argument for setting in entity.shape.sets.values())
    off = entity.state_text(home) == "off" and not turned_on_by_values
    if (off or always) and "turn_on" in acts and able.keys() & set(translation_table().domains[entity.domain].wakes):
        calls.append(acts["turn_on"])
    calls += [entity.shape.before[what] for what in able if what in entity.shape.before]
    named: dict[str, dict[str, Any]] = {}  # by service: its named arguments, which are one call
    for what, value in able.items():
        setting = entity.shape.sets[what]
        clamped = any(way.partition(":")[2] in rules.clamps for way in rules.sets[what])
        near = setting.kind.nearest_in_range(value) if clamped else value
        converted = to_service_value(what, near, setting.kind)
        if setting.argument is None:
            calls.append(EntityCall(setting.service, (converted,)))
        else:
            named.setdefault(setting.service, {})[setting.argument] = converted
    return calls + [EntityCall(service, (), arguments) for service, arguments in named.items()]


def _volume_after_step(home: Home, entity: AssistEntity, step: Any) -> int:
    """The volume (0 to 100) after a step, which is "up", "down" or a number."""
    now = None
    if path := entity.shape.shows.get("volume_level"):
        now = value_as_share(home.read_value(entity.device.did, path), entity.device.spec.attribute_index[path][1])
    by = {"up": STEP, "down": -STEP}.get(step, step) if isinstance(step, str) else step
    return max(0, min(100, (now or 0) + int(by)))


def make_entity_calls(home: Home, entity: AssistEntity, found: list[EntityCall]) -> None:
    """Make the calls, all or none. Raises `Refused`."""
    if len(found) > 1:  # a single call changes nothing if it is refused
        trial = home.fork()
        for step in found:
            trial.call(entity.device.did, step.service, step.args, step.kwargs)
    for step in found:
        home.call(entity.device.did, step.service, step.args, step.kwargs)


def needed_domains(act: IntentRules) -> tuple[str, ...]:
    """A tool is offered if the home has an entity of one of these domains; it is always offered if there are none."""
    return act.offered or act.domains
