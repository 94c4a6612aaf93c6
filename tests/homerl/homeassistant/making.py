"""Entities and listings for tests."""

from __future__ import annotations

from typing import Any

from homerl.homeassistant.listing import Entity
from tests.homerl.homeassistant.replay import listing


def entity(entity_id: str, state: str = "on", attributes: dict[str, Any] | None = None, **fields: Any) -> Entity:
    """An entity with little to say."""
    plain = {
        "name": entity_id, "aliases": (), "area_id": None, "device_id": None, "labels": (), "platform": None,
        "category": None, "hidden": False, "exposed": True, "services": (),
    }  # fmt: skip
    return Entity(entity_id=entity_id, state=state, attributes=attributes or {}, **(plain | fields))


def recorded_entity(entity_id: str) -> Entity:
    """An entity of the recorded home."""
    return next(one for one in listing().entities if one.entity_id == entity_id)
