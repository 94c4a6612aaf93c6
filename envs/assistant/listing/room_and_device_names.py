"""Rooms of a home from the areas of Home Assistant, what devices are called, and whether a person's words name one.

Invariants:
- A room's id is its area's id and its name the area's. The names of the devices of a room differ, and none is empty.
- Only a whole name names a device, only where no other device that can be called has it, and not within a longer name of
  any other device.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from homerl.envs.assistant.listing.home_listing import ListedArea, ListedEntity, Listing
from homerl.envs.assistant.listing.homeassistant_mapping import device_link
from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan, Storey

GENERAL = "room"  # the type of a room whose name says nothing
TAKEN = re.compile(rf"({HOME}|{OUTDOORS})(_area)*")
LETTER = re.compile(r"[^\W\d_]")
COMPOUND = 5  # letters from which on a word is found within others: Schlafzimmer Eltern, Wohnküche
APART = r"(?:\s*[:,_–-]+)?\s+(?=[^\W_])"  # what is between a room's name and the rest: never an apostrophe, `&` or `/`
JOINED = r"[\s:：,，_-]*[的の]?(?![和与及跟或・と])(?=[^\W_])"  # the same in scripts that write words together
LISTING = frozenset("and or of und oder et ou de y o e och og en i ja".split())  # then the rest is no name
SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # scripts that write words together


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


FILLING = r"[\s的の]"  # what may stand between the words of a name in a script without spaces
LEAST = 3  # signs of a name in such a script: 门锁 is what many locks are called
GAP = "|"  # no name has it, so none reaches across


def is_device_named(said: str, home: Home, device: Device) -> bool:
    """Whether a person's words hold a whole name of a device, or an alias.

    A name of other devices with which something can be done counts with the room alone. So does a name of one word, for
    `Door` may be what is left of `Garage Door`. What is part of a longer name of another device does not count: the front
    door light is no front door, and neither is the front door battery.
    """
    others = [one for one in home.plan.devices if one.did != device.did]
    shared = _names_as_phrases(home, [one for one in others if one.spec.service_index])
    known, heard = _names_as_phrases(home, others), normalize_text(said)
    aliases = {normalize_text(alias) for alias in device_link(home, device.did).aliases}
    for phrase in _names_as_phrases(home, [device]) - shared:
        one_word = " " not in phrase and (len(phrase) < LEAST or not SPACELESS.search(phrase))
        if not re.sub(FILLING, "", phrase) or (one_word and phrase not in aliases):
            continue  # it does not tell which device is meant
        if _is_heard(heard, phrase, shared, known):
            return True
    return False


def full_device_names(home: Home, device: Device) -> list[str]:
    """All that a device is called: its name, its whole name there, both with each name of its room, and its aliases."""
    link = device_link(home, device.did)
    own = [device.name, *([link.name] if link.name else [])]
    return [*own, *(f"{room} {name}" for room in room_names(home, device) for name in own), *link.aliases]


def room_names(home: Home, device: Device) -> list[str]:
    """The names of a device's room."""
    origin = home.plan.origin
    return [device.room.name, *(origin.rooms.get(device.room.id, ()) if origin else ())]


def normalize_text(text: str) -> str:
    """A text in small letters, with one space in place of signs. However a letter with an accent is written, it is one."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # a mark (M) is part of a letter, such as a vowel of Hindi or Thai
    words = (sign if sign.isalnum() or unicodedata.category(sign).startswith("M") else " " for sign in folded)
    return " ".join("".join(words).split())


def _names_as_phrases(home: Home, devices: Iterable[Device]) -> set[str]:
    return {normalize_text(name) for device in devices for name in full_device_names(home, device)}


def _is_heard(heard: str, phrase: str, shared: set[str], known: set[str]) -> bool:
    """Whether a phrase is heard outside of the longer ones that are known. The same one hides it only if it is shared."""
    own = _phrase_pattern(phrase)
    longer = (one for one in known if own.search(one) and (one in shared or not own.fullmatch(one)))
    for one in sorted(longer, key=len, reverse=True):
        heard = _phrase_pattern(one).sub(GAP, heard)
    return bool(own.search(heard))


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Finds a phrase in whole words, if its script has words."""
    if SPACELESS.search(phrase):
        return re.compile(f"{FILLING}*".join(map(re.escape, re.sub(FILLING, "", phrase))))
    return re.compile(rf"(?<!\S){re.escape(phrase)}(?!\S)")


def spoken_device_name(plan: FixedPlan, did: str) -> str:
    """What a person calls a device: its whole name, with its room if that is one word or another device has it too."""
    device = plan.devices_by_did[did]
    name = _whole_name(plan, device)
    alike = sum(_whole_name(plan, other) == name for other in plan.devices) > 1
    placed = device.room.id == HOME or normalize_text(device.room.name) in normalize_text(name)
    bare = " " not in name.strip() and not SPACELESS.search(name)
    return name if placed or not (alike or bare) else f"{device.room.name} {name}"


def _whole_name(plan: FixedPlan, device: Device) -> str:
    return (plan.origin and plan.origin.link_of_device(device.did).name) or device.name
