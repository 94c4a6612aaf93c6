"""The rows of a listing as an importer can read them, whatever is written there.

Invariants:
- A row that cannot be used is left out, and a value of another kind is read as a text or left out. A note says each, and
  tells no value.
- A listing that Home Assistant gives stays as it is, and so does a tidy one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from homerl.envs.assistant.listing import home_listing as ha
from homerl.envs.assistant.listing.generic_products import ImportNote
from homerl.envs.assistant.listing.home_listing import Listing
from homerl.envs.assistant.listing.unit_conversion import SYSTEMS

Row = Mapping[str, Any]
Read = Callable[[Any], Any]

ENTITY = re.compile(r"[^.]+\..+", re.DOTALL)
YEARS = range(1971, 9999)  # in which a moment is one in every zone


def clean_listing(listing: Listing) -> tuple[Listing, list[ImportNote]]:
    """The listing with what can be read of it, and what cannot."""
    old, notes, ids = listing.sources, list[ImportNote](), set[str]()
    states = list(_clean_rows(old[ha.STATES], "entity_id", "state", ids, notes))
    entries = [{"entity_id": name, **row} for name, row in old[ha.ENTRIES].items() if isinstance(row, Mapping)]
    sources = {
        ha.CONFIG: _clean_row("", "config", old[ha.CONFIG], OF_CONFIG, notes),
        ha.FLOORS: list(_clean_rows(old[ha.FLOORS], "floor_id", "floor", set(), notes)),
        ha.AREAS: list(_clean_rows(old[ha.AREAS], "area_id", "area", ids, notes)),  # rooms and devices share their ids
        ha.DEVICES: list(_clean_rows(old[ha.DEVICES], "id", "device", set(), notes)),
        ha.REGISTERED: list(_clean_rows(old[ha.REGISTERED], "entity_id", "registry", set(), notes)),
        ha.ENTRIES: {row["entity_id"]: row for row in _clean_rows(entries, "entity_id", "registry entry", set(), notes)},
        ha.EXPOSED: {
            "exposed_entities": dict(_clean_by_entity(old[ha.EXPOSED].get("exposed_entities"), Mapping, "exposed", notes))
        },
        ha.STATES: states,
        ha.SERVICES: dict(_clean_by_entity(old[ha.SERVICES], list, "services", notes)),
    }
    return listing.model_copy(update={"sources": old | sources}), notes


def _clean_rows(
    rows: Iterable[Any], key: str, what: str, seen: set[str], notes: list[ImportNote]
) -> Iterator[dict[str, Any]]:
    """The rows with an id of their own, read. `seen` are the ids that are taken."""
    for number, row in enumerate(rows, 1):
        id = row.get(key) if isinstance(row, Mapping) else None
        if not isinstance(id, str) or not (ENTITY.fullmatch(id) if key == "entity_id" else id):
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
    entity, part = (id, what) if ENTITY.fullmatch(id) else ("", f"{what} {id}".strip())
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
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value % 1 == 0
    return int(value) if whole else None


def _read_mapping(value: Any) -> dict[str, Any]:
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else {}


def _read_attributes(value: Any) -> dict[str, Any]:
    """The attributes by names, with a name that is a text, and without a number that JSON does not have."""
    read = {
        key: None if isinstance(one, float) and not math.isfinite(one) else one for key, one in _read_mapping(value).items()
    }
    return read | ({"friendly_name": _read_text(read["friendly_name"])} if "friendly_name" in read else {})


def _read_moment(value: Any) -> str | None:
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
        "last_updated": _read_moment,
    },
}
NAMED = {"floor": ("name",), "area": ("name",), "state": ("state",)}  # what no row may lack
