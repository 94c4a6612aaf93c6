"""The ways to say an answer, in every language that there is a grammar for.

Invariants: a way that stands in the words of the question itself says nothing (`free_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from envs.homeenv.devices import Device
from homerl.language.grammar import Grammar
from homerl.worlds.homeenv.language.shipped import grammar, languages

Ways = tuple[str, ...]


@lru_cache
def _grammars() -> tuple[Grammar, ...]:
    return tuple(map(grammar, languages()))


def _frames(key: str) -> Iterator[str]:
    for known in _grammars():
        if key in known:
            yield from (text for text in known.plain_all(key) if not set(text) & set("[(|<"))


def ways_of_device(device: Device) -> Ways:
    """By room and name, and by its name alone (which may be another's too)."""
    return _ways(device.room.name, device.name)


@lru_cache(maxsize=4096)
def _ways(room: str, name: str) -> Ways:
    texts = [frame.replace("{room}", room).replace("{device}", name) for frame in _frames("query.way")]
    return tuple(dict.fromkeys(texts))


def ways_of_option(option: str, path: str) -> Ways:
    """An option's name and its words."""
    attribute = path.rpartition(".")[2]
    keys = (f"option.{attribute}.{option}", f"option.{option}", f"query.option.{option}")
    return tuple(dict.fromkeys([option.replace("_", " "), *(way for key in keys for way in _frames(key))]))


def free_of(ways: Ways, taken: str) -> Ways:
    """The ways that these words do not hold."""
    return tuple(way for way in ways if not re.search(rf"(?<![a-z]){re.escape(way)}(?![a-z])", taken))


def ways_of_trait(name: str) -> Ways:
    """How a trait is said to hold."""
    return tuple(dict.fromkeys(_frames(f"query.trait.{name}")))


def numbered(devices: Sequence[Device]) -> Ways:
    """Names that have digits in them."""
    names = (name for device in devices for name in (device.name, device.room.name))
    return tuple(dict.fromkeys(name for name in names if re.search(r"\d", name)))
