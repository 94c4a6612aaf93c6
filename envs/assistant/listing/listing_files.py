"""A home's listing in files: what was saved, or the states and registries that people have.

A folder holds `listing.json` (a saved listing), or `states.json` (the answer of REST's `/api/states`) beside some of
`area_registry`, `floor_registry`, `device_registry` and `entity_registry`, as they are in `.storage` or as WebSocket lists,
with or without `core.`, as JSON or YAML. `services` and `config` (REST's `/api/services` and `/api/config`) are optional. In
place of the latter there may be `core.config`, for the time zone and the units.

Invariants: a saved listing read again is equal; a file that cannot be used is an `InputError` with its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from homerl.envs.assistant.listing import home_listing as ha
from homerl.envs.assistant.listing.entity_capabilities import shipped_service_forms, supported_services
from homerl.envs.assistant.listing.home_listing import SYSTEMS, Listing, clean_listing
from homerl.envs.core.documents import InputError, read_json, read_yaml, write_atomic

SAVED = "listing.json"
AGAIN = "save it again with --save"
MAPPINGS = (ha.CONFIG, ha.EXPOSED, ha.FORMS, ha.ENTRIES, ha.SERVICES, ha.AUTOMATIONS)  # the others are lists
KINDS: dict[str, type] = {
    command: dict if command in MAPPINGS else list for command in (*ha.PLAIN, ha.ENTRIES, ha.SERVICES, ha.AUTOMATIONS)
}
REQUIRED = {command: kind for command, kind in KINDS.items() if command != ha.AUTOMATIONS}
WORDS: dict[type, str] = {dict: "mapping", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
PRIVATE = 0o600  # what an owner has at home is for the owner alone to read
STEMS = {
    "states": ha.STATES,
    "config": ha.CONFIG,
    "services": ha.FORMS,
    "area_registry": ha.AREAS,
    "floor_registry": ha.FLOORS,
    "device_registry": ha.DEVICES,
    "entity_registry": ha.REGISTERED,
    "exposed_entities": ha.EXPOSED,
}
ENDINGS = ("", ".json", ".yaml", ".yml")


def save_listing(listing: Listing, folder: Path) -> Path:
    """Write a listing into a folder, for its owner alone to read."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / SAVED, listing.model_dump_json(indent=1) + "\n", PRIVATE)
    return folder / SAVED


def load_listing(folder: Path) -> Listing:
    """The listing that a folder holds. Raises `InputError` if there is none, or a file cannot be used."""
    if not folder.is_dir():
        raise InputError("is no folder", where=str(folder), remedy="give Home Assistant's address, or a folder of its files")
    if (folder / SAVED).exists():
        return _load_saved(folder / SAVED)
    found = {command: data for stem, command in STEMS.items() if (data := _find_file(folder, stem, command)) is not None}
    if ha.STATES not in found:
        remedy = f"save the answer of /api/states there as states.json, or use a folder that --save wrote ({SAVED})"
        raise InputError("no states found", where=str(folder), remedy=remedy)
    return _require_usable(lambda: _make_listing(found), folder)


def _require_usable(make: Callable[[], Listing], where: Path) -> Listing:
    """The listing, of which everything that an importer reads has been read once."""
    try:
        listing = make()
        tidy, _ = clean_listing(listing)
        entities, _, _ = tidy.entities, tidy.areas, tidy.floors
        if listing.sources[ha.STATES] and not entities:
            raise ValueError("no row of the states has an `entity_id`")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"the files do not fit together ({type(error).__name__}: {error})"
        raise InputError(what, where=str(where), remedy="give them as Home Assistant writes them") from None
    return listing


def _load_saved(path: Path) -> Listing:
    try:
        listing = Listing.model_validate(read_json(path).data)
    except ValidationError as error:
        raise InputError(f"is no saved listing ({error.errors()[0]['msg']})", str(path), AGAIN) from None
    for command, kind in KINDS.items() if ha.AUTOMATIONS in listing.sources else REQUIRED.items():
        if not isinstance(listing.sources.get(command), kind):
            raise InputError(f"is no saved listing (it has no {WORDS[kind]} under `{command}`)", str(path), AGAIN)
    return _require_usable(lambda: listing, path)


