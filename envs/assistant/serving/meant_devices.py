"""Whether a person's words mean the devices that an agent calls, or another one may as well be meant.

A device is named by a word of its names or aliases, of its room's names, or of its kind. A call is unclear if

- nothing of the device is named, neither in the sentence nor in the exchange before it, and the same call would change
  another device of the kind. Where the person speaks beside the device, only devices of that room count;
- the sentence names rooms, the device is in none of them, no word of its own name is there, and the same call would change
  another device of the kind;
- the sentence names another device of the kind better, which the call would change and the agent does not call: all words
  that name the called one name it too, and so do more;
- nothing of the device is named, and the whole own name of another device with the same service is.

What is named and not called is an exception, which makes no call unclear, if several devices of the kind are called and no
other is left: "all lights off but the desk lamp", "every blind down except in the kitchen". A floor names its rooms.

Words count as a person writes them: without marks, with letters missing or swapped in long ones, and within compounds. Words
that Home Assistant's sentences have for anything ("the", "turn") name nothing.

Invariants: no word is listed here, so it works in each language for which Home Assistant has sentences (`kind_words.py`); in
another one no call is unclear. Nothing changes the home.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property, lru_cache

from homerl.envs.assistant.listing.homeassistant_mapping import device_link
from homerl.envs.assistant.listing.room_and_device_names import SPACELESS, room_names
from homerl.envs.assistant.serving.kind_words import KindWords, kind_words, split_words, translated_kinds
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.homeenv.sim.assist.entities_of_home import AssistEntity, EntityShape, entities_of_plan, floors_of_plan
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused

WITHIN = 4  # letters from which on a word is found within another: Küchenlicht
ALIKE, LONG = 0.85, 5  # how alike two words of so many letters are, one of which is misspelt


@dataclass(frozen=True)
class NamedParts:
    """The words of a text that name a device: its own name, its room, and its kind. `whole`: its whole own name is there."""

    own: frozenset[str]
    room: frozenset[str]
    kind: frozenset[str]
    whole: bool

    @property
    def words(self) -> frozenset[tuple[str, str]]:
        """Each word, with what it names."""
        parts = {"own": self.own, "room": self.room, "kind": self.kind}
        return frozenset((part, word) for part, words in parts.items() for word in words)


@dataclass(frozen=True)
class DeviceNames:
    """By which words people of a language name the devices of a home. `texts` are Home Assistant's translations."""

    home: Home
    words: Sequence[KindWords]
    texts: Mapping[str, str]
    _kinds: dict[tuple[str, str | None], frozenset[str]] = field(default_factory=dict, repr=False)

    def parts_in(self, said: str, device: Device, service: str) -> NamedParts:
        """The words of a text that name a device, whose kind is that of what offers a service."""
        heard = split_words(said)
        kind, room = self._kind_words(device, service), self._room_words(device)
        own, other = self._own_words(device), kind | room
        # "light" is its kind, and no part of the name of a spotlight
        beside = tuple(word for word in heard if word not in other)
        return NamedParts(
            own=_find_words(beside, own - other),
            room=_find_words(heard, room),
            kind=_find_words(heard, kind),
            whole=bool(own) and all(_find_words(heard if word in other else beside, frozenset([word])) for word in own),
        )

    def rooms_in(self, said: str) -> set[str]:
        """The ids of the rooms that a text names."""
        heard, found = split_words(said), set[str]()
        for device in self.home.plan.devices:
            if device.room.id != HOME and _find_words(heard, self._room_words(device)):
                found.add(device.room.id)
        return found

    def domains_of(self, device: Device) -> set[str]:
        """The domains of the entities of a device."""
        return {one.domain for one in self._entities.get(device.did, ())}

    @cached_property
    def _entities(self) -> dict[str, list[AssistEntity]]:
        found: dict[str, list[AssistEntity]] = {}
        for one in entities_of_plan(self.home.plan):
            found.setdefault(one.device.did, []).append(one)
        return found

    @cached_property
    def _common(self) -> frozenset[str]:
        return frozenset().union(*(one.common for one in self.words))

    def _telling_words(self, names: Iterable[str]) -> frozenset[str]:
        """The words of names, without those that any sentence may have unless there are no others."""
        words = frozenset(word for name in names for word in split_words(name))
        return words - self._common or words

    def _own_words(self, device: Device) -> frozenset[str]:
        link = device_link(self.home, device.did)
        return self._telling_words(filter(None, (device.name, link.name, *link.aliases)))

    def _room_words(self, device: Device) -> frozenset[str]:
        if device.room.id == HOME:
            return frozenset()
        floors = [one for one in floors_of_plan(self.home.plan) if device.room.id in one.rooms]
        levels = (name for one in floors for name in (one.name, *one.aliases))
        return self._telling_words(room_names(self.home, device)) | self._telling_words(levels)

    def _kind_words(self, device: Device, service: str) -> frozenset[str]:
        """The words of the kinds of the entities that offer a service; of all of a device if none is known to."""
        entities = self._entities.get(device.did, [])
        offering = [one for one in entities if _offers_service(one.shape, service)] or entities
        return frozenset().union(*(self._words_of_kind(one.domain, one.shape.device_class) for one in offering))

    def _words_of_kind(self, domain: str, device_class: str | None) -> frozenset[str]:
        """The words of a kind. Those of another device class are none."""
        if (domain, device_class) not in self._kinds:
            told = {word for text in translated_kinds(self.texts, domain, device_class) for word in split_words(text)}
            found = told - self._common
            for words in self.words:
                own = words.by_class.get(device_class or "", frozenset())
                others = frozenset[str]().union(*words.by_class.values()) - own if own else frozenset[str]()
                found |= (words.by_domain.get(domain, frozenset()) - others) | own
            self._kinds[domain, device_class] = frozenset(found)
        return self._kinds[domain, device_class]


