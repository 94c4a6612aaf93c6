"""The entities of a home: what its devices are in Home Assistant.

A part of a device is one entity, by `table.yaml`. Attributes and services that this entity does not use are entities of
their own. An imported home keeps its names, areas and floors. The aliases of a device belong to its main entity. A device in
no room is in no area.

Invariants: the entities of a home are a pure function of its plan; an entity belongs to one device; every attribute of a
device belongs to at most one entity; ids are unique.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from homerl.envs.homeenv.sim.assist.value_translation import EntityKind, Way, domain_rules, translation_table, value_as_share
from homerl.envs.homeenv.sim.devices.device_spec import Component, Device, DeviceSpec, unused_id
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import AVAILABLE, SAME, FixedPlan, Storey
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE, ValueType

TEXTS = {True: "on", False: "off", None: "unknown"}
DEAD = ("unavailable", "unknown")  # states in which Home Assistant shows no values
AS_THERE = "ha_"  # begins the `spid` of products in Home Assistant's shape
FLOORS = ("Ground floor", "First floor", "Second floor", "Third floor", "Fourth floor")


@dataclass(frozen=True)
class EntityCall:
    """A service call on an entity's device."""

    service: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EntitySetting:
    """What sets a value: a service, the name of its argument (None: its only one), and the argument's type."""

    service: str
    argument: str | None
    kind: ValueType


@dataclass(frozen=True)
class EntityShape:
    """An entity of a product: which part it is, what it does, and where its state is read.

    `suffix` follows the device's name. `before` holds a step that a value needs first. `shows` maps Home Assistant's
    attributes to ours, and `units` some of them to those that tell their unit. `whole`: the product is of Home Assistant's
    shape.
    """

    part: str
    suffix: str
    domain: str
    device_class: str | None = None
    unit: str | None = None
    acts: Mapping[str, EntityCall] = field(default_factory=dict)
    sets: Mapping[str, EntitySetting] = field(default_factory=dict)
    before: Mapping[str, EntityCall] = field(default_factory=dict)
    state: str | None = None
    states: Mapping[Any, str] = field(default_factory=dict)
    mode: str | None = None
    running: str | None = None
    shows: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True)
class AssistArea:
    """A room as an area, with all its names."""

    room: Room
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that is told first."""
        return self.names[0]


@dataclass(frozen=True)
class AssistEntity:
    """An entity of a home. `area` is None for what is in no room."""

    id: str
    names: tuple[str, ...]
    area: AssistArea | None
    device: Device
    shape: EntityShape

    @property
    def name(self) -> str:
        """The name that agents read first."""
        return self.names[0]

    @property
    def domain(self) -> str:
        """Home Assistant's domain."""
        return self.shape.domain

    def state_text(self, home: Home) -> str:
        """The state as Home Assistant writes it."""
        shape, did = self.shape, self.device.did
        if shape.whole and AVAILABLE in self.device.spec.readable_attributes and home.read_value(did, AVAILABLE) is False:
            return "unavailable"
        if shape.state is None:
            return "unknown"
        value = home.read_value(did, shape.state)
        if not shape.whole and shape.state == f"{shape.part}{STATE}":
            value = self.device.spec.attribute_index[shape.state][1].word_of_value(value)
        plain = value is None or isinstance(value, (str, int, float))  # others, such as lists, are no keys of a table
        # `else` in the table stands for all values that it does not list.
        known = shape.states.get(value, shape.states.get("else")) if plain else None
        text = _state_of_value(value) if known is None else known
        if text == "on" and shape.mode:
            return _state_of_value(home.read_value(did, shape.mode))
        return shape.running if text == "on" and shape.running else text

    def shown_attributes(self, home: Home) -> dict[str, Any]:
        """The attributes that Home Assistant shows to agents."""
        rules, state = translation_table().domains.get(self.domain), self.state_text(home)
        off = rules is not None and bool(rules.while_on) and state == "off"
        found: dict[str, Any] = {}
        for name, path in {} if self.shape.whole and state in DEAD else self.shape.shows.items():
            # Home Assistant keeps such an attribute in the list while the entity is off, with null as its value.
            dark = off and rules is not None and name in rules.while_on
            found |= self._show_attribute(name, path, None if dark else home.read_value(self.device.did, path))
            if name in self.shape.units:
                unit = self.device.spec.attribute_index[path][1].unit or "celsius"
                found[self.shape.units[name]] = translation_table().units.get(unit, unit)
        if self.shape.unit:
            found["unit_of_measurement"] = self.shape.unit
        return found | ({"device_class": self.shape.device_class} if self.shape.device_class else {})

    def _show_attribute(self, name: str, path: str, value: Any) -> dict[str, Any]:
        if name == "brightness" and self.shape.whole:
            return {name: None} if value is None else _brightness_texts(value, round(value / 2.55))
        if name not in ("brightness", "percentage", "current_position", "volume_level"):
            return {name: str(value) if isinstance(value, int) else value}
        kind = self.device.spec.attribute_index[path][1]
        if (share := value_as_share(value, kind)) is None:
            return {name: None}
        if name == "brightness":  # Home Assistant counts brightness from 0 to 255
            raw = value if kind.range and kind.range[1] == 255 else round(share * 2.55)
            return _brightness_texts(raw, share)
        return {name: share / 100 if name == "volume_level" else str(share)}


