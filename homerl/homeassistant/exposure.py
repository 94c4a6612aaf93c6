"""Which entities a home has: those that its owner exposes to Assist.

Home Assistant writes down for each entity whether it is exposed when Assist first asks. Until then its defaults hold.

Invariant: what is hidden, or made for configuration and diagnosis, is exposed only where the owner says so.
"""

from __future__ import annotations

from homerl.homeassistant.listing import ASSIST, ENTRIES, EXPOSED, Entity, Listing

DOMAINS = frozenset(
    "climate cover fan humidifier light media_player scene switch todo vacuum water_heater".split()
)  # Home Assistant's defaults, as are the classes below
CLASSES = {
    "binary_sensor": frozenset("door garage_door lock motion opening presence window".split()),
    "sensor": frozenset(
        "aqi carbon_dioxide carbon_monoxide humidity pm10 pm25 temperature volatile_organic_compounds".split()
    ),
}


def selected(listing: Listing, everything: bool = False) -> tuple[Entity, ...]:
    """The entities to import: those exposed to Assist, or every one."""
    return tuple(entity for entity in listing.entities if everything or _exposed(listing, entity))


def _exposed(listing: Listing, entity: Entity) -> bool:
    entry = listing.sources[ENTRIES].get(entity.entity_id) or {}
    said = ((entry.get("options") or {}).get(ASSIST) or {}).get("should_expose")
    if said is not None:
        return bool(said)
    known = {name for name, to in listing.sources[EXPOSED]["exposed_entities"].items() if to.get(ASSIST)}
    return entity.entity_id in known if known else _by_default(entity)


def _by_default(entity: Entity) -> bool:
    if entity.hidden or entity.category is not None:
        return False
    return entity.domain in DOMAINS or str(entity.attributes.get("device_class")) in CLASSES.get(entity.domain, ())
