"""Which entities make up a home, what else makes it what it is, and how one learns that it has become another one.

Home Assistant writes down for each entity whether it is exposed to Assist when Assist first asks. Until then its defaults
hold.

Invariants:
- An import and a served home follow the same rule. What is hidden, or made for configuration and diagnosis, is exposed only
  where the owner says so.
- States that come and go, now and before, are no change of a home: listings that differ in these alone have one hash.
- What is out of reach for a while, such as after a restart, keeps the form in which it was last seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any

from homerl.envs.assistant.entities_beside import strip_listing_for_guard
from homerl.envs.assistant.listing import home_listing as ha
from homerl.envs.assistant.listing.home_listing import ListedEntity, Listing, clean_listing
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
EVENTS = (  # after which a home may be another one
    "entity_registry_updated",
    "device_registry_updated",
    "area_registry_updated",
    "floor_registry_updated",
    "automation_reloaded",
    "core_config_updated",
    "homeassistant_started",
)
RELOADED_SCRIPTS = {  # an edited script causes no event of its own: its editor calls this service
    "platform": "event", "event_type": "call_service", "event_data": {"domain": "script", "service": "reload"},
}  # fmt: skip
FORM = frozenset(  # attributes that tell what an entity is and can do, and not how it is now
    "friendly_name supported_features device_class unit_of_measurement supported_color_modes min_color_temp_kelvin "
    "max_color_temp_kelvin effect_list hvac_modes fan_modes preset_modes swing_modes min_temp max_temp "
    "target_temp_step min_humidity max_humidity available_modes operation_list options min max step pattern source_list "
    "sound_mode_list fan_speed_list percentage_step code_format entity_id has_date has_time assumed_state event_types "
    "available_tones".split()
)
MOMENTS = frozenset(("created_at", "modified_at"))
GONE = "unavailable"


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


async def follow_setup_events(client: HomeAssistantClient) -> AsyncIterator[str]:
    """The kinds of `EVENTS` that happen from now on; first an empty one, once all are subscribed to. It is empty, too, where
    scripts are loaded again.

    Raises `HomeAssistantError` if a kind is refused or the connection ends.
    """
    for kind in EVENTS:
        await client.call_command("subscribe_events", event_type=kind)
    # Home Assistant filters, so no other call is heard
    await client.call_command("subscribe_trigger", trigger=RELOADED_SCRIPTS)
    yield ""
    async for event in client.receive_events():
        yield str(event.get("event_type") or "")


def is_home_running(listing: Listing) -> bool:
    """Whether Home Assistant has started whole; before, entities are missing."""
    return bool(listing.sources[ha.CONFIG].get("state", "RUNNING") == "RUNNING")


def hash_home_setup(listing: Listing) -> str:
    """A hash of all that an import makes a home of, but for states: of what is exposed, of places, automations and
    scripts, and of what the guard must know of entities that are not exposed."""
    listing, _ = clean_listing(listing)
    rows = [row | {"attributes": lasting_attributes(row["attributes"])} for row in listing.sources[ha.STATES]]
    listing = listing.with_sources({ha.STATES: rows})
    chosen = select_entities(listing)
    entities = [one.model_dump(mode="json", exclude={"state", "past"}) for one in chosen]
    beside = strip_listing_for_guard(listing, [one.entity_id for one in chosen]).sources[ha.BESIDE]
    places = [
        [{key: value for key, value in row.items() if key not in MOMENTS} for row in listing.sources[command]]
        for command in (ha.AREAS, ha.FLOORS)
    ]
    texts = [listing.sources.get(kind) or {} for kind in (ha.AUTOMATIONS, ha.SCRIPTS)]
    told = [entities, places, texts, beside]
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def lasting_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What of the attributes of a state tells what the entity is."""
    return {name: value for name, value in attributes.items() if name in FORM}


def is_same_setup(known: Listing | None, states: Iterable[Mapping[str, Any]], exposed: frozenset[str]) -> bool:
    """Whether the same entities are exposed as in a listing, and none of these shows another form. Without one, it is."""
    if known is None:
        return True
    rows = {row["entity_id"]: row["attributes"] for row in known.sources[ha.STATES]}
    told = [row for row in states if row["entity_id"] in exposed and row["state"] != GONE]
    return exposed == exposed_entity_ids(known) and all(
        lasting_attributes(row["attributes"]).items() <= rows.get(row["entity_id"], {}).items() for row in told
    )


def merge_earlier_listing(listing: Listing, before: Listing | None) -> Listing:
    """A listing in which entities keep the form and the past that they had in an earlier one.

    Those that are out of reach, and registered, are not missing.
    """
    if before is None:
        return listing
    known = {row["entity_id"]: row for row in before.sources[ha.STATES]}
    rows = []
    for row in map(dict, listing.sources[ha.STATES]):
        if (earlier := known.get(row["entity_id"])) is not None:
            kept = earlier["attributes"] if row["state"] == GONE else lasting_attributes(earlier["attributes"])
            row["attributes"] = {**kept, **row["attributes"]}
        rows.append(row)
    there = {row["entity_id"] for row in rows}
    for name, row in known.items():
        entry = listing.sources[ha.ENTRIES].get(name)
        if name not in there and entry is not None and entry.get("disabled_by") is None:
            rows.append(row | {"state": GONE})
    services = {name: before.sources[ha.SERVICES].get(name, []) for name in known} | listing.sources[ha.SERVICES]
    for row in rows:
        if row["state"] == GONE and (name := row["entity_id"]) in before.sources[ha.SERVICES]:
            services[name] = before.sources[ha.SERVICES][name]
    told = {ha.STATES: rows, ha.SERVICES: services, ha.HISTORY: before.sources.get(ha.HISTORY, {})}
    return listing.with_sources(told)
