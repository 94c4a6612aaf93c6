"""The forms of what an LLM author answers.

Invariant: what is wrong in one entry spoils no other, so values are checked by rules (`rules.py`) and not by these types.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from homerl.envs.core.model import Model


def _words(text: str) -> str:
    """The text in one line; raises `ValueError` if it is empty."""
    if not (words := " ".join(text.split())):
        raise ValueError("it is empty")
    return words


Text = Annotated[str, AfterValidator(_words)]


# The names and docstrings of these models are part of the schemas that are sent. Strict schemas allow no defaults.
class WrittenTaste(Model):
    """What a person prefers, and a sentence that says it with the person's name."""

    kind: str
    what: str | None
    low: float | None
    high: float | None
    hours: tuple[int, ...] | None
    room: str | None
    text: Text


class WrittenHabit(Model):
    """What a person does regularly (0 is Monday), and a sentence that says it with the person's name."""

    activity: str
    days: tuple[int, ...]
    hour: int
    appliance: str
    text: Text


class WrittenPerson(Model):
    """A person of the household."""

    member_id: str
    persona: Text
    hobbies: tuple[str, ...]
    tastes: tuple[WrittenTaste, ...]
    habits: tuple[WrittenHabit, ...]


class WrittenPeople(Model):
    """All people of the household."""

    people: tuple[WrittenPerson, ...] = Field(min_length=1)


class WrittenFact(Model):
    """Something that happened at a local time (2024-05-31T18:30), and a sentence that says it."""

    time: str
    kind: str
    who: str | None
    others: tuple[str, ...]
    pet: str | None
    appliance: str | None
    room: str | None
    what: str | None
    value: float | None
    text: Text


class WrittenPast(Model):
    """What is remembered of two years, and what happened in the last day."""

    memories: tuple[WrittenFact, ...]
    events: tuple[WrittenFact, ...]
