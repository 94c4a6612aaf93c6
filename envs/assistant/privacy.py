"""A listing without what is nobody's business: no secret and no place of a person is in a home or in a saved listing.

Invariants: what is kept is listed here by name where it could identify people or devices; a listing that is stripped twice
is the same as stripped once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from homerl.envs.assistant.automations.automation_text import collect_references, keep_readable_parts
from homerl.envs.assistant.listing import home_listing as ha
from homerl.envs.assistant.listing.home_listing import Listing, entity_domain
from homerl.envs.homeenv.sim.assist.entities_of_home import DEAD

KEPT_OF_CONFIG = ("version", "language", "time_zone", "unit_system")
KEPT_OF_DEVICES = ("id", "area_id", "name", "name_by_user", "parent_device_id")
KEPT_OF_ENTRIES = (
    "entity_id", "aliases", "area_id", "device_id", "entity_category", "hidden_by", "labels", "name", "options", "platform",
)  # fmt: skip
KEPT_OF_STATES = ("entity_id", "state", "attributes", "last_updated")
PLACES = frozenset("latitude longitude location gps gps_accuracy".split())  # attributes of what tells where somebody is
SECRET = PLACES | frozenset(  # attributes of any entity: tokens, places, accounts, and what others wrote
    "access_token token api_key webhook_id password entity_picture entity_picture_local zone zones in_zones user_id "
    "device_trackers persons message description ip ip_address mac mac_address host_name ssid bssid email phone code "
    "media_content_id source_entity address formatted_address street thoroughfare locality postal_code".split()
)
SECRET_OF = {"calendar": ("start_time", "end_time", "all_day")}  # attributes of a domain's entities
KEPT_OF_PLACES = ("friendly_name", "icon", "device_class")
CODES = frozenset("code password pin".split())
PASSWORD = "password"  # the mode of a text that nobody is to read
KEPT_OF_OPTIONS = {ha.ASSIST: ("should_expose",)}  # by part of an entry's options: those of locks and alarms hold codes
PEOPLE = ("person", "device_tracker")
TEXTS = ("text", "input_text")  # domains of which a mode tells whether the state is a password


def strip_private_listing(listing: Listing, entities: Collection[str]) -> Listing:
    """The listing with these entities alone, and of them only what a home needs. The texts of all automations stay."""
    old, kept = listing.sources, frozenset(entities)

    def of_kept(told: Mapping[str, Any]) -> dict[str, Any]:
        return {name: one for name, one in told.items() if name in kept}

    entries = {name: _strip_entry(entry) for name, entry in of_kept(old[ha.ENTRIES]).items() if entry}
    needed = _with_parents([entry.get("device_id") for entry in entries.values()], old[ha.DEVICES])
    domains = {entity_domain(name) for name in kept}
    forms = {domain: form for domain, form in old[ha.FORMS].items() if domain in domains}
    states, sealed = [], set()
    for row in old[ha.STATES]:
        entity = row["entity_id"]
        if is_password(entity, row["attributes"]):
            sealed.add(entity_domain(str(entity)))
        if entity in kept:
            state, attributes = hide_secret_values(entity, row["state"], row["attributes"])
            states.append(_pick(row, KEPT_OF_STATES) | {"state": state, "attributes": attributes})
    refers = collect_references(listing)

    def readable(texts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: text and keep_readable_parts(text, forms, CODES, sealed, refers) for name, text in texts.items()}

    # the texts of all automations: what is done with an entity may set off one that nobody exposes
    named = (row["entity_id"] for row in old[ha.STATES] if row["entity_id"].startswith("automation."))
    automations = {**dict.fromkeys(sorted({*named})), **old.get(ha.AUTOMATIONS, {})}
    sources = {
        ha.CONFIG: _pick(old[ha.CONFIG], KEPT_OF_CONFIG),
        ha.DEVICES: [_pick(device, KEPT_OF_DEVICES) for device in old[ha.DEVICES] if device["id"] in needed],
        ha.REGISTERED: [{"entity_id": name} for name in entries],
        ha.ENTRIES: entries,
        ha.EXPOSED: {"exposed_entities": of_kept(old[ha.EXPOSED]["exposed_entities"])},
        ha.STATES: states,
        ha.FORMS: forms,
        ha.AUTOMATIONS: readable(automations),
        ha.SERVICES: of_kept(old[ha.SERVICES]),
    }
    if ha.BESIDE in old:
        sources[ha.BESIDE] = old[ha.BESIDE]
    if ha.SCRIPTS in old:
        sources[ha.SCRIPTS] = readable(of_kept(old[ha.SCRIPTS]))
    if ha.HISTORY in old:
        sources[ha.HISTORY] = of_kept(old[ha.HISTORY])
    return listing.with_sources(sources)


def hide_secret_values(entity: str, state: str, attributes: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A state and attributes as a home may hold them."""
    domain = entity_domain(entity)
    if domain in PEOPLE and state not in ("home", *DEAD):
        state = "not_home"  # a zone's name says where the person is
    if attributes.get("mode") == PASSWORD and state not in DEAD:
        state = ""
    if domain == "sensor":
        # phones tell in words where somebody is; a number beside a place is a reading
        number = state.replace(".", "", 1).removeprefix("-").isdecimal()
        if "geocoded" in entity or (any(_attribute_key(name) in PLACES for name in attributes) and not number):
            state = state if state in DEAD else "unknown"
            return state, {name: value for name, value in attributes.items() if name in KEPT_OF_PLACES}
    own = SECRET_OF.get(domain, ())
    return state, {name: value for name, value in attributes.items() if not is_secret_attribute(name) and name not in own}


def is_password(entity: str, attributes: Mapping[str, Any]) -> bool:
    """Whether an entity's state may be a password. A text tells by its mode, which it lacks while nothing is known."""
    mode = attributes.get("mode")
    return mode == PASSWORD or (mode is None and entity_domain(entity) in TEXTS)


def is_secret_attribute(attribute: str) -> bool:
    """Whether nobody is to know an attribute of this name, however it is written: `Postal Code` is `postal_code`."""
    return _attribute_key(attribute) in SECRET


def _attribute_key(attribute: str) -> str:
    return attribute.casefold().replace(" ", "_")


def _strip_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the registry, and of its options only what a home reads."""
    options = row.get("options") or {}
    kept = {key: _pick(options[key], names) for key, names in KEPT_OF_OPTIONS.items() if options.get(key)}
    return _pick(row, KEPT_OF_ENTRIES) | ({"options": kept} if "options" in row else {})


def _with_parents(devices: list[str | None], rows: list[dict[str, Any]]) -> set[str]:
    """The devices with those that they are parts of."""
    above = {row["id"]: row.get("parent_device_id") for row in rows}
    needed: set[str] = set()
    for device in devices:
        while device is not None and device not in needed:
            needed.add(device)
            device = above.get(device)
    return needed


def _pick(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}
