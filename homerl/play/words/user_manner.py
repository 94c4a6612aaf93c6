"""How the LLM user speaks in one language: the parts of its prompt, and the words by which answers are judged, as data.

Invariants: a language is one file, in `manners/` or in the folder of an added language; a person is told how a room feels,
never an id, a condition or a reading that only a device has.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.languages import LanguagePart
from homerl.envs.core.model import Model

MANNERS = LanguagePart(Path(__file__).parent / "manners", "manner.yaml")
WordScale = tuple[tuple[float, str], ...]  # (limit, word for values below it)


class AirWords(Model):
    """Words for how a room's air is perceived, by ranges of the measured value."""

    temperature: WordScale
    humidity: WordScale
    brightness: WordScale


class NumberWords(Model):
    """Number words from ten up; smaller ones often are no numbers ("that one").

    `before` and `after` are patterns of text that must not stand beside a number word.
    """

    tens: dict[str, int]
    ones: dict[str, int]
    whole: dict[str, int] = {}
    between: tuple[str, ...]
    before: str
    after: str

    @cached_property
    def pattern_and_values(self) -> tuple[re.Pattern[str], dict[str, float]]:
        """(a pattern that matches number words, the value of each word)."""
        pairs = ((ten, one, gap) for ten in self.tens for one in self.ones for gap in self.between)
        joined: dict[str, float] = {ten + gap + one: self.tens[ten] + self.ones[one] for ten, one, gap in pairs}
        values = joined | self.tens | self.whole
        ways = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
        return re.compile(f"{self.before}(?:{ways}){self.after}", re.I), values


class BehaviourLines(Model):
    """How the person is told to tell a wish other than at once; {wish} is its number, {text} what it may say."""

    disclosure: str
    self_correction: str
    change_of_mind: str
    beside_the_point: str


NEVER = "(?!)"  # matches nothing


class BehaviourSigns(Model):
    """Patterns by which an utterance shows a behaviour: it replaces a wish, takes back a word, or adds to a wish.

    An answer that as a whole only `agrees`, or `asks` in its turn, adds nothing. Without these two, any answer adds.
    """

    changes: str
    corrects: str
    adds: str
    agrees: str = NEVER
    asks: str = NEVER


class Manner(Model):
    """The file of one language. `language` is its English name, for prompts to LLMs in other parts."""

    language: str
    role: str
    rules: str
    style: str
    noise: str
    behaviours: BehaviourLines
    signs: BehaviourSigns
    format: str
    situation: str
    you: str
    assistant: str
    silence: str
    again: str
    unremarkable: str
    room: str
    lamps: str
    comma: str
    feels: AirWords
    numbers: NumberWords
    opposites: tuple[tuple[str, str], ...]
    objects: str
    out_of_role: tuple[str, ...]


@lru_cache
def load_manner(language: str) -> Manner:
    """The file of a language, or `InputError` with the known languages."""
    return validate_document(Manner, read_yaml(MANNERS.find_path(language)))
