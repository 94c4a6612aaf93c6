"""The phrases that count as an answer, in all languages that have a grammar.

Invariants: a phrase that already occurs in the question does not count (`free_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from homerl.envs.homeenv.language.known import home_grammar, list_home_languages
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.play.words.grammar import Grammar
from homerl.play.words.numbers import find_numbers

Ways = tuple[str, ...]


@lru_cache
def _grammars() -> tuple[Grammar, ...]:
    return tuple(map(home_grammar, list_home_languages()))


def _frames(key: str) -> Iterator[str]:
    for known in _grammars():
        if key in known:
            yield from (text for text in known.plain_texts(key) if not set(text) & set("[(|<"))


def ways_of_device(device: Device) -> Ways:
    """Phrases for a device: its room and name, and its name alone (which another device may share)."""
    return _ways(device.room.name, device.name)


@lru_cache(maxsize=4096)
def _ways(room: str, name: str) -> Ways:
    texts = [frame.replace("{room}", room).replace("{device}", name) for frame in _frames("query.way")]
    return tuple(dict.fromkeys(texts))


def ways_of_option(option: str, path: str) -> Ways:
    """Phrases for an option of an attribute: its name and its words."""
    attribute = path.rpartition(".")[2]
    keys = (f"option.{attribute}.{option}", f"option.{option}", f"query.option.{option}")
    return tuple(dict.fromkeys([option.replace("_", " "), *(way for key in keys for way in _frames(key))]))


def phrases_not_in_text(ways: Ways, taken: str) -> Ways:
    """The phrases that do not occur in the text `taken`."""
    return tuple(way for way in ways if not re.search(rf"(?<![a-z]){re.escape(way)}(?![a-z])", taken))


def ways_of_trait(name: str) -> Ways:
    """Phrases that say that a trait holds."""
    return tuple(dict.fromkeys(_frames(f"query.trait.{name}")))


def names_with_numbers(devices: Sequence[Device]) -> Ways:
    """Names of devices and rooms that contain numbers ("two-door oven"), which a reader of numbers must ignore."""
    names = (name for device in devices for name in (device.name, device.room.name))
    return tuple(dict.fromkeys(name for name in names if re.search(r"\d", name) or find_numbers(name)))
