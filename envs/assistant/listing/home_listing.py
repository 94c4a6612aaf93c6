"""What a Home Assistant says of its home, and the same as an importer can read it, whatever is written there.

Invariants:
- `sources` of a listing holds the answers as they were given, by command; all else is read from them. A listing written as
  JSON and read again is equal.
- A light that is off, or is told by an older version in mireds, gets what it can show; one that shows all stays as it is.
- Of a cleaned listing, a row that cannot be used is left out, and a value of another kind is read as a text or left out. A
  note says each, and tells no value. What Home Assistant gives stays as it is, and so does a tidy listing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeGuard

from pydantic import ConfigDict

from homerl.envs.core.model import Model

CONFIG = "get_config"
FLOORS = "config/floor_registry/list"
AREAS = "config/area_registry/list"
LABELS = "config/label_registry/list"
DEVICES = "config/device_registry/list"
REGISTERED = "config/entity_registry/list"
EXPOSED = "homeassistant/expose_entity/list"
STATES = "get_states"
FORMS = "get_services"  # by domain and service: the fields of its data, with their selectors
PLAIN = (CONFIG, FLOORS, AREAS, LABELS, DEVICES, REGISTERED, EXPOSED, STATES, FORMS)  # commands without fields
ENTRIES = "config/entity_registry/get_entries"  # by registered entity: its entry with aliases
SERVICES = "get_services_for_target"  # by entity: the services that it supports
AUTOMATIONS = "automation/config"  # by entity: an automation as its owner wrote it; None where it could not be read
SCRIPTS = "script/config"  # by entity: a script as its owner wrote it; empty where none could be read
HISTORY = "history/states"  # by entity that moves: the states in which it was; empty where there is no history
BESIDE = "homerl/beside"  # by entity: what a guard must know of it beside what is told of it (`entities_beside.py`)
ASSIST = "conversation"  # the assistant to which entities are exposed
ENTITY = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")  # the id of an entity, where other texts may stand too

SYSTEMS = {  # the units of a home by the name of its system
    "metric": {"temperature": "°C", "wind_speed": "m/s"},
    "us_customary": {"temperature": "°F", "wind_speed": "mph"},
}
SYSTEMS["imperial"] = SYSTEMS["us_customary"]  # as it was called before
DEGREES = ("°C", "°F")
TEMPERATURES = frozenset(  # attributes in the unit of the home, unless their entity tells its own
    "temperature current_temperature target_temp_low target_temp_high min_temp max_temp".split()
)
COLOURED = ("hs", "xy", "rgb", "rgbw", "rgbww")  # colour modes with a hue and a saturation, in whatever numbers
WITHOUT_BRIGHTNESS = ("onoff", "unknown")  # those without a brightness
WHITE = ("white", "rgbw", "rgbww")  # those with a white of their own, which is not known here
MIREDS = {  # millions by kelvin, as older versions tell it
    "color_temp": "color_temp_kelvin",
    "min_mireds": "max_color_temp_kelvin",
    "max_mireds": "min_color_temp_kelvin",
}
Row = Mapping[str, Any]
Read = Callable[[Any], Any]

ANY_ENTITY = re.compile(r"[^.]+\..+", re.DOTALL)  # the id of a row, whatever signs it has
YEARS = range(1971, 9999)  # in which a moment is one in every zone


class ImportNote(NamedTuple):
    """Something of an entity that was not understood: `part` is `attribute fan_speed` or `service turn_on`.

    It is `minor` if nobody would miss it: a value that the entity does not tell now, or a service that only reads.
    """

    entity: str
    part: str
    why: str
    minor: bool = False


class RegistryRow(Model):
    """A row of a registry, which has more keys."""

    model_config = ConfigDict(extra="ignore")


class ListedFloor(RegistryRow):
    """A floor, with the names that people give it; `level` 0 is the ground floor."""

    floor_id: str
    name: str
    aliases: tuple[str, ...]
    level: int | None = None


class ListedArea(RegistryRow):
    """A room, or another place."""

    area_id: str
    name: str
    aliases: tuple[str, ...]
    floor_id: str | None = None


class ListedEntity(Model):
    """One thing that has a state. Without a registry entry it has no area, device, labels or aliases."""

    entity_id: str
    name: str
    aliases: tuple[str, ...]
    area_id: str | None  # its own, else its device's
    device_id: str | None
    labels: tuple[str, ...]
    category: str | None  # `config` or `diagnostic`: of no interest to a speaker
    hidden: bool
    state: str
    attributes: dict[str, Any]
    services: tuple[str, ...]  # as `light.turn_on`
    lasts: int | None = None  # seconds for which it runs, of a script that tells
    past: tuple[str, ...] = ()  # the states in which it was, of one that moves
    units: dict[str, Any] = {}  # of its home, by quantity: `temperature` is `°F`
    zone: str | None = None  # of its home, such as `Europe/Berlin`

    @property
    def domain(self) -> str:
        """The kind of thing: `light`, `cover`."""
        return entity_domain(self.entity_id)


class Listing(Model):
    """The answers of one Home Assistant: its version, and for each command the result."""

    version: str
    sources: dict[str, Any]

    def with_sources(self, told: Mapping[str, Any]) -> Listing:
        """The listing with other answers to some commands."""
        return self.model_copy(update={"sources": {**self.sources, **told}})

    @property
    def floors(self) -> tuple[ListedFloor, ...]:
        """The floors, in their order there."""
        return tuple(map(ListedFloor.model_validate, self.sources[FLOORS]))

    @property
    def areas(self) -> tuple[ListedArea, ...]:
        """The areas, in their order there."""
        return tuple(map(ListedArea.model_validate, self.sources[AREAS]))

    @property
    def entities(self) -> tuple[ListedEntity, ...]:
        """Every entity that has a state, sorted by id."""
        return tuple(
            self._read_entity(state) for state in sorted(self.sources[STATES], key=lambda state: state["entity_id"])
        )

    def area_of_entity(self, entity: str) -> str | None:
        """The id of an entity's area: its own, else that of its device, or of the device that this is a part of."""
        entry = self.sources[ENTRIES].get(entity) or {}
        devices = {device["id"]: device for device in self.sources[DEVICES]}
        area, device = entry.get("area_id"), devices.get(entry.get("device_id"))
        seen: set[str] = set()  # a device may be said to be a part of itself
        while area is None and device is not None and device["id"] not in seen:
            seen.add(device["id"])
            area, device = device.get("area_id"), devices.get(device.get("parent_device_id"))
        return area

    def device_of_entity(self, entity: str) -> Mapping[str, Any]:
        """The row of an entity's device; empty if it has none."""
        id = (self.sources[ENTRIES].get(entity) or {}).get("device_id")
        return next((device for device in self.sources[DEVICES] if id is not None and device["id"] == id), {})

    def _read_entity(self, state: Mapping[str, Any]) -> ListedEntity:
        name, attributes = state["entity_id"], state["attributes"]
        entry = self.sources[ENTRIES].get(name) or {}
        services = tuple(self.sources[SERVICES].get(name, ()))
        domain, _, id = name.partition(".")
        id = str(entry.get("unique_id") or id)
        if domain == "script" and self.sources.get(FORMS, {}).get(domain, {}).get(id, {}).get("fields"):
            services += (f"script.{id}",)  # its own one, which takes its fields
        return ListedEntity(
            entity_id=name,
            name=attributes.get("friendly_name") or name,
            aliases=tuple(alias for alias in entry.get("aliases", ()) if alias is not None),  # None stands for the name
            area_id=self.area_of_entity(name),
            device_id=entry.get("device_id"),
            labels=tuple(entry.get("labels", ())),
            category=entry.get("entity_category"),
            hidden=entry.get("hidden_by") is not None,
            state=state["state"],
            attributes=complete_light_attributes(attributes) if name.startswith("light.") else attributes,
            services=services,
            past=tuple(self.sources.get(HISTORY, {}).get(name, ())),
            units=self.sources[CONFIG].get("unit_system") or {},
            zone=self.sources[CONFIG].get("time_zone"),
        )


