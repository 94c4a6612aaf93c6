"""Complete sentences: a meaning in the words of a random speaker, with errors of speech if the wording is noisy.

Invariant: a sentence is a pure function of (meaning, home, voice, wording, random generator).
"""

from __future__ import annotations

import random

from envs.homeenv.home import Home
from homerl.language.splits import Split, Voice, of_split
from homerl.worlds.homeenv.language.meaning import Meaning
from homerl.worlds.homeenv.language.noise import disturb
from homerl.worlds.homeenv.language.speaker import Speaker, Wording


def utter(meaning: Meaning, home: Home, voice: Voice, wording: Wording, split: Split, rng: random.Random) -> str:
    """A sentence of the split. Raises `NoSentence` if none is drawn."""
    return of_split(lambda: sentence(meaning, home, voice, wording, rng), split)


def sentence(meaning: Meaning, home: Home, voice: Voice, wording: Wording, rng: random.Random) -> str:
    """A sentence, of either split."""
    style = rng.choice(("clear", "colloquial")) if wording == "noisy" else wording
    speaker = Speaker(home, voice, style, rng)
    text = meaning.words(speaker)
    return disturb(text, speaker) if wording == "noisy" else text
