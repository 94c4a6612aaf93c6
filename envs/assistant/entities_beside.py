"""What a guard must know of entities of which the model is told nothing: those that are not exposed, and what drives what.

Automations and groups act on entities that nobody exposed, and wait for them. So a listing keeps, of each such entity,
whether its names tell that it opens the home, and what it drives or follows; of exposed ones, what their lists do not say.

Invariant: no name and no state of an entity that is not exposed is kept, and nothing that tells where somebody is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from homerl.envs.assistant.automations.named_entities import list_names
from homerl.envs.assistant.listing.guard_words import DECLARED, tells_to_guard
from homerl.envs.assistant.listing.home_listing import (
    AUTOMATIONS,
    BESIDE,
    ENTRIES,
    SCRIPTS,
    STATES,
    Listing,
    Row,
    entity_domain,
    is_entity_id,
)
from homerl.envs.assistant.privacy import hide_secret_values, strip_private_listing
from homerl.envs.homeenv.sim.home_plan import ANYTHING

WRAPPER = "switch_as_x"  # the platform of what shows a switch as a lock, a siren, a valve
WRITTEN = frozenset("template command_line rest".split())  # platforms of what runs actions that nobody can read
CALLED = frozenset("switch select number text".split())  # kinds of these whose actions may be any
DRAWN = frozenset("power current apparent_power reactive_power power_factor energy".split())  # what a device draws
DRAWING = DECLARED | {"switch"}
PLACED = frozenset("person zone device_tracker".split())  # kinds that tell where somebody is, and drive nothing
LISTING = frozenset(  # attributes in which groups and helpers name what they are made of
    "entity_id group_members active_child source".split()
)


def strip_listing_for_guard(listing: Listing, kept: Collection[str]) -> Listing:
    """The listing with these entities alone, without what is private, and with what a guard must know beside."""
    stripped = strip_private_listing(listing, kept)
    named = list_names([stripped.sources[AUTOMATIONS], stripped.sources.get(SCRIPTS, {})])
    return stripped.with_sources({BESIDE: find_entities_beside(listing, kept, frozenset(named))})


def find_entities_beside(listing: Listing, kept: Collection[str], named: Collection[str]) -> dict[str, dict[str, Any]]:
    """What is known of entities to which `kept` ones, or those that automations name, lead, by id: `guarded`, `lists`."""
    if BESIDE in listing.sources:  # of a listing that was stripped before
        return {**listing.sources[BESIDE]}
    rows = {row["entity_id"]: row for row in listing.sources[STATES] if entity_domain(row["entity_id"]) not in PLACED}
    links = _links_of_listing(listing, rows, kept)
    found, new, seen = dict[str, dict[str, Any]](), [*kept, *named], set[str]()
    for one in new:  # which grows
        if one not in seen:
            seen.add(one)
            new += links.get(one, ())
    for one in sorted(seen & rows.keys()):
        # that an exposed one lists another exposed one, its device shows
        shown = {*_list_members(rows[one], rows, lists_alone=True)}.intersection(kept) if one in kept else set[str]()
        told: dict[str, Any] = {}
        if lists := [other for other in links.get(one, ()) if other not in shown]:
            told["lists"] = lists
        if one not in kept and tells_to_guard(_list_names_of_entity(listing, rows[one]), entity_domain(one)):
            told["guarded"] = True
        found |= {one: told} if told else {}
    return found


def _links_of_listing(listing: Listing, rows: Mapping[str, Row], kept: Collection[str]) -> dict[str, list[str]]:
    """What each entity drives or follows. Of `kept` ones each list tells it that a home shows."""
    links = defaultdict[str, dict[str, None]](dict)
    entries = {one: entry for one, entry in listing.sources[ENTRIES].items() if isinstance(entry, Mapping) and one in rows}
    of_device = defaultdict[Any, list[str]](list)
    for one, entry in entries.items():
        if entry.get("device_id"):
            of_device[entry["device_id"]].append(one)
    for one, row in rows.items():
        links[one] |= dict.fromkeys(_list_members(row, rows))
        links[one] |= dict.fromkeys(_list_members(row, rows, lists_alone=True)) if one in kept else {}
    for one, entry in entries.items():
        kind, beside = entity_domain(one), of_device[entry.get("device_id")] if entry.get("device_id") else []
        if entry.get("platform") == WRAPPER:
            named = rows[one]["attributes"].get("friendly_name")
            switches = [other for other in beside or rows if entity_domain(other) == "switch" and other != one]
            switches = [other for other in switches if beside or rows[other]["attributes"].get("friendly_name") == named]
            hidden = [other for other in switches if entries.get(other, {}).get("hidden_by")]
            for other in hidden or switches:
                links[other][one] = links[one][other] = None
        elif entry.get("platform") in WRITTEN and kind in CALLED:
            links[one][ANYTHING] = None
        elif kind == "sensor" and rows[one]["attributes"].get("device_class") in DRAWN:
            links[one] |= dict.fromkeys(other for other in beside if entity_domain(other) in DRAWING)
    return {one: [*told] for one, told in links.items() if told}


def _list_members(row: Row, known: Collection[str], lists_alone: bool = False) -> Iterator[str]:
    """The known entities that a group or a helper is made of, or with `lists_alone` those in any list that a home shows."""
    _, attributes = hide_secret_values(row["entity_id"], row["state"], row["attributes"])
    for name, value in attributes.items():
        listed = isinstance(value, list)
        if listed if lists_alone else name in LISTING:
            yield from (one for one in (value if listed else [value]) if is_entity_id(one) and one in known)


def _list_names_of_entity(listing: Listing, row: Mapping[str, Any]) -> list[str]:
    """What an entity, its device and its area are called."""
    entity = row["entity_id"]
    entry = listing.sources[ENTRIES].get(entity) or {}
    area = next((one for one in listing.areas if one.area_id == listing.area_of_entity(entity)), None)
    device = listing.device_of_entity(entity)
    names = [row["attributes"].get("friendly_name"), entry.get("name"), entry.get("original_name"), entity]
    names += [*(entry.get("aliases") or ()), device.get("name"), device.get("name_by_user")]
    names += [area.name, *area.aliases] if area else []
    return [name for name in names if isinstance(name, str)]
