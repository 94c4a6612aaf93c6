"""What the texts of automations refer to by ids that a home does not keep: entities of the registry, places, the sun.

Invariant: the times of the sun are told to some minutes alone, since they would tell where the home is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from homerl.envs.assistant.automations.text import AutomationReferences
from homerl.envs.assistant.listing.listing import AREAS, CONFIG, DEVICES, ENTRIES, REGISTERED, STATES, Listing
from homerl.envs.homeenv.sim.values.moments import time_zone_of

COARSE = 300  # seconds to which the times of the sun are rounded
SUN = {"sunrise": "next_rising", "sunset": "next_setting"}


def collect_references(listing: Listing) -> AutomationReferences:
    """What a whole listing knows."""
    sources = listing.sources
    rows = [row for row in sources[REGISTERED] if isinstance(row, Mapping) and isinstance(row.get("id"), str)]
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    areas: dict[Any, Mapping[str, Any]] = {area["area_id"]: area for area in sources[AREAS]}
    devices: dict[Any, Mapping[str, Any]] = {device["id"]: device for device in sources[DEVICES]}
    for entity, entry in sources[ENTRIES].items():
        if not isinstance(entry, Mapping) or entry.get("entity_category") or entry.get("hidden_by"):
            continue  # Home Assistant does not mean these by a place
        place, device = listing.area_of_entity(entity), entry.get("device_id")
        area, holders = areas.get(place, {}), (entry, devices.get(device, {}), areas.get(place, {}))
        named = [("area_id", place), ("floor_id", area.get("floor_id")), ("device_id", device)]
        named += [("label_id", label) for holder in holders for label in holder.get("labels") or ()]
        for key, id in dict.fromkeys(named):
            if id is not None:
                places[key, id].append(entity)
    told = {place: tuple(sorted(found)) for place, found in places.items()}
    empty = {("device_id", device): () for device in devices} | {("area_id", area): () for area in areas}
    return AutomationReferences({row["id"]: row["entity_id"] for row in rows}, empty | told, _sun(sources))


def _sun(sources: Mapping[str, Any]) -> dict[str, int]:
    """When the sun rises and sets next, in seconds since midnight; nothing if that is not told."""
    attributes: Mapping[str, Any] = next((row["attributes"] for row in sources[STATES] if row["entity_id"] == "sun.sun"), {})
    zone = time_zone_of(sources[CONFIG].get("time_zone"))
    found = {}
    for event, name in SUN.items():
        try:
            at = datetime.fromisoformat(attributes[name]).astimezone(zone)
        except (KeyError, TypeError, ValueError):
            return {}
        found[event] = round((at.hour * 3600 + at.minute * 60 + at.second) / COARSE) * COARSE % 86400
    return found