def _find_file(folder: Path, stem: str, command: str) -> Any:
    for name in (f"{prefix}{stem}{ending}" for prefix in ("", "core.", "homeassistant.") for ending in ENDINGS):
        path = folder / name
        if path.is_file():
            data = (read_yaml if path.suffix in (".yaml", ".yml") else read_json)(path).data
            data = data["data"] if isinstance(data, Mapping) and "key" in data and "data" in data else data
            _require_kind(data, (list,) if command == ha.STATES else (dict,) if command == ha.CONFIG else (dict, list), path)
            return data
    return None


def _require_kind(data: Any, kinds: tuple[type, ...], path: Path) -> None:
    """Raise `InputError` if what a file holds is none of several kinds."""
    if isinstance(data, Mapping) and data.keys() == {"message"}:
        remedy = "ask again with a token that Home Assistant takes"
        raise InputError(f"holds the answer of a refused request ({data['message']})", str(path), remedy)
    if data is not None and not isinstance(data, kinds):
        what = f"holds a {WORDS.get(type(data), 'value')} and no {' or '.join(WORDS[kind] for kind in kinds)}"
        raise InputError(what, str(path), "give it as Home Assistant writes it")


def _make_listing(found: Mapping[str, Any]) -> Listing:
    """The listing of what was found: rows get the keys that the WebSocket's have, and what is missing is empty."""
    states = found[ha.STATES]
    known = {id: dict(_as_mapping(row.get("attributes"))) for row in states if (id := _entity_of_row(row)) is not None}
    registered = _list_rows(found.get(ha.REGISTERED), "entities")
    entries = {id: _with_current_aliases(row) for row in registered if (id := _entity_of_row(row)) is not None}
    forms = found.get(ha.FORMS)  # by domain, or REST's list
    forms = {row["domain"]: row["services"] for row in forms} if isinstance(forms, list) else dict(forms or {})
    forms = forms or shipped_service_forms()
    floors = _list_rows(found.get(ha.FLOORS), "floors")
    floors = [{"aliases": []} | row if isinstance(row, dict) else row for row in floors]
    areas = _list_rows(found.get(ha.AREAS), "areas")
    for at, row in enumerate(areas):
        if isinstance(row, dict):
            areas[at] = {"aliases": [], "floor_id": None} | row | {"area_id": row.get("area_id", row.get("id"))}
    data = found.get(ha.CONFIG) or {}
    named = data.get("unit_system_v2")  # in the file of `.storage`, which names the units
    config = dict(data) | ({"unit_system": SYSTEMS[named]} if named in SYSTEMS else {})
    return Listing(
        version=str(config.get("version", "unknown")),
        sources={
            ha.CONFIG: config,
            ha.FLOORS: floors,
            ha.AREAS: areas,
            ha.LABELS: [],
            ha.DEVICES: _list_rows(found.get(ha.DEVICES), "devices"),
            ha.REGISTERED: [{"entity_id": _entity_of_row(row)} for row in registered],
            ha.ENTRIES: entries,
            ha.EXPOSED: _read_exposed(found.get(ha.EXPOSED), entries),
            ha.STATES: states,
            ha.FORMS: forms,
            ha.SERVICES: {id: supported_services(forms, id, attributes) for id, attributes in known.items()},
        },
    )


def _with_current_aliases(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the entity registry as the WebSocket tells it.

    Its file has kept the aliases as `aliases_v2` since 2026; what stands beside it as `aliases` is what they were before.
    """
    told = {key: value for key, value in row.items() if key != "aliases_v2"}
    return told | ({"aliases": row["aliases_v2"]} if "aliases_v2" in row else {})


def _list_rows(data: Any, key: str) -> list[Any]:
    """The rows of a registry, from its file or from a list."""
    rows = data.get(key) if isinstance(data, Mapping) else data
    return list(rows or ())


def _as_mapping(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _entity_of_row(row: Any) -> str | None:
    """The entity of a row; None if it names none."""
    id = _as_mapping(row).get("entity_id")
    return id if isinstance(id, str) else None


def _read_exposed(data: Any, entries: Mapping[str, Any]) -> dict[str, Any]:
    """What is exposed, in the WebSocket's form, from the store's."""
    rows = (data or {}).get("exposed_entities", {})
    known = {
        name: {to: bool(_as_mapping(said).get("should_expose")) for to, said in _as_mapping(row.get("assistants")).items()}
        for name, row in rows.items()
    }
    for name, entry in entries.items():
        for to, said in _as_mapping(entry.get("options")).items():
            if isinstance(said, Mapping) and "should_expose" in said:
                known.setdefault(name, {})[to] = bool(said["should_expose"])
    return {"exposed_entities": known}
