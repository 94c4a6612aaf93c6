"""Which entities the slots of an intent mean, as Home Assistant matches them.

The filters run in Home Assistant's order: domains, states, name, abilities, device classes, floor, area. Names match without
case. An entity, an area and a floor are meant by any of their names, and by their id.

Invariant: a match has an entity, or `NoMatch` says in Home Assistant's words which filter left none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
