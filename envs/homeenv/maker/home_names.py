"""The names of rooms and devices: the lexicon, coined names, names as people give them in Home Assistant, and aliases.

The lexicon has two halves without a common name: one for training, one held out for evaluation.

Coined names are words that no lexicon has, so that an agent must copy a name from what it reads and cannot remember it. A
word is made of syllables (`velmo`), of letters (`ralndet`), or of the parts of two words of the home (`kitlamp`). The last
begins like a word that the agent knows and goes on in another way. Else an agent learns to copy the new and to finish the
known from memory, and reads `kitchenette` as `kitchen`. For the same reason a coined word may come after known ones, and two
may be joined: an agent that knows `power plug` alone reads `power outlet` as `power plug`.

In Home Assistant, people write names in title case, and often with the name of the room before the device's. In a home with
such whole names, the name of a device is what people call it in its room, and the whole name is what an agent reads, as in
an imported home. Names that differ still differ in title case.

An alias is another word of the lexicon, words of the place (`kitchen lamp`), or coined: `Living Room, Family Room`. Some
devices have the alias as their name, and their name as the alias: a curtain is called `window`, an outlet `coffee maker`.

Invariants:
- A name occurs once in the whole lexicon. It belongs to one half and means one type. It is one or two words of lower case
  ASCII letters, or a few Chinese characters. An alias of the lexicon is a name or an alias of its own half alone.
- The same seed gives the same names. A home's coined names differ, and no lexicon has them.
- A coined name is one or two words of lower case ASCII letters, each with a vowel. They stand alone (`velmo`, `hesk ralnd`),
  or in place of the first word of a name (`velmo bedroom`, `hesk-ralnd lamp`) or of its last word (`floor velmo`).
- In a home, no alias is another name or alias of a room or device, nor the names of a room and a device together.
- Only a device whose main part is one entity for agents has aliases.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, model_validator

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.languages import LanguagePart
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.assist.entities_of_home import entity_shapes
from homerl.envs.homeenv.sim.devices.device_spec import Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home_plan import Link, Origin

Half = Literal["train", "heldout"]
NAMES = LanguagePart(Path(__file__).parent / "names", "names.yaml")
NAME = re.compile(r"[a-z][a-z-]*( [a-z-]+)?|[\u4e00-\u9fff]{1,8}")
NUMBER = re.compile(r" ?\d+$")


class LexiconNames(Model):
    """The names of one type, by half."""

    train: tuple[str, ...] = Field(min_length=1)
    heldout: tuple[str, ...] = Field(min_length=1)


class LexiconAliases(Model):
    """Further words of people: for rooms by name or variant, for devices by product or category."""

    rooms: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    devices: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class Lexicon(Model):
    """The names by room variant and by product or category. `fits` limits a name to some room types.

    `home` is what stands for the room of what is in no room. `brands` maps, for each half, a brand in the catalogue to the
    word that people use for it, and `aliases` has what else they call things.
    """

    rooms: dict[str, LexiconNames]
    devices: dict[str, LexiconNames]
    fits: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    brands: dict[Half, dict[str, str]] = Field(default_factory=dict)
    aliases: dict[Half, LexiconAliases] = Field(default_factory=dict)
    home: str = "home"

    @model_validator(mode="after")
    def _refuse_repeated_names(self) -> Lexicon:
        seen: set[str] = set()
        for names in (*self.rooms.values(), *self.devices.values()):
            for name in (*names.train, *names.heldout):
                if name in seen:
                    raise ValueError(f"the name '{name}' is given twice")
                if not NAME.fullmatch(name):
                    raise ValueError(f"the name '{name}' is not one or two words of lower case letters (or Chinese)")
                seen.add(name)
        if unknown := [name for name in self.fits if name not in seen]:
            raise ValueError(f"fits names '{unknown[0]}', which no type has")
        return self

    @model_validator(mode="after")
    def _refuse_shared_aliases(self) -> Lexicon:
        halves: tuple[Half, Half] = ("train", "heldout")
        for half, other in (halves, halves[::-1]):
            if shared := self._aliases_of_half(half) & (self._names_of_half(other) | self._aliases_of_half(other)):
                raise ValueError(f"the half {half} has the alias '{min(shared)}', which is of the half {other}")
        return self

    def _names_of_half(self, half: Half) -> set[str]:
        return {name for names in (*self.rooms.values(), *self.devices.values()) for name in getattr(names, half)}

    def _aliases_of_half(self, half: Half) -> set[str]:
        known = self.aliases.get(half, LexiconAliases())
        return {alias for of in (known.rooms, known.devices) for words in of.values() for alias in words}

    def room_aliases(self, room: Room, half: Half) -> tuple[str, ...]:
        """Further words for a room, by its name, else by its variant or type."""
        known = self.aliases.get(half, LexiconAliases()).rooms
        name = NUMBER.sub("", room.name)
        variants = [variant for variant, names in self.rooms.items() if name in getattr(names, half)]
        return next((known[key] for key in (name, *variants, room.type) if key in known), ())

    def device_aliases(self, spec: DeviceSpec, half: Half) -> tuple[str, ...]:
        """Further words for a device, by its product, else by its category."""
        known = self.aliases.get(half, LexiconAliases()).devices
        return known.get(spec.name) or known.get(spec.category, ())

    def room_name(self, room_type: str, half: Half, used: Collection[str], rng: random.Random) -> str:
        """Draw a name that is not in `used`. `room_type` is a key of `rooms`, which is a room variant."""
        return _draw_name(getattr(self.rooms[room_type], half), used, rng)

    def brand_name(self, brand: str, room_name: str) -> str | None:
        """The word for a brand in the half to which the name of the room belongs; None if there is none."""
        half = self._half_by_room_name.get(NUMBER.sub("", room_name))
        return self.brands.get(half, {}).get(brand) if half else None

    @cached_property
    def all_words(self) -> frozenset[str]:
        """Every word of every name."""
        return frozenset(word for half in get_args(Half) for name in self._names_of_half(half) for word in name.split())

    @cached_property
    def _half_by_room_name(self) -> dict[str, Half]:
        rooms = self.rooms.values()
        return {name: half for half in get_args(Half) for names in rooms for name in getattr(names, half)}

    def device_name(self, spec: DeviceSpec, kind: str, half: Half, used: Collection[str], rng: random.Random) -> str:
        """Draw a name that fits a room of type `kind` and is not in `used`."""
        names = self.devices.get(spec.name) or self.devices.get(spec.category)
        if names is None:  # a user's own product has the name of its specification in both halves
            return _draw_name((spec.name.replace("_", " "),), used, rng)
        pool = getattr(names, half)
        return _draw_name([name for name in pool if kind in self.fits.get(name, (kind,))] or pool, used, rng)


def _draw_name(pool: Collection[str], used: Collection[str], rng: random.Random) -> str:
    """A name that is not in `used`. Once all names are used, they get numbers."""
    for number in itertools.count(1):
        numbered = pool
        if number > 1:  # `kitchen 2`, or without the space in Chinese
            numbered = [f"{name} {number}" if name.isascii() else f"{name}{number}" for name in pool]
        if free := [name for name in numbered if name not in used]:
            return rng.choice(free)
    raise AssertionError("numbers do not end")


@lru_cache
def load_lexicon(language: str = "en") -> Lexicon:
    """The lexicon of a language. Raises `InputError` for a language without names."""
    return validate_document(Lexicon, read_yaml(NAMES.find_path(language)))


# Coined names


STARTS = (
    "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p ph pl pr qu r s sc sh sk sl sp st sw t th tr tw v w wh y z"
).split()
VOWELS = "a a e e i i o o u u ai au ay ea ee ie oa oi oo ou ow".split()
MIDDLES = ("", "", "", "l", "m", "n", "r", "s", "t", "ck", "b", "g", "v", "x")
ENDS = (*MIDDLES, "ce", "ge", "th", "ng", "nd", "st", "sk", "ll", "p", "d", "le", "er", "or", "en", "ing", "y", "ter", "let")
LETTERS = "eeeeeeaaaaiiiioooouunnnttttrrrrssslllddcchhmmggppbbwwyfkvxzjq"  # about as often as in English
SHAPES = ("alone", "first", "first", "last", "last", "twice", "joined")  # where the coined words of a name stand
STYLES = ("syllables", "syllables", "letters", "blend")


def coin_word(rng: random.Random, home: Sequence[str] = ()) -> str:
    """A word in one of the styles; `home` are words to blend, of which a word is made of syllables if there are none."""
    style = rng.choice(STYLES)
    if style == "letters":
        return _make_speakable("".join(rng.choice(LETTERS) for _ in range(rng.randint(3, 9))), rng)
    if style == "blend" and len(home) > 1:
        one, other = rng.sample(home, 2)
        return _make_speakable(one[: rng.randint(2, len(one))] + other[rng.randint(1, len(other) - 1) :], rng)
    count = rng.choice((1, 1, 2, 2, 2, 3))
    tails = [rng.choice(MIDDLES) for _ in range(count - 1)] + [rng.choice(ENDS)]
    return "".join(rng.choice(STARTS) + rng.choice(VOWELS) + tail for tail in tails)


def _make_speakable(word: str, rng: random.Random) -> str:
    """The word with a vowel at its end if it has none."""
    return word if set(word) & set("aeiou") else word + rng.choice("aeiou")


def coin_names(
    rooms: Sequence[Room], devices: Sequence[Device], share: float, known: Collection[str], seed: int
) -> tuple[tuple[Room, ...], tuple[Device, ...]]:
    """The rooms and devices, a `share` (0 to 1) of which has a coined name. No word of `known` is coined."""
    rng, used = random.Random(f"coined {seed}"), set(known)
    names = (*(room.name for room in rooms), *(device.name for device in devices))
    spoken = {word for name in names for word in name.split()}
    home = sorted(word for word in spoken if word.isascii() and word.isalpha() and len(word) > 2)
    renamed = {room.id: replace(room, name=_coin_name(room.name, share, used, home, rng)) for room in rooms}
    named = [
        replace(device, room=renamed[device.room.id], name=_coin_name(device.name, share, used, home, rng))
        for device in devices
    ]
    return tuple(renamed.values()), tuple(named)


def _coin_name(name: str, share: float, used: set[str], home: Sequence[str], rng: random.Random) -> str:
    """The name, or a coined one with probability `share`. `used` takes the new words."""
    if rng.random() >= share:
        return name
    shape, parts = rng.choice(SHAPES), name.split()
    words: list[str] = []
    while len(words) < (2 if shape in ("twice", "joined") else 1):
        if (word := coin_word(rng, home)) not in used:
            used.add(word)
            words.append(word)
    coined = ("-" if shape == "joined" else " ").join(words)
    before = parts[:-1] or parts if shape == "last" else []
    after = parts[1:] or parts if shape in ("first", "joined") else []
    return " ".join([*before, coined, *after])


# Names in Home Assistant's form


CAPITALS = ("tv", "ac")  # words that are written in capitals
WHOLE = 0.6  # share of devices with a whole name, in every second home


def title_names(
    rooms: Sequence[Room], devices: Sequence[Device], seed: int
) -> tuple[tuple[Room, ...], tuple[Device, ...], Origin | None]:
    """The rooms and devices with names in title case, and the devices' whole names, if the home has some."""
    rng = random.Random(f"titles {seed}")
    renamed = {room.id: replace(room, name=title_case(room.name)) for room in rooms}
    named = tuple(replace(device, room=renamed[device.room.id], name=title_case(device.name)) for device in devices)
    if rng.random() < 0.5:
        return tuple(renamed.values()), named, None
    apart = [one for one in named if one.room.id != HOME and not one.name.startswith(one.room.name)]
    links = {one.did: Link(name=f"{one.room.name} {one.name}") for one in apart if rng.random() < WHOLE}
    return tuple(renamed.values()), named, Origin(system="homemaker", version="1", devices=links)