def _brightness_texts(raw: int, share: int) -> dict[str, str]:
    """A brightness from 0 to 255, and its share of 100, as texts. A lamp that is on has never a share of 0."""
    return {"brightness": str(raw), "brightness_pct": str(max(share, 1) if raw else share)}


def _state_of_value(value: Any) -> str:
    return TEXTS[value] if value is None or isinstance(value, bool) else str(value)


def areas_of_plan(plan: FixedPlan) -> tuple[AssistArea, ...]:
    """The areas of a home: its rooms, but for the one of what is in no room."""
    known = plan.origin.rooms if plan.origin else {}
    return tuple(AssistArea(room, (room.name, *known.get(room.id, ()))) for room in plan.rooms if room.id != HOME)


def floors_of_plan(plan: FixedPlan) -> tuple[Storey, ...]:
    """The floors of a home. They follow from the rooms' numbers, where a single one is none and 0 is the ground floor."""
    if plan.origin and plan.origin.storeys:
        return plan.origin.storeys
    numbers = sorted({room.floor for room in plan.rooms if room.id != HOME})
    storeys = []
    for number in numbers if len(numbers) > 1 else ():
        name = FLOORS[number] if 0 <= number < len(FLOORS) else f"Floor {number}"
        rooms = tuple(room.id for room in plan.rooms if room.floor == number and room.id != HOME)
        storeys.append(Storey(id=name.lower().replace(" ", "_"), name=name, rooms=rooms))
    return tuple(storeys)


def entities_of_plan(plan: FixedPlan) -> tuple[AssistEntity, ...]:
    """All entities, in the order of the plan."""
    if (known := _entities_by_plan.get(plan.content_digest)) is not None:
        return known
    entities = []
    taken = {device.did for device in plan.devices}  # in an imported home they are ids of entities
    by_room = {area.room.id: area for area in areas_of_plan(plan)}
    for device in plan.devices:
        link = plan.origin.link_of_device(device.did) if plan.origin else SAME
        area = by_room.get(device.room.id)
        for shape in entity_shapes(device.spec):
            name = f"{link.name or device.name} {shape.suffix}".strip()
            names = (name,) if shape.suffix else (name, *link.aliases)
            if not shape.suffix and device.did.startswith(shape.domain + "."):
                id = device.did
            else:
                slug = f"{shape.domain}.{re.sub(r'[^0-9a-zA-Z]+', '_', name.lower()).strip('_') or 'entity'}"
                id = unused_id(slug, taken)
                taken.add(id)
            entities.append(AssistEntity(id, names, area, device, shape))
    if len(_entities_by_plan) >= MOST_KNOWN:  # a simple bound: training plays each home for a short time
        _entities_by_plan.clear()
    return _entities_by_plan.setdefault(plan.content_digest, tuple(entities))


