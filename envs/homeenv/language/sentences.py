"""Complete sentences: a meaning in the words of a random speaker, with errors of speech if the wording is noisy.

Invariants: a sentence is a pure function of (meaning, home, voice, wording, random generator); its split is that of its
words, before case and final mark are written.
"""

from __future__ import annotations

import random

from homerl.envs.homeenv.language.clear import called
from homerl.envs.homeenv.language.known import grammar
from homerl.envs.homeenv.language.meaning import Meaning
from homerl.envs.homeenv.language.noise import disturb
from homerl.envs.homeenv.language.speaker import Speaker, Wording
from homerl.envs.homeenv.sim.home import Home
from homerl.play.words.splits import Split, Voice, of_split
from homerl.play.words.writing import write


def utter(meaning: Meaning, home: Home, voice: Voice, wording: Wording, split: Split, rng: random.Random) -> str:
    """A sentence of the split, as it is written. Raises `NoSentence` if none is drawn."""
    text = of_split(lambda: sentence(meaning, home, voice, wording, rng), split)
    return as_written(text, home, voice, rng)


def as_written(text: str, home: Home, voice: Voice, rng: random.Random) -> str:
    """The sentence in the case and with the final mark that the voice's writing draws."""
    things = [thing for device in home.plan.devices for thing in (device, device.room)]
    names = {name for thing in things for name in (thing.name, called(thing, home, voice.by_alias))}
    return write(text, voice.writing, grammar(voice.language), names, rng)


def sentence(meaning: Meaning, home: Home, voice: Voice, wording: Wording, rng: random.Random) -> str:
    """The words of a sentence, of either split."""
    style = rng.choice(("clear", "colloquial")) if wording == "noisy" else wording
    short = bool(voice.writing.short) and rng.random() < voice.writing.short
    speaker = Speaker(home, voice, style, rng, short)
    text = meaning.words(speaker)
    return disturb(text, speaker) if wording == "noisy" else text
