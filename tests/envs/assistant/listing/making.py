"""Entities and listings for tests."""

from __future__ import annotations

from typing import Any

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.entity_capabilities import shipped_service_forms, supported_services
from homerl.envs.assistant.listing.home_listing import CONFIG, SERVICES, STATES, ListedEntity, Listing
from tests.envs.assistant.listing.replay import listing


def make_entity(entity_id: str, state: str = "on", attributes: dict[str, Any] | None = None, **fields: Any) -> ListedEntity:
    """An entity with little to say."""
    plain = {
        "name": entity_id,
        "aliases": (),
        "area_id": None,
        "device_id": None,
        "labels": (),
        "category": None,
        "hidden": False,
        "services": (),
    }
    return ListedEntity(entity_id=entity_id, state=state, attributes=attributes or {}, **(plain | fields))


def recorded_entity(entity_id: str) -> ListedEntity:
    """An entity of the recorded home."""
    return next(one for one in listing().entities if one.entity_id == entity_id)


def home_of(rows: list[dict[str, Any]], unit: str = "°C") -> ImportedHome:
    """The home of these states, in which every service is offered that Home Assistant would offer."""
    offered = {
        row["entity_id"]: supported_services(shipped_service_forms(), row["entity_id"], row["attributes"]) for row in rows
    }
    sources = listing().sources
    sources = sources | {
        STATES: rows,
        SERVICES: sources[SERVICES] | {name: offer for name, offer in offered.items() if name not in sources[SERVICES]},
        CONFIG: sources[CONFIG] | {"unit_system": {"temperature": unit}},
    }
    return import_home(Listing(version="1", sources=sources), everything=True)


def alone(entity: str, state: str, **attributes: Any) -> ImportedHome:
    """The home of one entity."""
    return home_of([{"entity_id": entity, "state": state, "attributes": attributes}])
