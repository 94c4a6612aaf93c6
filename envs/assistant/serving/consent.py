"""Whether the answer to a question consents, or declines, and what else it says beside a code, in many languages.

Invariants: nothing but the whole of an answer counts. What holds a phrase that is not listed, of both kinds, or a question
mark at its end, is neither: "yes but not the door" consents to nothing.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

from homerl.envs.assistant.listing.rooms import SPACELESS
from homerl.envs.assistant.naming import normalize_text
from homerl.envs.assistant.serving.wording import strip_accents
from homerl.envs.core.documents import read_yaml

FILE = Path(__file__).parent / "consent.yaml"
ASKED = ("?", "？", ";")  # how a question ends
LONGEST = 60  # signs of an answer: more words say something else
Kind = Literal["yes", "no"]


def is_consent(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said gives consent, in any language. `language` is that of the home."""
    return _is(said, "yes", language)


def is_refusal(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said refuses consent."""
    return _is(said, "no", language)


def is_code_frame(said: str, language: str = "en") -> bool:
    """Whether what stands before or behind a code says nothing but yes, and that this is the code."""
    return len(said) <= LONGEST and _frame(language).fullmatch(_plain(said)) is not None


def _is(said: str, kind: Kind, language: str) -> bool:
    if len(said := said.strip()) > LONGEST or said.endswith(ASKED):
        return False
    return _answer(kind, language).fullmatch(_plain(said)) is not None


@cache
def _answer(kind: Kind, language: str) -> re.Pattern[str]:
    """Finds an answer of one kind: its phrases and what fills, with one phrase at least."""
    phrases, filling = _one_of(_phrases(kind, language)), _one_of(_listed("filling"))
    return re.compile(rf"{filling}*{phrases}(?:{phrases}|{filling})*")


@cache
def _frame(language: str) -> re.Pattern[str]:
    """Finds what may stand beside a code, which may be nothing."""
    return re.compile(rf"{_one_of(_phrases('yes', language) | _listed('filling') | _listed('code'))}*")


def _phrases(kind: Kind, language: str) -> set[str]:
    """The phrases of a kind, in all languages and in the home's own."""
    own = read_yaml(FILE).data["own"].get(language.partition("-")[0], {})
    other: Kind = "no" if kind == "yes" else "yes"
    mine = _listed(kind) | set(map(_plain, own.get(kind, ())))
    return mine - set(map(_plain, own.get(other, ())))  # Polish says no for yes


def _listed(key: str) -> set[str]:
    """What the file lists under a key, in all languages."""
    return {_plain(one) for words in read_yaml(FILE).data[key].values() for one in words}


def _one_of(phrases: set[str]) -> str:
    """Finds one of these phrases and the space behind it. In a script without spaces there need be none."""
    ends = (f"{re.escape(one)}(?: |$)" if not SPACELESS.search(one) else f"{re.escape(one)} ?" for one in phrases)
    return f"(?:{'|'.join(sorted(ends))})"


def _plain(text: str) -> str:
    return strip_accents(normalize_text(text)).translate({0x307: None})
