"""The names of rooms and devices, in two halves without a common name: one for training, one held out for evaluation.

Invariants:
- A name occurs once in the whole lexicon. It belongs to one half and means one type.
- An alias is a name or an alias of its own half alone.
- Names are one or two words of lower case ASCII letters, or a few Chinese characters.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Collection
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, model_validator

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.languages import LanguagePart
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import Room

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