def entity_domain(entity: str) -> str:
    """The kind of an entity, or of a service: `light` of `light.bed` and of `light.turn_on`."""
    return entity.partition(".")[0]


def is_entity_id(value: Any) -> bool:
    """Whether a value is the id of an entity."""
    return isinstance(value, str) and ENTITY.fullmatch(value) is not None


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number; a truth is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def complete_light_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a light, with null for what it can show and does not show now."""
    has = light_colour_modes(attributes)
    can = ["brightness", "color_mode"] if has.difference(WITHOUT_BRIGHTNESS) else []
    can += ["color_temp_kelvin"] if "color_temp" in has else []
    can += ["hs_color", "rgb_color"] if has.intersection(COLOURED) else []
    can += ["effect"] if attributes.get("effect_list") else []
    kelvin: dict[str, int | None] = {}
    for mireds, name in MIREDS.items():
        if told := attributes.get(mireds):
            kelvin[name] = int(1_000_000 // told) if is_number(told) and told >= 1 else None
    shown = {name: value for name, value in attributes.items() if name not in MIREDS}
    return dict.fromkeys(can) | kelvin | shown


def light_colour_modes(attributes: Mapping[str, Any]) -> set[str]:
    """The colour modes of a light."""
    modes = attributes.get("supported_color_modes")
    return {mode for mode in modes if isinstance(mode, str)} if isinstance(modes, list) else set()


def clean_listing(listing: Listing) -> tuple[Listing, list[ImportNote]]:
    """The listing with what can be read of it, and what cannot."""
    old, notes, ids = listing.sources, list[ImportNote](), set[str]()
    states = list(_clean_rows(old[STATES], "entity_id", "state", ids, notes))
    entries = [{"entity_id": name, **row} for name, row in old[ENTRIES].items() if isinstance(row, Mapping)]
    sources = {
        CONFIG: _clean_row("", "config", old[CONFIG], OF_CONFIG, notes),
        FLOORS: list(_clean_rows(old[FLOORS], "floor_id", "floor", set(), notes)),
        AREAS: list(_clean_rows(old[AREAS], "area_id", "area", ids, notes)),  # rooms and devices share their ids
        DEVICES: list(_clean_rows(old[DEVICES], "id", "device", set(), notes)),
        REGISTERED: list(_clean_rows(old[REGISTERED], "entity_id", "registry", set(), notes)),
        ENTRIES: {row["entity_id"]: row for row in _clean_rows(entries, "entity_id", "registry entry", set(), notes)},
        EXPOSED: {
            "exposed_entities": dict(_clean_by_entity(old[EXPOSED].get("exposed_entities"), Mapping, "exposed", notes))
        },
        STATES: states,
        SERVICES: dict(_clean_by_entity(old[SERVICES], list, "services", notes)),
    }
    return listing.with_sources(sources), notes


def _clean_rows(
    rows: Iterable[Any], key: str, what: str, seen: set[str], notes: list[ImportNote]
) -> Iterator[dict[str, Any]]:
    """The rows with an id of their own, read. `seen` are the ids that are taken."""
    for number, row in enumerate(rows, 1):
        id = row.get(key) if isinstance(row, Mapping) else None
        if not isinstance(id, str) or not (ANY_ENTITY.fullmatch(id) if key == "entity_id" else id):
            notes.append(ImportNote("", what, f"row {number} has no `{key}`, so it is left out"))
        elif id in seen:
            notes.append(
                ImportNote(id if key == "entity_id" else "", f"{what} {id}", "its id is taken, so this row is left out")
            )
        else:
            seen.add(id)
            yield _clean_row(id, what, row, FIELDS[what], notes)


def _clean_row(id: str, what: str, row: Row, fields: Mapping[str, Read], notes: list[ImportNote]) -> dict[str, Any]:
    """A row with each of its fields as it can be read. What is null or missing is empty, which is no fault but of a name."""
    read = {field: reader(row.get(field)) for field, reader in fields.items()}
    if "name" in NAMED.get(what, ()) and not read["name"]:
        read["name"] = id
    changed = {field: value for field, value in read.items() if value != row.get(field)}
    entity, part = (id, what) if ANY_ENTITY.fullmatch(id) else ("", f"{what} {id}".strip())
    for field in changed:
        if row.get(field) is not None or field in NAMED.get(what, ()):
            why = "it is not as Home Assistant writes it, so a text, a part or nothing of it is read"
            notes.append(ImportNote(entity, f"{part}: {field}", why))
    return {**row, **changed}


def _clean_by_entity(found: Any, kind: type[Any], what: str, notes: list[ImportNote]) -> Iterator[tuple[str, Any]]:
    """What is told by entity, where it is of a kind."""
    for name, told in found.items() if isinstance(found, Mapping) else ():
        if isinstance(told, kind):
            yield name, _read_texts(told) if kind is list else told
        else:
            notes.append(ImportNote(name, what, "it is not as Home Assistant writes it, so it is left out"))


def _read_text(value: Any) -> str | None:
    """A text; None for what is none, and for one without a letter."""
    return (str(value) if str(value).strip() else None) if isinstance(value, (str, int, float)) else None


def _read_id(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_texts(value: Any, kinds: type | tuple[type, ...] = str) -> list[Any]:
    return [one for one in value if isinstance(one, kinds)] if isinstance(value, list) else []


def _read_whole_number(value: Any) -> int | None:
    return int(value) if is_number(value) and math.isfinite(value) and value % 1 == 0 else None


def _read_mapping(value: Any) -> dict[str, Any]:
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else {}


def _read_attributes(value: Any) -> dict[str, Any]:
    """The attributes by names, with a name that is a text, and without a number that JSON does not have."""
    read = {
        key: None if isinstance(one, float) and not math.isfinite(one) else one for key, one in _read_mapping(value).items()
    }
    return read | ({"friendly_name": _read_text(read["friendly_name"])} if "friendly_name" in read else {})


def read_moment(value: Any) -> str | None:
    """A moment with a zone: that of UTC if none is told."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    if moment.year not in YEARS:
        return None
    return str(value) if moment.tzinfo else moment.replace(tzinfo=UTC).isoformat()


