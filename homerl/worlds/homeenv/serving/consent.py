"""Whether the answer to a question consents, or declines, in many languages.

Invariants: nothing but the whole of an answer counts. What holds a phrase that is not listed, of both kinds, or a question
mark at its end, is neither: "yes but not the door" consents to nothing.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

from envs.documents import read_yaml
from homerl.homeassistant.rooms import SPACELESS
from homerl.worlds.homeenv.naming import normalized
from homerl.worlds.homeenv.serving.wording import without_marks

FILE = Path(__file__).parent / "consent.yaml"
ASKED = ("?", "？", ";")  # how a question ends
LONGEST = 60  # signs of an answer: more words say something else
Kind = Literal["yes", "no"]


def assents(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said gives consent, in any language. `language` is that of the home."""
    return _is(said, "yes", language)


def dissents(said: str, language: str = "en") -> bool:
    """Whether the whole of what was said refuses consent."""
    return _is(said, "no", language)


def _is(said: str, kind: Kind, language: str) -> bool:
    if len(said := said.strip()) > LONGEST or said.endswith(ASKED):
        return False
    return _answer(kind, language).fullmatch(_plain(said)) is not None


@cache
def _answer(kind: Kind, language: str) -> re.Pattern[str]:
    """Finds an answer of one kind: its phrases and what fills, with one phrase at least."""
    told: dict[str, Any] = read_yaml(FILE).data
    own = told["own"].get(language.partition("-")[0], {})
    other: Kind = "no" if kind == "yes" else "yes"
    mine = {one for words in (*told[kind].values(), own.get(kind, ())) for one in map(_plain, words)}
    mine -= set(map(_plain, own.get(other, ())))  # Polish says no for yes
    phrases = _one_of(mine)
    filling = _one_of({_plain(one) for words in told["filling"].values() for one in words})
    return re.compile(rf"{filling}*{phrases}(?:{phrases}|{filling})*")


def _one_of(phrases: set[str]) -> str:
    """Finds one of these phrases and the space behind it. In a script without spaces there need be none."""
    ends = (f"{re.escape(one)}(?: |$)" if not SPACELESS.search(one) else f"{re.escape(one)} ?" for one in phrases)
    return f"(?:{'|'.join(sorted(ends))})"


def _plain(text: str) -> str:
    return without_marks(normalized(text)).translate({0x307: None})
