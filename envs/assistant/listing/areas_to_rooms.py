"""Rooms of a home from the areas and floors of Home Assistant, and the names of devices in them.

Invariants: a room's id is its area's id and its name the area's; the names of the devices of a room differ; a name never
becomes empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from homerl.envs.assistant.listing.home_listing import ListedArea, ListedEntity, Listing
from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.sim.devices.rooms import HOME, OUTDOORS, Room
from homerl.envs.homeenv.sim.plan.import_origin import Storey

GENERAL = "room"  # the type of a room whose name says nothing
TAKEN = re.compile(rf"({HOME}|{OUTDOORS})(_area)*")
LETTER = re.compile(r"[^\W\d_]")
COMPOUND = 5  # letters from which on a word is found within others: Schlafzimmer Eltern, Wohnküche
APART = r"(?:\s*[:,_–-]+)?\s+(?=[^\W_])"  # what is between a room's name and the rest: never an apostrophe, `&` or `/`
JOINED = r"[\s:：,，_-]*[的の]?(?![和与及跟或・と])(?=[^\W_])"  # the same in scripts that write words together
LISTING = frozenset("and or of und oder et ou de y o e och og en i ja".split())  # then the rest is no name
# Scripts that write words together, or whose vowel signs are no letters to `re`, so that `\b` finds no end of a word: those
# of India, Thai, Lao, Burmese and Khmer beside Chinese, Japanese and Korean.
SPACELESS = re.compile(r"[\u0900-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def rooms_from_areas(listing: Listing) -> tuple[Room, ...]:
    """A room for each area, on the level of its floor."""
    levels = {floor.floor_id: floor.level or 0 for floor in listing.floors}
    rooms = []
    for area in listing.areas:
        kind, level = guess_room_type(area.name, *area.aliases), levels.get(area.floor_id or "", 0)
        rooms.append(Room(room_id_of_area(area.area_id), kind, area.name, level))
    return tuple(rooms)


def storeys_from_floors(listing: Listing) -> tuple[Storey, ...]:
    """The floors, from the lowest, with the rooms on them."""
    storeys = []
    for floor in sorted(listing.floors, key=lambda floor: (floor.level is None, floor.level or 0)):
        rooms = tuple(room_id_of_area(area.area_id) for area in listing.areas if area.floor_id == floor.floor_id)
        storeys.append(Storey(id=floor.floor_id, name=floor.name, aliases=floor.aliases, rooms=rooms))
    return tuple(storeys)


def room_id_of_area(area: str) -> str:
    """The id of an area's room: its own, unless every home gives that another meaning. Rooms of two areas have two ids."""
    return f"{area}_area" if TAKEN.fullmatch(area) else area


def guess_room_type(*names: str) -> str:
    """The type of room that the first telling name of several means; `room` if none does."""
    for name in map(str.casefold, names):
        found = [(len(word), kind) for word, kind in _read_room_words() if _has_word(name, word)]
        if found:
            return max(found, key=lambda pair: pair[0])[1]  # that of the longest word
    return GENERAL


def _has_word(name: str, word: str) -> bool:
    """Whether a word is in a name. Short words must stand alone: `bad` is in no `badger`."""
    if SPACELESS.search(word) or len(word) >= COMPOUND:
        return word in name
    return re.search(rf"\b{re.escape(word)}\b", name) is not None


@cache
def _read_room_words() -> tuple[tuple[str, str], ...]:
    listed: Mapping[str, list[str]] = read_yaml(Path(__file__).with_name("rooms.yaml")).data
    return tuple((word.casefold(), kind) for kind, words in listed.items() for word in words)


def name_devices(entities: Iterable[ListedEntity], areas: Mapping[str, ListedArea]) -> dict[str, str]:
    """What people call each entity: its name without its room's, unless two in a room would then have the same."""
    names: dict[str, str] = {}
    used: set[tuple[str | None, str]] = set()
    for entity in sorted(entities, key=lambda entity: entity.entity_id):
        area = areas.get(entity.area_id or "")
        short = _strip_room_name(entity.name, (area.name, *area.aliases) if area else ())
        choices = [short, entity.name, *(f"{entity.name} {number}" for number in range(2, len(used) + 3))]
        name = next(choice for choice in choices if (entity.area_id, choice.casefold()) not in used)
        used.add((entity.area_id, name.casefold()))
        names[entity.entity_id] = name
    return names


def _strip_room_name(name: str, rooms: Iterable[str]) -> str:
    """The name without the room's at its beginning. Garden is a part of `Back Garden`, but not what it begins with.

    The whole name stays where the rest would be none: of `Hall and porch light`, `Anna's lamp` or `Kitchen 2`.
    """
    name = " ".join(name.split())
    for room in sorted(filter(None, rooms), key=len, reverse=True):
        match = re.match(re.escape(room) + (JOINED if SPACELESS.search(room) else APART), name, flags=re.IGNORECASE)
        rest = name[match.end() :] if match else ""
        if LETTER.search(rest) and rest.split()[0].casefold() not in LISTING:
            return rest
    return name
