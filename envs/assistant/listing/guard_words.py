"""Which words in the name of a device tell that it opens the home, arms it, or may set it on fire, in many languages.

Invariant: a name and the words of `guard_words.yaml` are read alike: in small letters, once with umlauts written out, once
without any marks, so it does not matter whether somebody writes Tür, Tuer or Tur. `FrontDoor1` is three words. A word of
letters of two scripts is read as its look-alike in one, and signs that nobody sees are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from homerl.envs.assistant.listing.room_and_device_names import SPACELESS, normalize_text
from homerl.envs.core.documents import read_yaml

GUARD_WORDS = Path(__file__).with_suffix(".yaml")

DECLARED = frozenset(  # these say by their kind what they are: a lamp in a garage is no garage door
    "air_conditioner air_purifier ceiling_fan climate clothes_rack cover curtain dehumidifier dishwasher dryer fan "
    "humidifier lawn_mower light media_player refrigerator speaker thermostat timer todo tv vacuum washer".split()
)


@cache
def _read_guard_words() -> Any:
    """What `guard_words.yaml` holds: the file is long."""
    return read_yaml(GUARD_WORDS).data


def has_guard_words(language: str) -> bool:
    """Whether it is known what guarded devices are called in a language."""
    return language.partition("-")[0].lower() in _read_guard_words()["acts"]


def tells_to_guard(texts: Iterable[str], category: str) -> bool:
    """Whether a text says that a device of this category is to be guarded."""
    return has_guard_word(texts, "acts") if category in DECLARED else has_guard_word(texts, "acts", "places", "flows")


Group = Literal["acts", "places", "flows", "harmless"]
GUARDED: tuple[Group, ...] = ("acts", "places", "flows")

# Scripts of India, Thai, Lao, Burmese and Khmer. Their vowel signs are no letters to `re`, so `\b` finds no end of a word.
VOWEL_SIGNS = re.compile(r"[\u0900-\u0eff\u1000-\u109f\u1780-\u17ff]")
COMPOUND = 6  # letters from which on a word is found within others: Garagentor
LEFT = 3  # letters of a compound beside a shorter one: Hoftor is one, Motor is none
STEM = 4  # letters of a word that may have another ending in place of its last vowel: zaworu, and brány for brána
VOWELS = "aeiouyαεηιουωаеиоуыюяіє"
VOICED = 8  # the class of marks that make another sound of a Japanese letter: ガス is gas, カス is none
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe"})
LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ı": "i"})  # which are no letters with marks

LATIN = str.maketrans(  # of Cyrillic, as people and Home Assistant's ids write it; и and й are one letter without marks
    dict(zip("абвгдезийіїклмнопрстуфыэ", "abvgdeziiiiklmnoprstufye"))
    | {"ё": "e", "ж": "zh", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ь": "", "ъ": "", "ю": "iu", "я": "ia"}
)


# Small letters that look like those of another script, themselves or as capitals (В, Н, Ρ)
CYRILLIC, AS_LATIN = "авекмнорстухіѕјԁһӏԛԝ", "abekmhopctyxisjdhlqw"
GREEK, GREEK_AS_LATIN = "αβεζηικμνορτυχγ", "abezhikmnoptyxy"
LOOKS_LATIN = str.maketrans(CYRILLIC + GREEK + "ɡɑ", AS_LATIN + GREEK_AS_LATIN + "ga")
LOOKS_CYRILLIC = str.maketrans(AS_LATIN[:15], CYRILLIC[:15])


def _read_look_alikes(text: str) -> Iterable[str]:
    """A text whose words of mixed scripts are read as of one: `Gаte` with a Cyrillic а is Gate."""
    words = text.split(" ")
    mixed = [at for at, word in enumerate(words) if len({*map(_script_of_letter, filter(str.isalpha, word))}) > 1]
    for table in (LOOKS_LATIN, LOOKS_CYRILLIC) if mixed else ():
        yield " ".join(word.translate(table) if at in mixed else word for at, word in enumerate(words))


def _script_of_letter(letter: str) -> str:
    """The script of a letter, by the first word of its name: `CYRILLIC`."""
    return unicodedata.name(letter, "").partition(" ")[0]


def has_guard_word(texts: Iterable[str], *groups: Group) -> bool:
    """Whether a text has a word of one of these groups."""
    return any(
        _word_pattern(group).search(_harmless_pattern().sub(lambda found: found[1] or " ", way))
        for text in texts
        for way in _ways_to_write(text)
        for group in groups
    )


def _ways_to_write(text: str) -> list[str]:
    """A text with its words apart and in small letters, in the ways to write it without umlauts."""
    small = normalize_text("".join(_split_words(text))).translate({0x307: None})  # the dot of a Turkish I
    own = (strip_accents(small.translate(UMLAUTS)), strip_accents(small))
    return list(dict.fromkeys((*own, *_read_look_alikes(own[-1]))))


def _split_words(text: str) -> Iterable[str]:
    """The signs of a text, with a space where a word begins in it: before a capital in small letters, beside a number."""
    text = "".join(sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")  # not seen
    yield text[:1]
    for number, (before, sign) in enumerate(pairwise(text), 1):
        ends = before.isupper() and sign.isupper() and text[number + 1 : number + 2].islower()
        begins = (before.islower() and sign.isupper()) or (before.isalpha() and sign.isdecimal()) or ends
        yield f" {sign}" if begins or (before.isdecimal() and sign.isalpha()) else sign


def strip_accents(text: str) -> str:
    """A text whose letters have no marks: Tur for Tür."""
    signs = unicodedata.normalize("NFKD", text.translate(LETTERS))
    return unicodedata.normalize("NFC", "".join(sign for sign in signs if unicodedata.combining(sign) in (0, VOICED)))


@cache
def _word_pattern(group: Group) -> re.Pattern[str]:
    data = _read_guard_words()
    endings = {} if group == "harmless" else {language: _read_endings(data, language) for language in data["endings"]}
    found = {
        one
        for language, words in data[group].items()
        for word in words
        for one in _patterns_of_word(word, group == "harmless", endings.get(language, PLURAL))
    }
    return re.compile("|".join(sorted(found, key=lambda one: (-len(one), one))))


class Endings(NamedTuple):
    """Patterns of what a word may have at its end, and of what it may have there in place of its last vowel."""

    added: str
    instead: str = ""


PLURAL = Endings("s")


def _read_endings(data: Mapping[str, Any], language: str) -> Endings:
    """The endings of a language, in each of the ways to write them."""
    listed = data["endings"][language]
    ways = {way for ending in listed for one in (ending, ending.translate(LATIN)) for way in _ways_to_write(one)}
    return Endings("|".join(sorted(ways | {"s"})), "|".join(sorted(ways)) if language in data["vowels_fall"] else "")


def _patterns_of_word(word: str, anywhere: bool, endings: Endings) -> Iterable[str]:
    """What finds a word, in each of the ways to write it."""
    core, ends, begins = word.strip("-="), word.startswith("-"), word.endswith("-")
    written, *bare = _ways_to_write(core)
    if word.startswith("="):
        yield rf"^{re.escape(written)}$"
        return
    if (latin := core.translate(LATIN)) != core:
        yield from (_pattern_of_writing(one, ends, begins, anywhere, endings) for one in (latin, latin.replace("kh", "h")))
    yield _pattern_of_writing(written, ends, begins, anywhere, endings)
    for one in bare:
        if len(one) > LEFT:
            yield _pattern_of_writing(one, ends, begins, anywhere, endings)
        elif ends:
            yield rf"\w{{{LEFT}}}{one}s?\b"


def _pattern_of_writing(core: str, ends: bool, begins: bool, anywhere: bool, endings: Endings) -> str:
    text, left, end = re.escape(core), rf"\w{{{LEFT}}}", rf"(?:{endings.added})?\b"
    if anywhere or (ends and begins):
        return rf"{text}s?\b" if ends and not begins else text
    if begins:
        return rf"\b{text}(?:{left}|{end})"
    within = len(core) >= COMPOUND or SPACELESS.search(core) or VOWEL_SIGNS.search(core)
    found = [text if within and not ends else rf"{text}{end}"]
    if endings.instead and core[-1] in VOWELS and len(core) > STEM:
        found.append(rf"{re.escape(core[:-1])}(?:{endings.instead})\b")
    if ends:
        return rf"(?:{left}|\b)(?:{'|'.join(found)})"
    return "|".join(one if one == text else rf"\b{one}" for one in found)


@cache
def _harmless_pattern() -> re.Pattern[str]:
    """What finds a long word of the other groups that stands alone, as its first group, or else a harmless one."""
    data = _read_guard_words()
    listed = {way for group in GUARDED for many in data[group].values() for word in many for way in _ways_to_write(word)}
    alone = sorted(re.escape(word) for word in listed if len(word) >= COMPOUND and "-" not in word)
    return re.compile(rf"(\b(?:{'|'.join(alone)})s?\b)|{_word_pattern('harmless').pattern}")
