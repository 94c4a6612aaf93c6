"""What automations may do because of a call, where the twin cannot follow it.

The twin follows the automations of the home, but no automation that was not understood, and no group: a group that is called
drives its members in the real home alone, and there alone does its state follow theirs.

Invariant: what is told here is told too often rather than not at all. In a home without automations that end at a guarded
device, nothing is.

Whether a name tells of a door, or of what burns.

Invariants: a name and the words of `guard.yaml` are read alike: in small letters, once with umlauts written out and once
without any marks, so it does not matter whether somebody writes Tür, Tuer or Tur. `FrontDoor1` is three words.

Which calls need a person's consent.

Invariants:
- A device is guarded by its kind, its names, the names of its room, or by what it drives. Whatever acts on things that the
  twin does not show, such as a script, is guarded; so is a cover unless its class is known to be harmless and nothing that
  it is called itself tells of a door. A group whose members were never seen is guarded.
- A device is held back like a guarded one if an automation that the twin cannot follow may then act on a guarded one.
- A guarded device is never acted on without consent, unless its owner allowed it by id and the speaker's own words name it
  in full. So no name, state or title of a device in the home can bring an agent to open a lock that nobody spoke of.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from homerl.envs.assistant.device_names import full_device_names, is_device_named, normalize_text, room_names
from homerl.envs.assistant.listing.areas_to_rooms import SPACELESS
from homerl.envs.assistant.listing.home_listing import ENTITY
from homerl.envs.assistant.listing.homeassistant_mapping import device_link, entity_domain
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home

Links = Mapping[str, Iterable[str]]
Ends = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class AutomationPath:
    """From what an automation reads to what it acts on. `followed` says whether the twin plays it."""

    reads: frozenset[str]
    acts: frozenset[str]
    followed: bool


def find_unforeseen_ends(home: Home, dids: Iterable[str], members: Links, guarded: Callable[[str], bool]) -> Ends:
    """The guarded entities on which automations may act, unseen by the twin, because of these devices, by device.

    `members` are the entities that groups list.
    """
    paths = list(_automation_paths(home))
    ends = {path: {did for did in path.acts if guarded(did)} for path in paths}
    if not any(ends.values()):
        return {}
    holders = {one: [group for group, held in members.items() if one in held] for held in members.values() for one in held}

    def reached(did: str) -> set[str]:
        """What changes in the real home with a device: what it drives, and the groups of all that."""
        return _reach_of_links(_reach_of_links({did}, members), holders)

    onward = {path: set[str]().union(*map(reached, path.acts)) for path in paths}
    grown = True
    while grown:  # an automation may make another one act
        sizes = [len(found) for found in ends.values()]
        for path in paths:
            ends[path] |= set[str]().union(*(ends[other] for other in paths if other.reads & onward[path]))
        grown = sizes != [len(found) for found in ends.values()]
    told: Ends = {}
    for did in dids:
        # those that read the device itself are followed, if any are
        unseen = {True: reached(did) - {did}, False: reached(did)}
        if led := {end for path, found in ends.items() if path.reads & unseen[path.followed] for end in found}:
            told[did] = tuple(sorted(led))
    return told


def _automation_paths(home: Home) -> Iterator[AutomationPath]:
    for rule in home.rules:
        compiled = rule.compiled
        if rule.progress.enabled and (compiled.trigger_slots or compiled.awaited_slots):
            reads = frozenset(home.plan.slots[slot].owner for slot in compiled.trigger_slots)
            acts = frozenset(action.did for action in rule.definition.actions)
            yield AutomationPath(reads, acts, followed=True)
            awaited = frozenset(home.plan.slots[slot].owner for slot in compiled.awaited_slots)
            yield AutomationPath(awaited, acts, followed=False)  # whether it waits there, the twin does not know
    for one in home.plan.origin.unfollowed if home.plan.origin else ():
        yield AutomationPath(frozenset(one.reads), frozenset(one.acts), followed=False)


def _reach_of_links(dids: set[str], links: Links) -> set[str]:
    """These devices, and all that links lead to."""
    found, new = set(dids), set(dids)
    while new:
        new = {other for did in new for other in links.get(did, ())} - found
        found |= new
    return found


Group = Literal["acts", "places", "flows", "harmless"]

FILE = Path(__file__).parent / "guard.yaml"
COMPOUND = 6  # letters from which on a word is found within others: Garagentor
LEFT = 3  # letters of a compound beside a shorter one: Hoftor is one, Motor is none
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe"})
LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ı": "i"})  # which are no letters with marks

LATIN = str.maketrans(  # of Cyrillic, as people and Home Assistant's ids write it; и and й are one letter without marks
    dict(zip("абвгдезийіїклмнопрстуфыэ", "abvgdeziiiiklmnoprstufye"))
    | {"ё": "e", "ж": "zh", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ь": "", "ъ": "", "ю": "iu", "я": "ia"}
)


def has_guard_word(texts: Iterable[str], *groups: Group) -> bool:
    """Whether a text has a word of one of these groups."""
    return any(
        _word_pattern(group).search(_strip_harmless(way))
        for text in texts
        for way in _ways_to_write(text)
        for group in groups
    )


def _ways_to_write(text: str) -> list[str]:
    """A text with its words apart and in small letters, in the ways to write it without umlauts."""
    small = normalize_text("".join(_split_words(text))).translate({0x307: None})  # the dot of a Turkish I
    return list(dict.fromkeys((strip_accents(small.translate(UMLAUTS)), strip_accents(small))))


def _split_words(text: str) -> Iterable[str]:
    """The signs of a text, with a space where a word begins in it: before a capital in small letters, beside a number."""
    text = unicodedata.normalize("NFKC", text)
    yield text[:1]
    for number, (before, sign) in enumerate(pairwise(text), 1):
        ends = before.isupper() and sign.isupper() and text[number + 1 : number + 2].islower()
        begins = (before.islower() and sign.isupper()) or (before.isalpha() and sign.isdecimal()) or ends
        yield f" {sign}" if begins or (before.isdecimal() and sign.isalpha()) else sign


def strip_accents(text: str) -> str:
    """A text whose letters have no marks: Tur for Tür."""
    signs = unicodedata.normalize("NFKD", text.translate(LETTERS))
    return unicodedata.normalize("NFC", "".join(sign for sign in signs if not unicodedata.combining(sign)))


@cache
def _word_pattern(group: Group) -> re.Pattern[str]:
    listed: dict[str, list[str]] = read_yaml(FILE).data[group]
    found = {one for words in listed.values() for word in words for one in _patterns_of_word(word, group == "harmless")}
    return re.compile("|".join(sorted(found, key=lambda one: (-len(one), one))))


def _patterns_of_word(word: str, anywhere: bool) -> Iterable[str]:
    """What finds a word, in each of the ways to write it."""
    core, ends, begins = word.strip("-="), word.startswith("-"), word.endswith("-")
    written, *bare = _ways_to_write(core)
    if word.startswith("="):
        yield rf"^{re.escape(written)}$"
        return
    if (latin := core.translate(LATIN)) != core:
        yield from (_pattern_of_writing(one, ends, begins, anywhere) for one in (latin, latin.replace("kh", "h")))
    yield _pattern_of_writing(written, ends, begins, anywhere)
    for one in bare:
        if len(one) > LEFT:
            yield _pattern_of_writing(one, ends, begins, anywhere)
        elif ends:
            yield rf"\w{{{LEFT}}}{one}s?\b"


def _pattern_of_writing(core: str, ends: bool, begins: bool, anywhere: bool) -> str:
    text, left = re.escape(core), rf"\w{{{LEFT}}}"
    if anywhere or (ends and begins):
        return rf"{text}s?\b" if ends and not begins else text
    if ends or begins:
        return rf"(?:{left}|\b){text}s?\b" if ends else rf"\b{text}(?:{left}|s?\b)"
    if len(core) >= COMPOUND or SPACELESS.search(core):
        return text
    return rf"\b{text}s?\b"


def _strip_harmless(text: str) -> str:
    return _harmless_pattern().sub(lambda found: found[1] or " ", text)


@cache
def _harmless_pattern() -> re.Pattern[str]:
    """What finds a long word of the other groups that stands alone, as its first group, or else a harmless one."""
    groups = [words for group, words in read_yaml(FILE).data.items() if group != "harmless"]
    listed = {way for words in groups for many in words.values() for word in many for way in _ways_to_write(word)}
    alone = sorted(re.escape(word) for word in listed if len(word) >= COMPOUND and "-" not in word)
    return re.compile(rf"(\b(?:{'|'.join(alone)})s?\b)|{_word_pattern('harmless').pattern}")


KINDS = frozenset(  # these open the home, arm it, or can set it on fire
    "lock alarm_control_panel alarm_panel siren garage_door opener oven stove gas_valve valve water_heater".split()
)
INDIRECT = frozenset(  # their effects are not in the twin; the last ones have no devices, but automations call them
    "script scene automation button input_button group remote rest_command shell_command python_script pyscript mqtt".split()
)
HARMLESS_COVERS = frozenset("awning blind curtain damper shade shutter".split())  # another class may let somebody in
DECLARED = frozenset(  # these say by their kind what they are: a lamp in a garage is no garage door
    "air_conditioner air_purifier ceiling_fan climate clothes_rack cover curtain dehumidifier dishwasher dryer fan "
    "humidifier lawn_mower light media_player refrigerator speaker thermostat timer todo tv vacuum washer".split()
)
MEMBERS = "entity_id"  # the attribute in which a group lists them


@dataclass(frozen=True)
class Guard:
    """The owner's rules. `allowed` are the ids of guarded devices that need no consent if the speaker names them.

    `held` are the ids of devices that are guarded whatever they show now, also if they are withdrawn, and `groups` what the
    devices of the home list, or listed.
    """

    allowed: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_known_home(self, home: Home) -> Guard:
        """The guard with what a home, as it was imported, tells of its devices. What it does not show is held as before."""
        # what was not available when the home was imported: a group does not list its members then
        found = ((one.did, home.state_of(one.did)) for one in home.plan.devices if one.spec.service_index)
        unseen = frozenset(did for did, state in found if state.get("state") == "unavailable" and MEMBERS not in state)
        held = unseen | {device.did for device in home.plan.devices if is_guarded(home, device, unseen)}
        hidden = self.held - (home.plan.devices_by_did.keys() - unseen)
        return replace(self, held=held | hidden, groups={**self.groups, **_list_groups(home)})

    def with_held_devices(self, dids: frozenset[str]) -> Guard:
        """The guard with further devices that are guarded, whatever the owner allowed."""
        return replace(self, held=self.held | dids, allowed=self.allowed - dids)

    def needs_consent(self, home: Home, made: Sequence[TwinCall], said: str, changed: Iterable[str] = ()) -> dict[str, str]:
        """The guarded devices among those called and `changed` that need consent, each with the reason."""
        dids = dict.fromkeys([*(one.did for one in made), *changed])
        led, reasons = self.find_unfollowed_ends(home, dids), dict[str, str]()
        for did in dids:
            device = home.plan.devices_by_did[did]
            guarded = is_guarded(home, device, self.held)
            if not guarded and did not in led:
                continue
            if did not in self.allowed:
                reasons[did] = "guarded" if guarded else "automation"
            elif not is_device_named(said, home, device):
                reasons[did] = "not named"
        return reasons

    def find_unfollowed_ends(self, home: Home, dids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The guarded entities to which automations may lead from these devices, unseen by the twin, by device."""
        members = {**self.groups, **_list_groups(home)}
        return find_unforeseen_ends(home, dids, members, lambda did: _is_guarded_entity(home, did, self.held, frozenset()))


