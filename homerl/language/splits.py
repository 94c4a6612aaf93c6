"""Which sentences are trained on and which are kept for evaluation, and how the people of a recipe talk.

Invariant: sentences of a split belong to it for ever (by a hash of their words), so no sentence that was trained on is ever
evaluated on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from homerl.language.grammar import Half

Split = Literal["train", "heldout"]
HELDOUT_SHARE = 5  # one sentence in five is kept for evaluation
TRIES = 60  # sentences that are drawn until one is of the split


class NoSentence(Exception):
    """The grammar found no sentence of the split; the blueprint is dropped and counted."""


@dataclass(frozen=True)
class Voice:
    """How people of a blueprint recipe talk: language, how far they stray from the most usual frame, which frames."""

    language: str = "en"
    temperature: float = 1.0
    frames: Half = "any"


def split_of(sentence: str) -> Split:
    """The split that owns a sentence."""
    digest = hashlib.blake2b(sentence.lower().encode(), digest_size=4).digest()
    return "heldout" if int.from_bytes(digest, "big") % HELDOUT_SHARE == 0 else "train"


def of_split(draw: Callable[[], str], split: Split) -> str:
    """The first sentence drawn that is of the split, or `NoSentence`."""
    for _ in range(TRIES):
        sentence = draw()
        if split_of(sentence) == split:
            return sentence
    raise NoSentence
