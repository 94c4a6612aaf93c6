"""Which entities the slots of an intent mean, as Home Assistant matches them.

The filters run in Home Assistant's order: domains, states, name, abilities, device classes, floor, area. Names match without
case. An entity, an area and a floor are meant by any of their names, and by their id.

Invariant: a match has an entity, or `NoMatch` says in Home Assistant's words which filter left none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from homerl.envs.homeenv.sim.assist.entities_of_home import (
    AssistArea,
    AssistEntity,
    areas_of_plan,
    entities_of_plan,
    floors_of_plan,
)
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.import_origin import Storey

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
        given = wanted.describe_constraints()
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

    def describe_constraints(self) -> str:
        """The constraints, as Home Assistant lists them."""
        named = (("name", self.name), ("area", self.area), ("floor", self.floor))
        sets = (("domains", self.domains), ("device classes", self.device_classes), ("states", self.states))
        parts = [f"{label} {value!r}" for label, value in named if value]
        parts += [f"{label} {', '.join(sorted(values))}" for label, values in sets if values]
        return ", ".join(parts + ([f"features {self.feature}"] if self.feature else []))


@dataclass(frozen=True)
class MatchedEntities:
    """The entities that are meant, and the floors or areas that were named."""

    entities: tuple[AssistEntity, ...]
    floors: tuple[Storey, ...] = ()
    areas: tuple[AssistArea, ...] = ()


def match_entities(home: Home, wanted: EntityConstraints) -> MatchedEntities:
    """The entities that are meant. Raises `NoMatch`."""
    found = list(entities_of_plan(home.plan))
    found = _kept(found, "domain", wanted, lambda e: not wanted.domains or e.domain in wanted.domains)
    found = _kept(found, "state", wanted, lambda e: not wanted.states or e.state_text(home) in wanted.states)
    if wanted.name:
        found = _kept(found, "name", wanted, lambda e: _called(e.id, e.names, wanted.name))
    if wanted.needs:
        found = _kept(found, "feature", wanted, lambda e: wanted.needs in e.shape.acts or wanted.needs in e.shape.sets)
    if wanted.device_classes:
        found = _kept(found, "device_class", wanted, lambda e: e.shape.device_class in wanted.device_classes)
    floors: list[Storey] = []
    if wanted.floor:
        floors = [one for one in floors_of_plan(home.plan) if _called(one.id, (one.name, *one.aliases), wanted.floor)]
        if not floors:
            raise NoMatch("no_floor", wanted)
        above = {room for floor in floors for room in floor.rooms}
        found = _kept(found, "floor", wanted, lambda e: e.area is not None and e.area.room.id in above)
    places: list[AssistArea] = []
    if wanted.area:
        places = [area for area in areas_of_plan(home.plan) if _called(area.room.id, area.names, wanted.area)]
        if not places:
            raise NoMatch("no_area", wanted)
        found = _kept(found, "area", wanted, lambda e: e.area in places)
    if wanted.name and not wanted.duplicates:
        found = _told_apart(home, found, wanted)
    if wanted.one and len(found) > 1:
        found = _preferred(home, found)
        if len(found) != 1:
            raise NoMatch("several", wanted)
    return MatchedEntities(tuple(found), tuple(floors), tuple(places))


def is_same_name(name: str, called: str | None) -> bool:
    """Whether two names are one: case and outer spaces do not matter."""
    return called is not None and name.strip().casefold() == called.strip().casefold()


def _called(id: str, names: Sequence[str], by: str | None) -> bool:
    """Whether something is meant by its id, or by one of its names."""
    return id == by or any(is_same_name(name, by) for name in names)


def _kept(found: Sequence[AssistEntity], reason: str, wanted: EntityConstraints, fits) -> list[AssistEntity]:  # type: ignore[no-untyped-def]
    kept = [entity for entity in found if fits(entity)]
    if not kept:
        raise NoMatch(reason, wanted)
    return kept


def _told_apart(home: Home, found: list[AssistEntity], wanted: EntityConstraints) -> list[AssistEntity]:
    """The one entity of a name. Of several, the one in the area where the person speaks."""
    if len(found) > 1:
        found = _preferred(home, found)
    if len(found) > 1 or Counter(e.name for e in found).most_common(1)[0][1] > 1:
        raise NoMatch("several_named", wanted)
    return found


def _preferred(home: Home, found: list[AssistEntity]) -> list[AssistEntity]:
    """Those in the area where the person speaks, if that leaves a single one."""
    near = [one for one in found if one.area and one.area.room == home.plan.entrance_room]
    return near if len(near) == 1 else found