# Kept by content: the forks of a home share its plan, and homes share products.
MOST_KNOWN = 64  # homes whose entities are kept
_entities_by_plan: dict[int, tuple[AssistEntity, ...]] = {}
_shapes_by_spec: dict[str, tuple[EntityShape, ...]] = {}


def entity_shapes(spec: DeviceSpec) -> tuple[EntityShape, ...]:
    """The entities of a product."""
    if (known := _shapes_by_spec.get(spec.content_digest)) is not None:
        return known
    if spec.spid.startswith(AS_THERE):
        return _shapes_by_spec.setdefault(spec.content_digest, (_shape_as_there(spec),))
    shapes: list[EntityShape] = []
    kinds = dict(spec.part_kinds)
    parts = [(prefix, part, kinds.get(prefix, spec.category)) for prefix, part in spec.parts_by_prefix()]
    mains = {prefix: _main_shape(spec, prefix, part, kind) for prefix, part, kind in parts}
    # Where only one part is an entity of its own, that entity has the name of the device alone.
    single = sum(main is not None for main in mains.values()) == 1
    for prefix, part, _ in parts:
        words = "" if single else _path_in_words(prefix)
        consumed: set[str] = set()
        if (found := mains[prefix]) is not None:
            shape, consumed = found
            shapes.append(replace(shape, suffix=words))
        shapes += _remaining_shapes(prefix, part, words, consumed)
    return _shapes_by_spec.setdefault(spec.content_digest, tuple(shapes))


def _shape_as_there(spec: DeviceSpec) -> EntityShape:
    """A product in Home Assistant's shape: one entity, whose attributes and services have Home Assistant's names.

    An imported product has the name of its domain, and its subcategory is its device class.
    """
    domain, names = domain_rules(spec.category), set(spec.readable_attributes)
    acts = {act: step for act, ways in domain.acts.items() if (step := _find_call("", spec, ways, {}))}
    sets = {what: setting for what, ways in domain.sets.items() if (setting := _find_setting("", spec, ways))}
    shows = {name: name for name in translation_table().shown if name in names}
    degrees = next((name for name in ("temperature", "current_temperature") if name in names), "")
    units = {degrees: domain.units["temperature"]} if degrees and "temperature" in domain.units else {}
    state = "state" if names & domain.state.keys() >= {"state"} else None
    unit = spec.attribute_index["state"][1].unit if state else None
    device_class = spec.userdata.subcategory if spec.name == spec.category else None
    return EntityShape(
        "", "", spec.category, device_class, translation_table().units.get(unit or "", unit), acts, sets, state=state,
        shows=shows, units=units, whole=True,
    )  # fmt: skip


def _path_in_words(path: str) -> str:
    return path.strip(".").replace(".", " ").replace("_", " ")


def _main_shape(spec: DeviceSpec, prefix: str, part: Component, kind: str) -> tuple[EntityShape, set[str]] | None:
    """The entity that a part is, and the names of the attributes and services that it takes in."""
    table, switches = translation_table(), spec.switch_services
    services = {service.name for service in part.services} | {path.removeprefix(prefix) for path in switches}
    rules = list(table.kinds.get(kind, ()))
    if kind in table.domains:  # a category that is a domain of Home Assistant is that domain
        named = [way if isinstance(way, str) else way[0] for ways in table.domains[kind].acts.values() for way in ways]
        named += [way.partition(":")[0] for ways in table.domains[kind].sets.values() for way in ways]
        rules.append(EntityKind(domain=kind, needs=tuple(named)))
    rules.append(EntityKind(domain="switch", needs=("turn_on",)))
    rule = next((rule for rule in rules if services & set(rule.needs)), None)
    if rule is None:
        return None
    domain = table.domains[rule.domain]
    names = [a.name for a in part.attributes]
    acts = {act: step for act, ways in domain.acts.items() if (step := _find_call(prefix, part, ways, switches))}
    sets = {what: setting for what, ways in domain.sets.items() if (setting := _find_setting(prefix, part, ways))}
    before = {what: step for what, way in domain.before.items() if (step := _find_call(prefix, part, (way,), {}))}
    state = next((name for name in domain.state if name in names), None)
    mode = next((name for name in rule.mode if name in names), None)
    shows = {shown: prefix + name for shown, ours in domain.shows.items() for name in ours if name in names}
    taken_in = {state, mode, *(path.removeprefix(prefix) for path in shows.values()), *domain.hidden}
    used = {step.service.removeprefix(prefix) for step in acts.values()}
    shape = EntityShape(
        prefix, "", rule.domain, rule.classes.get(spec.userdata.subcategory or "", rule.device_class), None, acts, sets,
        before, prefix + state if state else None, domain.state.get(state or "", {}), prefix + mode if mode else None,
        rule.running, shows, {name: unit for name, unit in domain.units.items() if name in shows},
    )  # fmt: skip
    return shape, {name for name in taken_in if name} | used