def title_case(name: str) -> str:
    """The name with a capital in each word: "Kids Bedroom", "TV"."""
    return re.sub("[a-z]+", lambda word: word[0].upper() if word[0] in CAPITALS else word[0].capitalize(), name)


# Aliases


SECOND = 0.35  # share of aliases that are followed by another one
OTHERWISE = 0.3  # share of devices with an alias that are called by it
PLACED, COINED = 0.15, 0.2  # shares of aliases that are words of the place, for devices, or coined
TRIES = 8  # words drawn for an alias before there is none


@dataclass(frozen=True)
class AliasedNames:
    """Devices with their names, and the aliases of rooms by id and of devices by did."""

    devices: tuple[Device, ...]
    of_rooms: dict[str, tuple[str, ...]]
    of_devices: dict[str, tuple[str, ...]]

    def add_to_origin(self, origin: Origin | None, write: Callable[[str], str]) -> Origin:
        """An origin with the aliases, as `write` writes them."""
        known = origin or Origin(system="homemaker", version="1")
        links = {
            did: known.link_of_device(did).model_copy(update={"aliases": tuple(map(write, aliases))})
            for did, aliases in self.of_devices.items()
        }
        rooms = {room: tuple(map(write, aliases)) for room, aliases in self.of_rooms.items()}
        return known.model_copy(update={"devices": {**known.devices, **links}, "rooms": rooms})


