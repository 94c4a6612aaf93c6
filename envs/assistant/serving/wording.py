"""Whether a name tells of a door, or of what burns.

Invariants: a name and the words of `guard.yaml` are read alike: in small letters, once with umlauts written out and once
without any marks, so it does not matter whether somebody writes Tür, Tuer or Tur. `FrontDoor1` is three words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from homerl.envs.assistant.listing.rooms import SPACELESS
from homerl.envs.assistant.naming import normalize_text
from homerl.envs.core.documents import read_yaml

Group = Literal["acts", "places", "flows", "harmless"]

FILE = Path(__file__).parent / "guard.yaml"
COMPOUND = 6  # letters from which on a word is found within others: Garagentor
LEFT = 3  # letters of a compound beside a shorter one: Hoftor is one, Motor is none
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe"})
LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ı": "i"})  # which are no letters with marks

LATIN = str.maketrans(  # of Cyrillic, as people and Home Assistant's ids write it; и and й are one letter without marks
    dict(zip("абвгдезийіїклмнопрстуфыэ", "abvgdeziiiiklmnoprstufye"))
    | {"ё": "e", "ж": "zh", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ь": "", "ъ": "", "ю": "iu", "я": "ia"}
)


def has_guard_word(texts: Iterable[str], *groups: Group) -> bool:
    """Whether a text has a word of one of these groups."""
    return any(_finder(group).search(_without_harmless(way)) for text in texts for way in _ways(text) for group in groups)


def _ways(text: str) -> list[str]:
    """A text with its words apart and in small letters, in the ways to write it without umlauts."""
    small = normalize_text("".join(_apart(text))).translate({0x307: None})  # the dot of a Turkish I
    return list(dict.fromkeys((strip_accents(small.translate(UMLAUTS)), strip_accents(small))))


def _apart(text: str) -> Iterable[str]:
    """The signs of a text, with a space where a word begins in it: before a capital in small letters, beside a number."""
    text = unicodedata.normalize("NFKC", text)
    yield text[:1]
    for number, (before, sign) in enumerate(pairwise(text), 1):
        ends = before.isupper() and sign.isupper() and text[number + 1 : number + 2].islower()
        begins = (before.islower() and sign.isupper()) or (before.isalpha() and sign.isdecimal()) or ends
        yield f" {sign}" if begins or (before.isdecimal() and sign.isalpha()) else sign


def strip_accents(text: str) -> str:
    """A text whose letters have no marks: Tur for Tür."""
    signs = unicodedata.normalize("NFKD", text.translate(LETTERS))
    return unicodedata.normalize("NFC", "".join(sign for sign in signs if not unicodedata.combining(sign)))


@cache
def _finder(group: Group) -> re.Pattern[str]:
    listed: dict[str, list[str]] = read_yaml(FILE).data[group]
    found = {one for words in listed.values() for word in words for one in _patterns(word, group == "harmless")}
    return re.compile("|".join(sorted(found, key=lambda one: (-len(one), one))))


def _patterns(word: str, anywhere: bool) -> Iterable[str]:
    """What finds a word, in each of the ways to write it."""
    core, ends, begins = word.strip("-="), word.startswith("-"), word.endswith("-")
    written, *bare = _ways(core)
    if word.startswith("="):
        yield rf"^{re.escape(written)}$"
        return
    if (latin := core.translate(LATIN)) != core:
        yield from (_pattern(one, ends, begins, anywhere) for one in (latin, latin.replace("kh", "h")))
    yield _pattern(written, ends, begins, anywhere)
    for one in bare:
        if len(one) > LEFT:
            yield _pattern(one, ends, begins, anywhere)
        elif ends:
            yield rf"\w{{{LEFT}}}{one}s?\b"


def _pattern(core: str, ends: bool, begins: bool, anywhere: bool) -> str:
    text, left = re.escape(core), rf"\w{{{LEFT}}}"
    if anywhere or (ends and begins):
        return rf"{text}s?\b" if ends and not begins else text
    if ends or begins:
        return rf"(?:{left}|\b){text}s?\b" if ends else rf"\b{text}(?:{left}|s?\b)"
    if len(core) >= COMPOUND or SPACELESS.search(core):
        return text
    return rf"\b{text}s?\b"


def _without_harmless(text: str) -> str:
    return _spared().sub(lambda found: found[1] or " ", text)


@cache
def _spared() -> re.Pattern[str]:
    """What finds a long word of the other groups that stands alone, as its first group, or else a harmless one."""
    groups = [words for group, words in read_yaml(FILE).data.items() if group != "harmless"]
    listed = {way for words in groups for many in words.values() for word in many for way in _ways(word)}
    alone = sorted(re.escape(word) for word in listed if len(word) >= COMPOUND and "-" not in word)
    return re.compile(rf"(\b(?:{'|'.join(alone)})s?\b)|{_finder('harmless').pattern}")
