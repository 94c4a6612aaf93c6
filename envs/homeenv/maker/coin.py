"""Coined names: words that no lexicon has, so that an agent must copy a name from what it reads and cannot remember it.

A word is made of syllables (`velmo`), of letters (`ralndet`), or of the parts of two words of the home (`kitlamp`). The last
begins like a word that the agent knows and goes on in another way. Else an agent learns to copy the new and to finish the
known from memory, and reads `kitchenette` as `kitchen`. For the same reason a coined word may come after known ones, and two
may be joined: an agent that knows `power plug` alone reads `power outlet` as `power plug`.

Invariants:
- The same seed gives the same names.
- A home's coined names differ, and no lexicon has them.
- A name is one or two words of lower case ASCII letters, each with a vowel. They stand alone (`velmo`, `hesk ralnd`), or in
  place of the first word of a name (`velmo bedroom`, `hesk-ralnd lamp`) or of its last word (`floor velmo`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import Room

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
        return _spoken("".join(rng.choice(LETTERS) for _ in range(rng.randint(3, 9))), rng)
    if style == "blend" and len(home) > 1:
        one, other = rng.sample(home, 2)
        return _spoken(one[: rng.randint(2, len(one))] + other[rng.randint(1, len(other) - 1) :], rng)
    count = rng.choice((1, 1, 2, 2, 2, 3))
    tails = [rng.choice(MIDDLES) for _ in range(count - 1)] + [rng.choice(ENDS)]
    return "".join(rng.choice(STARTS) + rng.choice(VOWELS) + tail for tail in tails)


def _spoken(word: str, rng: random.Random) -> str:
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
    renamed = {room.id: replace(room, name=_coined(room.name, share, used, home, rng)) for room in rooms}
    named = [
        replace(device, room=renamed[device.room.id], name=_coined(device.name, share, used, home, rng))
        for device in devices
    ]
    return tuple(renamed.values()), tuple(named)


def _coined(name: str, share: float, used: set[str], home: Sequence[str], rng: random.Random) -> str:
    """The name, or a coined one with probability `share`. `used` takes the new words."""
    if rng.random() >= share:
        return name
    shape, parts = rng.choice(SHAPES), name.split()
    words = [_new(used, home, rng) for _ in range(2 if shape in ("twice", "joined") else 1)]
    coined = ("-" if shape == "joined" else " ").join(words)
    before = parts[:-1] or parts if shape == "last" else []
    after = parts[1:] or parts if shape in ("first", "joined") else []
    return " ".join([*before, coined, *after])


def _new(used: set[str], home: Sequence[str], rng: random.Random) -> str:
    while (word := coin_word(rng, home)) in used:
        continue
    used.add(word)
    return word
