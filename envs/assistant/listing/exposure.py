"""Which entities a home has: those that its owner exposes to Assist.

Home Assistant writes down for each entity whether it is exposed when Assist first asks. Until then its defaults hold.

Invariants: an import and a served home follow the same rule; what is hidden, or made for configuration and diagnosis, is
exposed only where the owner says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from homerl.envs.assistant.listing.home_listing import (
    ASSIST,
    CONFIG,
    DEVICES,
    ENTRIES,
    EXPOSED,
    SERVICES,
    STATES,
    ListedEntity,
    Listing,
)
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient

DOMAINS = frozenset(
    "climate cover fan humidifier light media_player scene switch todo vacuum water_heater".split()
)  # Home Assistant's defaults, as are the classes below
CLASSES = {
    "binary_sensor": frozenset("door garage_door lock motion opening presence window".split()),
    "sensor": frozenset(
        "aqi carbon_dioxide carbon_monoxide humidity pm10 pm25 temperature volatile_organic_compounds".split()
    ),
}


def select_entities(listing: Listing, everything: bool = False) -> tuple[ListedEntity, ...]:
    """The entities to import: those exposed to Assist, or every one."""
    if everything:
        return listing.entities
    known = exposed_entity_ids(listing)
    said = {name: _said(entry) for name, entry in listing.sources[ENTRIES].items()}
    asked = known or any(one is not None for one in said.values())

    def exposed(entity: ListedEntity) -> bool:
        own = said.get(entity.entity_id)
        return own if own is not None else entity.entity_id in known if asked else _by_default(entity)

    return tuple(filter(exposed, listing.entities))


def exposed_entity_ids(listing: Listing) -> frozenset[str]:
    """The entities of which a listing says that they are exposed to Assist."""
    return frozenset(name for name, to in listing.sources[EXPOSED]["exposed_entities"].items() if to.get(ASSIST))


async def find_withdrawn_devices(
    client: HomeAssistantClient, dids: Collection[str], states: Sequence[Mapping[str, Any]]
) -> frozenset[str]:
    """The devices of a home that are not exposed to Assist now. Raises `HomeAssistantError` if that cannot be read."""
    if listed := await client.read_exposed_entities():
        return frozenset(dids) - listed
    sources = {  # either Assist was never asked, or nothing is exposed any more: of what is registered, its entry tells
        ENTRIES: await client.call_command(ENTRIES, entity_ids=[*dids]),
        STATES: [row for row in states if row["entity_id"] in dids],
        EXPOSED: {"exposed_entities": {}},
        DEVICES: [],
        SERVICES: {},
        CONFIG: {},
    }
    return frozenset(dids) - {one.entity_id for one in select_entities(Listing(version=client.version, sources=sources))}


def _said(entry: Mapping[str, Any] | None) -> bool | None:
    """What the owner has said of an entity; None for nothing."""
    said = (((entry or {}).get("options") or {}).get(ASSIST) or {}).get("should_expose")
    return None if said is None else bool(said)


def _by_default(entity: ListedEntity) -> bool:
    if entity.hidden or entity.category is not None:
        return False
    return entity.domain in DOMAINS or str(entity.attributes.get("device_class")) in CLASSES.get(entity.domain, ())
