"""Complete sentences: a meaning in the words of a random speaker, with errors of speech if the wording is noisy.

Invariants: a sentence is a pure function of (meaning, home, voice, wording, random generator); its split is that of its
words, before case and final mark are written.
"""

from __future__ import annotations

import random

from homerl.envs.homeenv.language.clear import spoken_name_of
from homerl.envs.homeenv.language.known import home_grammar
from homerl.envs.homeenv.language.meaning import Meaning
from homerl.envs.homeenv.language.noise import disturb_sentence
from homerl.envs.homeenv.language.speaker import Speaker, Wording
from homerl.envs.homeenv.sim.home import Home
from homerl.play.words.splits import Split, Voice, draw_of_split
from homerl.play.words.writing import write_sentence


def write_utterance(meaning: Meaning, home: Home, voice: Voice, wording: Wording, split: Split, rng: random.Random) -> str:
    """A sentence of the split, as it is written. Raises `NoSentence` if none is drawn."""
    text = draw_of_split(lambda: draw_sentence(meaning, home, voice, wording, rng), split)
    return apply_writing_style(text, home, voice, rng)


def apply_writing_style(text: str, home: Home, voice: Voice, rng: random.Random) -> str:
    """The sentence in the case and with the final mark that the voice's writing draws."""
    things = [thing for device in home.plan.devices for thing in (device, device.room)]
    names = {name for thing in things for name in (thing.name, spoken_name_of(thing, home, voice.by_alias))}
    return write_sentence(text, voice.writing, home_grammar(voice.language), names, rng)


def draw_sentence(meaning: Meaning, home: Home, voice: Voice, wording: Wording, rng: random.Random) -> str:
    """The words of a sentence, of either split."""
    style = rng.choice(("clear", "colloquial")) if wording == "noisy" else wording
    short = bool(voice.writing.short) and rng.random() < voice.writing.short
    speaker = Speaker(home, voice, style, rng, short)
    text = meaning.words(speaker)
    return disturb_sentence(text, speaker) if wording == "noisy" else text
