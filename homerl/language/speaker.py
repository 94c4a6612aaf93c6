"""A speaker: one way of talking, which turns meanings into sentences.

Invariants: a sentence is a pure function of (meaning, home, language, generator); sentences of a split belong to it
for ever (by a hash of their words), so no sentence that was trained on is ever evaluated on; noise is added to a
whole sentence, and never to its numbers and names alone.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from envs.homeenv.home import Home, Room
from envs.homeenv.types import ValueType
from homerl.language.grammar import Grammar, Half, Style, grammar
from homerl.language.meaning import Act, Comparison, Meaning, Target
from homerl.language.noun import is_heavy, phrase

Wording = Literal["clear", "colloquial", "noisy"]
Split = Literal["train", "heldout"]
HELDOUT_SHARE = 5  # one sentence in five is kept for evaluation
TRIES = 60


class NoSentence(Exception):
    """The grammar found no sentence of the split; the blueprint is dropped and counted."""


@dataclass(frozen=True)
class Voice:
    """How people of a blueprint recipe talk: language, how far they stray from the most usual frame, which frames."""

    language: str = "en"
    temperature: float = 1.0
    frames: Half = "any"


class Speaker:
    """Says things of one home, in one style."""

    def __init__(self, home: Home, voice: Voice, style: Style, rng: random.Random) -> None:
        self.home, self.voice, self.style, self.rng = home, voice, style, rng
        self.grammar: Grammar = grammar(voice.language)

    def say(self, key: str, **slots: str) -> str:
        """A frame of the key with its slots filled."""
        return self.grammar.draw(key, slots, self.rng, self.style, self.voice.frames, self.voice.temperature)

    def first(self, *keys: str) -> str:
        """The first of the keys that the grammar has."""
        return next(key for key in keys if key in self.grammar)

    def chance(self, probability: float) -> bool:
        """A coin, which never falls at temperature 0."""
        return self.rng.random() < probability * min(self.voice.temperature, 1.0)

    def act(self, act: Act, target: str | None = None) -> str:
        """One clause: "turn off the kitchen light"; `target` says the noun phrase in place of the act's own."""
        target = target or self.target(act.target)
        slots = {"target": target, "name": self.name(act.service.removeprefix("set_"))}
        if act.value is not None:
            slots["value"] = self.value(act.value, act.type)
        heavy = (f"act.{act.service}.heavy",) if is_heavy(act.target) else ()  # where long noun phrases stand well
        return self.say(self.first(*heavy, f"act.{act.service}", _fallback(act)), **slots)

    def join(self, clauses: Sequence[str]) -> str:
        """Clauses as one request."""
        text = clauses[0]
        for clause in clauses[1:]:
            text = self.say("join", first=text, second=clause)
        return text

    def target(self, target: Target) -> str:
        """A noun phrase."""
        if target.pronoun:
            return self.say("them" if target.many else "it")
        if target.kind is not None:
            return phrase(target, self)
        (device,) = target.devices
        name = f"{device.name} {self.name(target.part)}" if target.part else device.name
        return self.say("device", room=device.room.name, device=name)

    def room(self, room: Room) -> str:
        return self.say("room", room=room.name)

    def name(self, word: str) -> str:
        """An attribute, service, component or category in words; the grammar's, or else its own."""
        key = f"name.{word}"
        return self.say(key) if key in self.grammar else word.replace("_", " ")

    def value(self, value: Any, type: ValueType | None = None) -> str:
        """A value as people say it: on and off for bools, options by name, numbers with or without their unit."""
        if isinstance(value, bool):
            return self.say("value.true" if value else "value.false")
        if isinstance(value, str):
            return self.say(f"option.{value}") if f"option.{value}" in self.grammar else value.replace("_", " ")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        unit = f"unit.{type.unit}" if type is not None and type.unit else None
        return self.say(unit, value=str(value)) if unit is not None and unit in self.grammar else str(value)

    def comparison(self, comparison: Comparison) -> str:
        """ "whose brightness is above 80 percent"."""
        value = self.value(comparison.value, comparison.type)
        return self.say(f"where.{comparison.operator}", name=self.name(comparison.attribute), value=value)


def _fallback(act: Act) -> str:
    if act.value is None:
        return "act._plain"
    return "act._bool" if isinstance(act.value, bool) else "act._enum" if isinstance(act.value, str) else "act._setter"


def split_of(sentence: str) -> Split:
    """The split that owns a sentence."""
    digest = hashlib.blake2b(sentence.lower().encode(), digest_size=4).digest()
    return "heldout" if int.from_bytes(digest, "big") % HELDOUT_SHARE == 0 else "train"


def utter(meaning: Meaning, home: Home, voice: Voice, wording: Wording, split: Split, rng: random.Random) -> str:
    """One sentence of the split, or `NoSentence`."""
    return _of_split(lambda: _sentence(meaning, home, voice, wording, rng), split)


def _of_split(draw: Callable[[], str], split: Split) -> str:
    for _ in range(TRIES):
        sentence = draw()
        if split_of(sentence) == split:
            return sentence
    raise NoSentence


def _sentence(meaning: Meaning, home: Home, voice: Voice, wording: Wording, rng: random.Random) -> str:
    style = rng.choice(("clear", "colloquial")) if wording == "noisy" else wording
    speaker = Speaker(home, voice, style, rng)
    text = meaning.words(speaker)
    return disturb(text, speaker, meaning) if wording == "noisy" else text


def disturb(text: str, speaker: Speaker, meaning: Meaning) -> str:
    """Self-corrections, fillers and a stutter, as speech recognition hands them over."""
    rng = speaker.rng
    if isinstance(acts := getattr(meaning, "acts", None), tuple) and acts and rng.random() < 0.3:
        text = _corrected(text, acts[0], speaker)
    words = text.split()
    if rng.random() < 0.4:
        at = rng.randrange(len(words))
        words.insert(at, words[at])
    text = " ".join(words)
    if rng.random() < 0.8:
        text = speaker.say("noise.open", text=text)
    return speaker.say("noise.close", text=text) if rng.random() < 0.5 else text


def _corrected(text: str, act: Act, speaker: Speaker) -> str:
    """The speaker begins with another room's device and takes it back."""
    taken = {device.room.id for device in act.target.devices}
    others = [device for device in speaker.home.plan.devices if device.room.id not in taken]
    if not others:
        return text
    return speaker.say("noise.correct", wrong=speaker.target(Target.of(speaker.rng.choice(others))), text=text)
