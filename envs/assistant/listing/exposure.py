"""Which entities a home has: those that its owner exposes to Assist.

Home Assistant writes down for each entity whether it is exposed when Assist first asks. Until then its defaults hold.

Invariants: an import and a served home follow the same rule; what is hidden, or made for configuration and diagnosis, is
exposed only where the owner says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from homerl.envs.assistant.listing import home_listing as ha
from homerl.envs.assistant.listing.home_listing import ListedEntity, Listing
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
    said: dict[str, bool] = {}  # what the owner has said of an entity
    for name, entry in listing.sources[ha.ENTRIES].items():
        own = (((entry or {}).get("options") or {}).get(ha.ASSIST) or {}).get("should_expose")
        if own is not None:
            said[name] = bool(own)
    asked = known or said

    def is_exposed(entity: ListedEntity) -> bool:
        if entity.entity_id in said:
            return said[entity.entity_id]
        if asked:
            return entity.entity_id in known
        if entity.hidden or entity.category is not None:
            return False
        return entity.domain in DOMAINS or str(entity.attributes.get("device_class")) in CLASSES.get(entity.domain, ())

    return tuple(filter(is_exposed, listing.entities))


def exposed_entity_ids(listing: Listing) -> frozenset[str]:
    """The entities of which a listing says that they are exposed to Assist."""
    return frozenset(name for name, to in listing.sources[ha.EXPOSED]["exposed_entities"].items() if to.get(ha.ASSIST))


async def find_withdrawn_devices(
    client: HomeAssistantClient, dids: Collection[str], states: Sequence[Mapping[str, Any]]
) -> frozenset[str]:
    """The devices of a home that are not exposed to Assist now. Raises `HomeAssistantError` if that cannot be read."""
    if listed := await client.read_exposed_entities():
        return frozenset(dids) - listed
    sources = {  # either Assist was never asked, or nothing is exposed any more: of what is registered, its entry tells
        ha.ENTRIES: await client.call_command(ha.ENTRIES, entity_ids=[*dids]),
        ha.STATES: [row for row in states if row["entity_id"] in dids],
        ha.EXPOSED: {"exposed_entities": {}},
        ha.DEVICES: [],
        ha.SERVICES: {},
        ha.CONFIG: {},
    }
    return frozenset(dids) - {one.entity_id for one in select_entities(Listing(version=client.version, sources=sources))}