def _find_call(
    prefix: str, part: Component, ways: tuple[Way, ...], switches: Mapping[str, tuple[str, Any]]
) -> EntityCall | None:
    """The first way that the part has: a service that needs no argument but the given one, or what switches it so."""
    for way in ways:
        if isinstance(way, str) and prefix + way in switches:
            path, value = switches[prefix + way]
            return EntityCall(path, (value,))
        name, args = (way, ()) if isinstance(way, str) else (way[0], tuple(way[1:]))
        for service in part.services:
            needed = [argument for argument in service.arguments if argument.required]
            if service.name == name and len(needed) <= len(args) <= len(service.arguments):
                return EntityCall(prefix + name, args)
    return None


def _find_setting(prefix: str, part: Component, ways: tuple[str, ...]) -> EntitySetting | None:
    for way in ways:
        name, _, wanted = way.partition(":")
        for service in part.services:
            named = [a for a in service.arguments if a.name == wanted or not wanted]
            others = [a for a in service.arguments if a.required and a not in named]
            if service.name == name and named and not others and (wanted or len(service.arguments) == 1):
                first = named[0] is service.arguments[0]
                return EntitySetting(prefix + name, None if first else wanted, named[0])
    return None


def _remaining_shapes(prefix: str, part: Component, words: str, consumed: set[str]) -> Iterator[EntityShape]:
    """What the main entity of a part does not use, as entities of their own."""
    used = set(consumed)
    for attribute in part.attributes:
        if attribute.name in consumed or attribute.internal:
            continue
        name = f"{words} {_path_in_words(attribute.name)}".strip()
        path, setter = prefix + attribute.name, f"set_{attribute.name}"
        unit = translation_table().units.get(attribute.unit or "", attribute.unit)
        if _find_setting(prefix, part, (setter,)) is None:
            domain = "binary_sensor" if attribute.type == "bool" else "sensor"
            yield EntityShape(prefix, name, domain, translation_table().readings.get(attribute.name), unit, state=path)
        elif attribute.type == "bool":
            used.add(setter)
            acts = {"turn_on": EntityCall(prefix + setter, (True,)), "turn_off": EntityCall(prefix + setter, (False,))}
            yield EntityShape(prefix, name, "switch", acts=acts, state=path)
        else:
            used.add(setter)
            domain = "select" if attribute.options else "number" if attribute.type in ("int", "float") else "text"
            yield EntityShape(prefix, name, domain, unit=unit if domain == "number" else None, state=path)
    for service in part.services:
        if service.name not in used and not any(argument.required for argument in service.arguments):
            name = f"{words} {_path_in_words(service.name)}".strip()
            yield EntityShape(prefix, name, "button", acts={"turn_on": EntityCall(prefix + service.name)})


def is_out_of_reach(spec: DeviceSpec) -> bool:
    """Whether a product has services, and no intent of Home Assistant reaches any of them."""
    return bool(spec.service_index) and not any(shape.acts or shape.sets for shape in entity_shapes(spec))