def _offers_service(shape: EntityShape, service: str) -> bool:
    acts = {step.service for step in shape.acts.values()}
    return service in acts | {setting.service for setting in shape.sets.values()}


@lru_cache(1024)
def _find_words(heard: tuple[str, ...], words: frozenset[str]) -> frozenset[str]:
    """What is heard of these words."""
    return frozenset(one for one in heard if any(_is_same_word(word, one) for word in words))


@lru_cache(1 << 15)
def _is_same_word(word: str, heard: str) -> bool:
    if word == heard or word == f"{heard}s" or heard == f"{word}s":
        return True
    if SPACELESS.search(word):
        return word in heard or (len(word) > 2 and word[-2:] in heard)  # two letters that stand together
    if (len(word) >= WITHIN and word in heard) or (len(heard) > WITHIN and heard in word):
        return True
    return min(len(word), len(heard)) >= LONG and SequenceMatcher(None, word, heard).ratio() >= ALIKE


def find_unclear_devices(
    home: Home, calls: Sequence[TwinCall], said: str, before: str, languages: Iterable[str], texts: Mapping[str, str]
) -> tuple[str, ...]:
    """The devices of calls that the words of a person do not clearly mean. `before` is what was said last before them.

    `languages` are those that the person may speak; the first is that of the home.
    """
    words = [kind_words(one) for one in dict.fromkeys(languages)]
    if not words[0].known:
        return ()
    names = DeviceNames(home, words, texts)
    called = {one.did for one in calls}
    unclear = (one.did for one in calls if _is_unclear(names, one, called, said, before))
    return tuple(dict.fromkeys(unclear))


def _is_unclear(names: DeviceNames, call: TwinCall, called: Collection[str], said: str, before: str) -> bool:
    home = names.home
    devices = home.plan.devices_by_did
    device = devices[call.did]
    named, rooms = names.parts_in(said, device, call.service), names.rooms_in(said)
    offering = [
        one for one in home.plan.devices if one.did not in called and call.service in one.spec.service_index
    ]  # those beside it that may be meant
    kinds = names.domains_of(device)
    alike = [one for one in offering if names.domains_of(one) & kinds]

    def parts_of(one: Device) -> NamedParts:
        return names.parts_in(said, one, call.service)

    def would_change_any(devices: Iterable[Device]) -> bool:
        return any(_would_change(home, one, call) for one in devices)

    def are_exceptions(left: Collection[Device]) -> bool:
        return several and not would_change_any(one for one in alike if one not in left)

    several = sum(not kinds.isdisjoint(names.domains_of(devices[did])) for did in called) > 1
    better = [one for one in alike if parts_of(one).words > named.words]
    if would_change_any(better) and not are_exceptions(better):
        return True
    if rooms and device.room.id not in rooms and not named.own:
        return would_change_any(alike) and not are_exceptions([one for one in alike if one.room.id in rooms])
    if named.words:
        return False
    if any(parts_of(one).whole for one in offering):
        return True
    if names.parts_in(before, device, call.service).words:
        return False
    here = home.plan.entrance_room
    return would_change_any(one for one in alike if one.room == device.room or here != device.room)


def _would_change(home: Home, device: Device, call: TwinCall) -> bool:
    """Whether the same call would change another device."""
    twin = home.fork()
    try:
        twin.call(device.did, call.service, (), dict(call.arguments))
    except Refused:
        return False
    return bool(home.diff(twin))
