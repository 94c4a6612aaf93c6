"""The split of sentences into training and held-out sentences, and the settings of how people talk.

Invariant: a hash of its words assigns each sentence to one split for ever, so no training sentence is ever evaluated on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from homerl.play.words.grammar import Pool
from homerl.play.words.writing import AS_IT_IS, Writing

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
