"""How sentences are written, and how they are split into training and held-out sentences.

Invariants:
- A hash of its words assigns each sentence to one split for ever, so no training sentence is ever evaluated on.
- Writing changes letter case and the final mark only, never a word. `bare_sentence` undoes both, so a sentence and its
  written forms belong to the same split.
- Without shares nothing is drawn at random. The words of `names` keep their case but in `small` sentences.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from homerl.envs.core.model import LateShare, Model
from homerl.play.words.grammar import Grammar, Pool

MARKS = ".?!。？！"


class Writing(Model):
    """How people write, in shares of their sentences; by default as the grammar has them."""

    capitalised: float = Field(0.0, ge=0, le=1, description="Share that begins with a capital letter.")
    lowered: float = Field(0.0, ge=0, le=1, description="Share without capital letters, but for names.")
    small: LateShare = Field(
        0.0,
        description="Share of sentences without any capital letter, not even in names; beside `capitalised` and `lowered`.",
    )
    punctuated: float = Field(0.0, ge=0, le=1, description="Share that ends in a full stop or question mark.")
    short: float = Field(0.0, ge=0, le=1, description="Share in short frames, such as `kitchen light off`.")

    @model_validator(mode="after")
    def _one_case_each(self) -> Writing:
        if self.capitalised + self.lowered + self.small > 1:
            raise ValueError("capitalised, lowered, small: their sum should be at most 1, for a sentence has one of them")
        return self


AS_IT_IS = Writing()


def write_sentence(text: str, writing: Writing, grammar: Grammar, names: Iterable[str], rng: random.Random) -> str:
    """The sentence in a drawn case and with or without a final mark."""
    if not (writing.capitalised or writing.lowered or writing.small or writing.punctuated):
        return text
    drawn = rng.random()
    if drawn < writing.capitalised:
        text = capitalise_sentence(text, grammar)
    elif drawn < writing.capitalised + writing.lowered:
        text = lower_sentence(text, names)
    elif drawn < writing.capitalised + writing.lowered + writing.small:
        text = text.lower()
    return punctuate_sentence(text, grammar) if rng.random() < writing.punctuated else text


def capitalise_sentence(text: str, grammar: Grammar) -> str:
    """The sentence with a capital at its beginning, and in the words that always have one ("I")."""
    for word in grammar.plain_texts("writing.capital"):
        text = re.sub(rf"(?<![\w']){re.escape(word)}(?!\w)", lambda found: _capitalise_first(found.group()), text)
    return _capitalise_first(text)


def _capitalise_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def lower_sentence(text: str, names: Iterable[str]) -> str:
    """The sentence without capitals, except in the names."""
    kept = [re.escape(name) for name in sorted(names, key=len, reverse=True) if name != name.lower()]
    parts = re.split(f"({'|'.join(kept)})", text) if kept else [text]
    return "".join(part if at % 2 else part.lower() for at, part in enumerate(parts))


def punctuate_sentence(text: str, grammar: Grammar) -> str:
    """The sentence with a final mark, if it has none: a question mark after a question."""
    if text.endswith(tuple(MARKS)):
        return text
    key = "writing.asking" if is_question(text, grammar) else "writing.telling"
    return grammar.draw_sentence(key, {"text": text}, random.Random(0), "clear", "any", 0.0)


def is_question(text: str, grammar: Grammar) -> bool:
    """Whether a sentence is a question, by the words that begin or end one in its language."""
    text = text.lower()
    begins = any(re.match(rf"{re.escape(word)}(?![a-z])", text) for word in grammar.plain_texts("writing.begins"))
    return begins or any(word in text for word in grammar.plain_texts("writing.has"))


def bare_sentence(sentence: str) -> str:
    """The sentence in lower case and without its final mark: what decides about its split."""
    return sentence.lower().rstrip(MARKS)


Split = Literal["train", "heldout"]
HELDOUT_SHARE = 5  # one sentence in so many is held out
TRIES = 60  # draws before giving up


class NoSentence(Exception):
    """Raised if no drawn sentence belongs to the split. The author then drops the blueprint and counts it."""


class UnclearSentence(NoSentence):
    """Raised if no sentence is clear, because two things have the same name."""


@dataclass(frozen=True)
class Voice:
    """How the people of a blueprint recipe talk.

    `temperature` sets how often less usual frames are drawn; at 0 only the most usual frame is used. `frames` is the
    pool of frames that are drawn. `writing` has the shares of cases, final marks and short sentences, and `by_alias` is the
    share of things that are called by an alias.
    """

    language: str = "en"
    temperature: float = 1.0
    frames: Pool = "any"
    writing: Writing = AS_IT_IS
    by_alias: float = 0.0


def split_of(sentence: str) -> Split:
    """The split that a sentence belongs to."""
    digest = hashlib.blake2b(sentence.lower().encode(), digest_size=4).digest()
    return "heldout" if int.from_bytes(digest, "big") % HELDOUT_SHARE == 0 else "train"


def draw_of_split(draw: Callable[[], str], split: Split) -> str:
    """The first drawn sentence that belongs to the split. Raises `NoSentence` after `TRIES` draws."""
    for _ in range(TRIES):
        sentence = draw()
        if split_of(sentence) == split:
            return sentence
    raise NoSentence
