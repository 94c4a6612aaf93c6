"""Complete sentences: a meaning in the words of a random speaker, with errors of speech if the wording is noisy.

The errors are those of speech and speech recognition: fillers, stutters, corrections, and words that are misheard or lost.
Sloppy sentences, which `writing.sloppy` asks for in any wording, may also be cut off at one end.

Invariants:
- A sentence is a pure function of (meaning, home, voice, wording, random generator). Its split is that of its words, before
  case and final mark are written.
- Values are never misheard, split, repeated or dropped.
- A correction never takes back a device or value that the sentence means.
- No error introduces the name of a room or device that the sentence did not contain.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.meaning import Meaning, spoken_name_of, spoken_step
from homerl.envs.homeenv.language.speaker import Speaker, Wording
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.play.words.grammar import WIDE, Split, Style, Voice, draw_of_split, write_sentence

USUAL = {"opened": 6, "garbled": 5, "taken back": 4, "stuttered": 3, "paused": 3, "closed": 2}  # relative frequencies
SLOPPY = USUAL | {"clipped": 3}
LONG = 5  # letters of a word that is still known if some of them are cut off
HOW_MANY = (5, 4, 1)  # relative frequencies of one, two and three errors
WORD = re.compile(r"\S+")
CHARACTER = re.compile(rf"{WIDE}|(?:(?!{WIDE})\S)+")
MARKS = re.compile(r"(?<!\d)[.,;:!?]|[.,;:!?](?!\d)|[，。！？；：、]")


def disturb_sentence(text: str, speaker: Speaker, sloppy: bool = False) -> str:
    """The sentence with one to three errors, without punctuation; if `sloppy`, it may be cut off at one end."""
    usual = SLOPPY if sloppy else USUAL
    text = speaker.grammar.fit_spaces(MARKS.sub(" ", text))
    named = _names_in_text(text, speaker)
    (count,) = speaker.rng.choices(range(1, 1 + len(HOW_MANY)), HOW_MANY)
    chosen: set[str] = set()
    while len(chosen) < count:
        chosen |= set(speaker.rng.choices(list(usual), list(usual.values())))
    changes = (("garbled", garble_word), ("stuttered", add_stutter), ("paused", add_filler), ("clipped", clip_sentence))
    for artefact, change in changes:
        if artefact in chosen:
            changed = change(text, speaker)
            text = changed if _names_in_text(changed, speaker) <= named else text
    if "taken back" in chosen:
        text = add_self_correction(text, speaker)
    if "opened" in chosen:
        text = speaker.say("noise.open", text=text)
    return speaker.say("noise.close", text=text) if "closed" in chosen else text


def add_self_correction(text: str, speaker: Speaker) -> str:
    """The sentence with a wrong device or value that the speaker corrects at once."""
    pieces = [p for p in speaker.pieces if len(_phrase_starts(p.text, text)) == 1]
    speaker.rng.shuffle(pieces)
    for piece in pieces:
        if (device := piece.device) is not None:  # a device that the sentence does not mean, a similar one if possible
            meant = {p.device.did for p in speaker.pieces if p.device is not None}
            others = [other for other in speaker.home.plan.devices if other.did not in meant]
            near = [o for o in others if o.spec.category == device.spec.category or o.room.id == device.room.id]
            wrong = speaker.say_device(speaker.rng.choice(near or others)) if others else None
        else:
            other = _draw_other_value(piece.value, piece.type, speaker.rng)
            wrong = speaker.value_in_words(other, piece.type) if other is not None else None
        if wrong and wrong not in text and piece.text not in wrong:
            start = _phrase_starts(piece.text, text)[0]
            said = speaker.say("noise.correct", wrong=wrong, right=piece.text)
            return speaker.grammar.fit_spaces(f"{text[:start]} {said} {text[start + len(piece.text) :]}")
    return text


def add_stutter(text: str, speaker: Speaker) -> str:
    """The sentence with one word (in Chinese: one character) repeated."""
    starts = [at for at in _word_starts(text, speaker) if not text[at].isdigit()]
    if not starts:
        return text
    at = speaker.rng.choice(starts)
    found = (WORD if speaker.grammar.has_spaces else CHARACTER).match(text, at)
    word = found.group() if found else ""
    return speaker.grammar.fit_spaces(f"{text[:at]} {word} {text[at:]}")


def add_filler(text: str, speaker: Speaker) -> str:
    """The sentence with a filler before a word."""
    at = speaker.rng.choice(_word_starts(text, speaker))
    filler = speaker.rng.choice(speaker.grammar.noise.fillers or ("",))
    return speaker.grammar.fit_spaces(f"{text[:at]} {filler} {text[at:]}")


def clip_sentence(text: str, speaker: Speaker) -> str:
    """The sentence without the outer letters of its first or last word, if that is long and no part of a value."""
    values = [piece.text for piece in speaker.pieces if piece.device is None]
    words = text.split()
    ends = [at for at in (0, -1) if words and _can_be_clipped(words[at], values)]
    if not ends or not speaker.grammar.has_spaces:
        return text
    end, lost = speaker.rng.choice(ends), speaker.rng.randint(1, 2)
    words[end] = words[end][lost:] if end == 0 else words[end][:-lost]
    return " ".join(words)


def _can_be_clipped(word: str, values: Sequence[str]) -> bool:
    return word.isalpha() and len(word) >= LONG and not any(word in value.split() for value in values)


def garble_word(text: str, speaker: Speaker) -> str:
    """The sentence with one word misheard, split, joined with the next, or lost."""
    noise = speaker.grammar.noise
    parts = _split_at_values(text, speaker)
    # The parts with odd indices are values, which are never misheard.
    spoken = range(0, len(parts), 2)
    sounds = [(word, heard) for word, ways in noise.sounds.items() for heard in ways]
    lost = [(word, "") for word in noise.dropped]
    candidates = [
        [(i, *pair) for pair in pairs for i in spoken if _phrase_starts(pair[0], parts[i])] for pairs in (sounds, lost)
    ]
    if not any(candidates):
        return text
    at, word, heard = speaker.rng.choice(speaker.rng.choice([places for places in candidates if places]))
    start = _phrase_starts(word, parts[at])[0]
    parts[at] = parts[at][:start] + heard + parts[at][start + len(word) :]
    return speaker.grammar.fit_spaces("".join(parts))


def _word_starts(text: str, speaker: Speaker) -> list[int]:
    """The positions where words begin, outside values. In Chinese text, only device names have known starts."""
    starts, at = {0}, 0
    for i, part in enumerate(_split_at_values(text, speaker)):
        if i % 2 == 0:
            starts |= {at + m.start() for m in re.finditer(r"(?<=\s)\S", part)}
        at += len(part)
    if not speaker.grammar.has_spaces:
        starts = {0, *(at for p in speaker.pieces if p.device is not None for at in _phrase_starts(p.text, text))}
    values = [(at, at + len(p.text)) for p in speaker.pieces if p.device is None for at in _phrase_starts(p.text, text)]
    return sorted(at for at in starts if not any(low <= at < high for low, high in values)) or [0]


def _split_at_values(text: str, speaker: Speaker) -> list[str]:
    """The text, split at its values and numbers, which have odd indices."""
    values = sorted({p.text for p in speaker.pieces if p.device is None and p.text}, key=len, reverse=True)
    return re.split("(" + "|".join([*map(re.escape, values), r"\d[\d.:]*%?"]) + ")", text)


def _phrase_starts(phrase: str, text: str) -> list[int]:
    """The positions of a phrase in a text, as whole words; in Chinese, anywhere."""
    if phrase not in text:  # true of most words that can be misheard, and a pattern of each costs far more
        return []
    return [m.start() for m in re.finditer(rf"(?<![a-z0-9']){re.escape(phrase)}(?![a-z0-9'])", text)]


def _names_in_text(text: str, speaker: Speaker) -> set[str]:
    """The names of the home's rooms and devices in a text."""
    things: tuple[Device | Room, ...] = (*speaker.home.plan.devices, *speaker.home.plan.rooms)
    names = {name for thing in things for name in (thing.name, speaker.say_thing_name(thing))}
    return {name for name in names if _phrase_starts(name, text)}


def _draw_other_value(value: Any, type: ValueType | None, rng: random.Random) -> Any:
    """A nearby number or another option, or None."""
    if isinstance(value, bool) or type is None:
        return None
    if type.options:
        options = [type.word_of_value(option) for option in type.options] if value in type.state_words else type.options
        return rng.choice([option for option in options if option != value] or [None])
    if not isinstance(value, (int, float)):
        return None
    low, high = type.range or (0, 100)
    step = spoken_step(low, high)
    near = [value + by * step for by in (-2, -1, 1, 2) if low <= value + by * step <= high]
    return rng.choice(near) if near else None


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
    styles: tuple[Style, ...] = ("clear", "colloquial")
    style = rng.choice(styles) if wording == "noisy" else "colloquial" if wording == "people" else wording
    short = bool(voice.writing.short) and rng.random() < voice.writing.short
    speaker = Speaker(home, voice, style, rng, short)
    text = meaning.words(speaker)
    sloppy = bool(voice.writing.sloppy) and rng.random() < voice.writing.sloppy
    return disturb_sentence(text, speaker, sloppy) if wording == "noisy" or sloppy else text
