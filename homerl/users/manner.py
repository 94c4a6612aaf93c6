"""How a person of one language is played: the prompt's parts and the words by which answers are judged, as data.

Invariants: a language is one file of `manners/`; what a person is told is how the room feels, never an id, a
condition or a reading that only a device has.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path

from envs.documents import InputError, read_yaml, validate
from envs.model import Model

SHIPPED = Path(__file__).parent / "manners"
Scale = tuple[tuple[float, str], ...]  # words for what is below each mark


class Feels(Model):
    """How a room's air is perceived."""

    temperature: Scale
    humidity: Scale
    brightness: Scale


class Numbers(Model):
    """Numbers in words, from ten up: smaller ones are too often no numbers ("that one"). `before` and `after` are
    patterns of what may not stand beside them."""

    tens: dict[str, int]
    ones: dict[str, int]
    whole: dict[str, int] = {}
    between: tuple[str, ...]
    before: str
    after: str

    @cached_property
    def reading(self) -> tuple[re.Pattern[str], dict[str, float]]:
        """What finds them, and what they are."""
        pairs = ((ten, one, gap) for ten in self.tens for one in self.ones for gap in self.between)
        joined = {ten + gap + one: self.tens[ten] + self.ones[one] for ten, one, gap in pairs}
        values = joined | self.tens | self.whole
        ways = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
        return re.compile(f"{self.before}(?:{ways}){self.after}", re.I), values


class Manner(Model):
    """One language's file. `language` is what the language is called in prompts to LLMs that speak it in another part."""

    language: str
    role: str
    rules: str
    verbosity: dict[str, str]
    cooperation: dict[str, str]
    noise: str
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
    feels: Feels
    numbers: Numbers
    opposites: tuple[tuple[str, str], ...]
    objects: str
    out_of_role: tuple[str, ...]


@lru_cache
def manner(language: str) -> Manner:
    """The manner of a language, or `InputError` naming those that there are."""
    path = SHIPPED / f"{language}.yaml"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.yaml")))
        raise InputError(f"the LLM user does not speak '{language}'", str(SHIPPED), f"it speaks {known}")
    return validate(Manner, read_yaml(path))