def draw_alias_names(
    rooms: Sequence[Room], devices: Sequence[Device], share: float, lexicon: Lexicon, half: Half, seed: int
) -> AliasedNames:
    """The devices, and aliases of a `share` (0 to 1) of the rooms and of the devices."""
    rng = random.Random(f"aliases {seed}")
    taken = {room.name for room in rooms} | {name for one in devices for name in (one.name, f"{one.room.name} {one.name}")}

    def draw_aliases(words: Iterator[str]) -> tuple[str, ...]:
        """One or two aliases, or none."""
        if rng.random() >= share:
            return ()
        found: list[str] = []
        for _ in range(1 + (rng.random() < SECOND)):
            few = (word for word in islice(words, TRIES) if word not in taken)
            if alias := next(few, None):
                found.append(alias)
                taken.add(alias)
        return tuple(found)

    coins = lexicon.home.isascii()
    of_rooms: dict[str, tuple[str, ...]] = {}
    for room in rooms:
        if room.id != HOME:
            of_rooms[room.id] = draw_aliases(_alias_words(lexicon.room_aliases(room, half), room.name, "", coins, rng))
    taken |= {f"{alias} {one.name}" for one in devices for alias in of_rooms.get(one.room.id, ())}
    named, of_devices = [], {}
    for device in devices:
        alone = sum(one.room == device.room and one.spec.category == device.spec.category for one in devices) == 1
        place = device.room.name if alone and coins and device.room.id != HOME else ""
        words = _alias_words(lexicon.device_aliases(device.spec, half), device.name, place, coins, rng)
        single = any(not shape.suffix for shape in entity_shapes(device.spec))
        names = (device.name, *(draw_aliases(words) if single else ()))
        sole = sum(one.name == device.name for one in devices) == 1
        if len(names) > 1 and sole and rng.random() < OTHERWISE:
            names = (names[1], names[0], *names[2:])
        taken |= {f"{room} {name}" for room in (device.room.name, *of_rooms.get(device.room.id, ())) for name in names}
        named.append(replace(device, name=names[0]))
        if len(names) > 1:
            of_devices[device.did] = names[1:]
    return AliasedNames(tuple(named), {room: aliases for room, aliases in of_rooms.items() if aliases}, of_devices)


def _alias_words(known: Sequence[str], name: str, place: str, coins: bool, rng: random.Random) -> Iterator[str]:
    """Aliases for something, without end, unless there are none."""
    last = NUMBER.sub("", name).split()[-1]
    while known or place or coins:
        drawn = rng.random()
        if place and drawn < PLACED:
            yield f"{place} {last}"
        elif coins and (not known or drawn >= 1 - COINED):
            coined = coin_word(rng)
            yield rng.choice((coined, f"{coined} {last}"))
        elif known:
            yield rng.choice(known)