OF_CONFIG: dict[str, Read] = {
    "time_zone": _read_id,
    "unit_system": lambda value: SYSTEMS.get(value, {}) if isinstance(value, str) else _read_mapping(value),
}
FIELDS: dict[str, dict[str, Read]] = {
    "floor": {"name": _read_text, "aliases": _read_texts, "level": _read_whole_number},
    "area": {"name": _read_text, "aliases": _read_texts, "floor_id": _read_id},
    "device": {"area_id": _read_id, "parent_device_id": _read_id},
    "registry": {},
    "registry entry": {
        "aliases": lambda value: _read_texts(value, (str, type(None))),  # null stands for the name of the entity
        "labels": _read_texts,
        "area_id": _read_id,
        "device_id": _read_id,
        "platform": _read_id,
        "entity_category": _read_id,
        "options": lambda value: {key: one for key, one in _read_mapping(value).items() if isinstance(one, Mapping)},
    },
    "state": {
        "state": lambda value: "unknown" if value is None else str(value),  # as Home Assistant writes none
        "attributes": _read_attributes,
        "last_updated": read_moment,
    },
}
NAMED = {"floor": ("name",), "area": ("name",), "state": ("state",)}  # what no row may lack


def with_temperature_unit(listing: Listing) -> tuple[Listing, list[ImportNote]]:
    """The listing of a home that tells in which unit its temperatures are, if only by its sensors, and what is not known."""
    config, rows = listing.sources[CONFIG], listing.sources[STATES]
    units = config.get("unit_system") or {}
    bare = [
        row["entity_id"]
        for row in rows
        if TEMPERATURES & row["attributes"].keys() and "temperature_unit" not in row["attributes"]
    ]
    if units.get("temperature") in DEGREES or not bare:
        return listing, []
    seen = {unit for row in rows if (unit := row["attributes"].get("unit_of_measurement")) in DEGREES}
    unit = seen.pop() if len(seen) == 1 else DEGREES[0]
    why = f"nothing tells in which units this home measures, so {', '.join(sorted(bare))} are taken to show {unit}"
    told = {CONFIG: config | {"unit_system": units | {"temperature": unit}}}
    return listing.with_sources(told), [ImportNote("", "unit_system", why)]
