"""What a guard must know of entities of which the model is told nothing: those that are not exposed, and what drives what.

Automations and groups act on entities that nobody exposed, and wait for them. So a listing keeps, of each such entity,
whether its names tell that it opens the home, and what it drives or follows; of exposed ones, what their lists do not say.

Invariant: no name and no state of an entity that is not exposed is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from homerl.envs.assistant.listing.guard_words import DECLARED, tells_to_guard
from homerl.envs.assistant.listing.home_listing import BESIDE, ENTRIES, STATES, Listing, entity_domain, is_entity_id
from homerl.envs.homeenv.sim.home_plan import ANYTHING

WRAPPER = "switch_as_x"  # the platform of what shows a switch as a lock, a siren, a valve
WRITTEN = frozenset("template command_line rest".split())  # platforms of what runs actions that nobody can read
CALLED = frozenset("switch select number text".split())  # kinds of these whose actions may be any
DRAWN = frozenset("power current apparent_power reactive_power power_factor energy".split())  # what a device draws
DRAWING = DECLARED | {"switch"}
PLACED = frozenset("person zone device_tracker".split())  # kinds whose entities list each other, and drive nothing


def find_entities_beside(listing: Listing, kept: Collection[str], named: Collection[str]) -> dict[str, dict[str, Any]]:
    """What is known of entities to which `kept` ones, or those that automations name, lead, by id: `guarded`, `lists`."""
    if BESIDE in listing.sources:  # of a listing that was stripped before
        return {**listing.sources[BESIDE]}
    rows = {row["entity_id"]: row for row in listing.sources[STATES]}
    links = _links_of_listing(listing, rows)
    found, new = dict[str, dict[str, Any]](), [*kept, *named]
    for one in dict.fromkeys(new):
        new += links.get(one, ())
    for one in sorted({*new} & rows.keys()):
        shown = {*_listed(rows[one]["attributes"], rows, whole=False)} if one in kept else set[str]()
        told: dict[str, Any] = {}
        if lists := [other for other in links.get(one, ()) if other not in shown]:
            told["lists"] = lists
        if one not in kept and tells_to_guard(_names(listing, rows[one]), entity_domain(one)):
            told["guarded"] = True
        found |= {one: told} if told else {}
    return found


def _links_of_listing(listing: Listing, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """What each entity drives or follows."""
    links = defaultdict[str, dict[str, None]](dict)
    entries = {one: entry for one, entry in listing.sources[ENTRIES].items() if isinstance(entry, Mapping) and one in rows}
    of_device = defaultdict[Any, list[str]](list)
    for one, entry in entries.items():
        if entry.get("device_id"):
            of_device[entry["device_id"]].append(one)
    for one, row in rows.items():
        links[one] |= dict.fromkeys(_listed(row["attributes"], rows)) if entity_domain(one) not in PLACED else {}
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


def _listed(attributes: Mapping[str, Any], known: Collection[str], whole: bool = True) -> Iterator[str]:
    """The known entities that attributes name: in lists and, if `whole`, alone."""
    for value in attributes.values():
        for one in value if isinstance(value, list) else [value] if whole else []:
            if is_entity_id(one) and one in known:
                yield one


def _names(listing: Listing, row: Mapping[str, Any]) -> list[str]:
    """What an entity, its device and its area are called."""
    entity = row["entity_id"]
    entry = listing.sources[ENTRIES].get(entity) or {}
    area = next((one for one in listing.areas if one.area_id == listing.area_of_entity(entity)), None)
    device = listing.device_of_entity(entity)
    names = [row["attributes"].get("friendly_name"), entry.get("name"), entry.get("original_name"), entity]
    names += [*(entry.get("aliases") or ()), device.get("name"), device.get("name_by_user")]
    names += [area.name, *area.aliases] if area else []
    return [name for name in names if isinstance(name, str)]
