"""A home's listing in files: what was saved, or the states and registries that people have.

A folder holds `listing.json` (a saved listing), or `states.json` (the answer of REST's `/api/states`) beside some of
`area_registry`, `floor_registry`, `device_registry` and `entity_registry`, as they are in `.storage` or as WebSocket lists,
with or without `core.`, as JSON or YAML. `config` and `services` (REST's `/api/config` and `/api/services`) are optional.

Invariants: a saved listing read again is equal; a file that cannot be used is an `InputError` with its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envs.documents import InputError, read_json, read_yaml, write_atomic
from homerl.homeassistant.forms import shipped_forms, supported
from homerl.homeassistant.listing import (
    AREAS,
    CONFIG,
    DEVICES,
    ENTRIES,
    EXPOSED,
    FLOORS,
    FORMS,
    LABELS,
    REGISTERED,
    SERVICES,
    STATES,
    Listing,
)

SAVED = "listing.json"
PRIVATE = 0o600  # what an owner has at home is for the owner alone to read
STEMS = {
    "states": STATES, "config": CONFIG, "services": FORMS, "area_registry": AREAS, "floor_registry": FLOORS,
    "device_registry": DEVICES, "entity_registry": REGISTERED, "exposed_entities": EXPOSED,
}  # fmt: skip
ENDINGS = ("", ".json", ".yaml", ".yml")


def save(listing: Listing, folder: Path) -> Path:
    """Write a listing into a folder, for its owner alone to read."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / SAVED, listing.model_dump_json(indent=1) + "\n", PRIVATE)
    return folder / SAVED


def load(folder: Path) -> Listing:
    """The listing that a folder holds. Raises `InputError` if there is none, or a file cannot be used."""
    if not folder.is_dir():
        raise InputError("is no folder", where=str(folder), remedy="give Home Assistant's address, or a folder of its files")
    if (folder / SAVED).exists():
        return _saved(folder / SAVED)
    found = {command: data for stem, command in STEMS.items() if (data := _found(folder, stem)) is not None}
    if STATES not in found:
        remedy = f"save the answer of /api/states there as states.json, or use a folder that --save wrote ({SAVED})"
        raise InputError("no states found", where=str(folder), remedy=remedy)
    try:
        return _listing(found)
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        what = f"the files do not fit together ({type(error).__name__}: {error})"
        raise InputError(what, where=str(folder), remedy="give them as Home Assistant writes them") from None


def _saved(path: Path) -> Listing:
    try:
        return Listing.model_validate(read_json(path).data)
    except ValidationError as error:
        raise InputError(
            f"is no saved listing ({error.errors()[0]['msg']})", str(path), "save it again with --save"
        ) from None


def _found(folder: Path, stem: str) -> Any:
    for name in (f"{prefix}{stem}{ending}" for prefix in ("", "core.", "homeassistant.") for ending in ENDINGS):
        path = folder / name
        if path.is_file():
            data = (read_yaml if path.suffix in (".yaml", ".yml") else read_json)(path).data
            return data["data"] if isinstance(data, Mapping) and "key" in data and "data" in data else data
    return None


def _listing(found: Mapping[str, Any]) -> Listing:
    """The listing of what was found: rows get the keys that the WebSocket's have, and what is missing is empty."""
    states: list[dict[str, Any]] = [{"attributes": {}} | dict(state) for state in found[STATES]]
    entries = {row["entity_id"]: dict(row) for row in _rows(found.get(REGISTERED), "entities")}
    forms = _forms(found.get(FORMS)) or shipped_forms()
    config = dict(found.get(CONFIG) or {})
    return Listing(
        version=str(config.get("version", "unknown")),
        sources={
            CONFIG: config,
            FLOORS: [{"aliases": [], "level": None} | row for row in _rows(found.get(FLOORS), "floors")],
            AREAS: [_area(row) for row in _rows(found.get(AREAS), "areas")],
            LABELS: [],
            DEVICES: [{"area_id": None} | row for row in _rows(found.get(DEVICES), "devices")],
            REGISTERED: [{"entity_id": name} for name in entries],
            ENTRIES: entries,
            EXPOSED: _exposed(found.get(EXPOSED), entries),
            STATES: states,
            FORMS: forms,
            SERVICES: {state["entity_id"]: supported(forms, state["entity_id"], state["attributes"]) for state in states},
        },
    )


def _rows(data: Any, key: str) -> list[dict[str, Any]]:
    """The rows of a registry, from its file or from a list."""
    rows = data.get(key, ()) if isinstance(data, Mapping) else data or ()
    return [dict(row) for row in rows]


def _area(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"aliases": [], "floor_id": None} | dict(row) | {"area_id": row.get("area_id", row.get("id"))}


def _forms(data: Any) -> dict[str, Any]:
    """Services by domain, from a mapping or from REST's list."""
    if isinstance(data, list):
        return {row["domain"]: row["services"] for row in data}
    return dict(data or {})


def _exposed(data: Any, entries: Mapping[str, Any]) -> dict[str, Any]:
    """What is exposed, in the WebSocket's form, from the store's."""
    rows = (data or {}).get("exposed_entities", {})
    known = {
        name: {to: bool(said.get("should_expose")) for to, said in row.get("assistants", {}).items()}
        for name, row in rows.items()
    }
    for name, entry in entries.items():
        for to, said in (entry.get("options") or {}).items():
            if isinstance(said, Mapping) and "should_expose" in said:
                known.setdefault(name, {})[to] = bool(said["should_expose"])
    return {"exposed_entities": known}
