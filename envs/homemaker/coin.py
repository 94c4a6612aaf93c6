"""Coined names: words that no lexicon has, so that an agent must copy a name from what it reads and cannot remember it.

Invariants: the same seed gives the same names; a home's coined names differ, and no lexicon has them; each is one word of
lower case ASCII letters that can be spoken, alone or in place of the first word of a name (`velmo bedroom`, `hesk lamp`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from envs.homeenv.devices import Device
from envs.homeenv.rooms import Room

STARTS = (
    "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p ph pl pr qu r s sc sh sk sl sp st sw t th tr tw v w wh y z"
).split()
VOWELS = "a a e e i i o o u u ai au ay ea ee ie oa oi oo ou ow".split()
MIDDLES = ("", "", "", "l", "m", "n", "r", "s", "t", "ck", "b", "g", "v", "x")
ENDS = (*MIDDLES, "ce", "ge", "th", "ng", "nd", "st", "sk", "ll", "p", "d", "le", "er", "or", "en", "ing", "y", "ter", "let")
ALONE = 0.5  # share of coined names without a word of the lexicon's


def coin_word(rng: random.Random) -> str:
    """A word of one to three syllables."""
    count = rng.choice((1, 1, 2, 2, 2, 3))
    tails = [rng.choice(MIDDLES) for _ in range(count - 1)] + [rng.choice(ENDS)]
    return "".join(rng.choice(STARTS) + rng.choice(VOWELS) + tail for tail in tails)


def coin_names(
    rooms: Sequence[Room], devices: Sequence[Device], share: float, known: Collection[str], seed: int
) -> tuple[tuple[Room, ...], tuple[Device, ...]]:
    """The rooms and devices, a `share` (0 to 1) of which has a coined name. No word of `known` is coined."""
    rng, used = random.Random(f"coined {seed}"), set(known)
    renamed = {room.id: replace(room, name=_coined(room.name, share, used, rng)) for room in rooms}
    named = [
        replace(device, room=renamed[device.room.id], name=_coined(device.name, share, used, rng)) for device in devices
    ]
    return tuple(renamed.values()), tuple(named)


def _coined(name: str, share: float, used: set[str], rng: random.Random) -> str:
    """The name, or a coined one with probability `share`. `used` takes the new word."""
    if rng.random() >= share:
        return name
    while (word := coin_word(rng)) in used:
        continue
    used.add(word)
    rest = name.split()[1:] or name.split()
    return word if rng.random() < ALONE else " ".join([word, *rest])