def is_guarded(home: Home, device: Device, held: frozenset[str] = frozenset(), within: frozenset[str] = frozenset()) -> bool:
    """Whether a device may open the home, arm it, or set it on fire, itself or by what it drives.

    `held` are those of `Guard`. `within` are the groups by which it was reached, since groups may hold each other.
    """
    data = device.spec.userdata
    if data.category in KINDS | INDIRECT or (data.category == "cover" and data.subcategory not in HARMLESS_COVERS):
        return True
    if not device.spec.service_index:
        return False
    if device.did in held or _has_guarded_name(home, device):
        return True
    within |= {device.did}
    return any(_is_guarded_entity(home, one, held, within) for one in _listed_entities(home, device))


def _has_guarded_name(home: Home, device: Device) -> bool:
    link, category = device_link(home, device.did), device.spec.category
    if category == "cover":  # any class may be a guess of its integration: the name tells, but a blind may hang in a garage
        own = [device.name, link.name or "", *link.aliases, device.did.partition(".")[2]]
        if has_guard_word(own, "places"):
            return True
    return _tells_to_guard([*full_device_names(home, device), *room_names(home, device), device.did], category)


def _list_groups(home: Home) -> dict[str, tuple[str, ...]]:
    return {device.did: listed for device in home.plan.devices if (listed := tuple(_listed_entities(home, device)))}


def _listed_entities(home: Home, device: Device) -> Iterator[str]:
    """The entities that a device lists, such as those of a group."""
    for value in home.state_of(device.did).values():
        if isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, str) and ENTITY.fullmatch(one))


def _is_guarded_entity(home: Home, did: str, held: frozenset[str], within: frozenset[str]) -> bool:
    """Whether what a group or an automation acts on is guarded. Of what the home does not have, only the id is known."""
    if did in within:
        return False
    if (device := home.plan.devices_by_did.get(did)) is not None:
        return is_guarded(home, device, held, within)
    kind = entity_domain(did)
    return did in held or kind in KINDS | INDIRECT | {"cover"} or _tells_to_guard([did], kind)


def _tells_to_guard(texts: Iterable[str], category: str) -> bool:
    """Whether a text says that a device of this category is to be guarded."""
    return has_guard_word(texts, "acts") if category in DECLARED else has_guard_word(texts, "acts", "places", "flows")
