"""What a template tells, as conditions and expressions over a home.

Invariant: what is told is a constant, or `Told`; connectives leave no constant in a condition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

TRUE = ("true", "yes", "on", "enable", "1")


class Unread(Exception):
    """A part of an automation that has no counterpart here."""


class Facts(Protocol):
    """What a template asks of a home, as conditions and expressions. Each raises `Unread` or `Refused` if it cannot tell."""

    def is_state(self, entity: str, states: Sequence[Any]) -> str:
        """That an entity is in one of these states."""

    def number(self, entity: str, attribute: str | None) -> str:
        """The number that an entity shows."""

    def text(self, entity: str) -> str:
        """The state of an entity, which is a text."""

    def is_attribute(self, entity: str, attribute: str, value: Any) -> str:
        """That an attribute of an entity has a value."""


@dataclass(frozen=True)
class Told:
    """What a template tells: `text` is an expression. `kind` is `bool`, `number`, `choice`, or what is no value by itself.

    The others are `state` and `attribute` (of `entity`, `attribute`), `entity`, `now`, and `minute`, a time as `HH:MM`.
    """

    kind: str
    text: str = ""
    entity: str = ""
    attribute: str | None = None
    parts: tuple[Any, ...] = ()
    instead: Any = None  # the number of what shows none


def condition(value: Any, facts: Facts) -> str | bool:
    """What a template tells, as a condition."""
    if isinstance(value, Told):
        if value.kind == "bool":
            return value.text
        if value.kind == "number":
            return f"({value.text}) != 0"
        if value.kind == "choice":
            test, yes, no = (condition(part, facts) for part in value.parts)
            return both_or(test, yes, no)
        if value.kind == "state":
            return facts.is_state(value.entity, TRUE[:4])
        raise Unread("a template tells no condition")
    if isinstance(value, str):
        return value.strip().lower() in TRUE
    return bool(value)


def both_or(test: str | bool, yes: str | bool, no: str | bool) -> str | bool:
    """A condition by another one."""
    if isinstance(test, bool):
        return yes if test else no
    return any_of([every_of([test, yes]), every_of([negated(test), no])])


def negated(test: str | bool) -> str | bool:
    """That a condition does not hold."""
    return not test if isinstance(test, bool) else f"not ({test})"


def every_of(tests: Sequence[str | bool]) -> str | bool:
    """That all conditions hold."""
    return _joined(tests, "and", ends=False)


def any_of(tests: Sequence[str | bool]) -> str | bool:
    """That one condition holds."""
    return _joined(tests, "or", ends=True)


def _joined(tests: Sequence[str | bool], word: str, ends: bool) -> str | bool:
    if any(test is ends for test in tests):
        return ends
    said = [test for test in tests if isinstance(test, str)]
    if len(said) > 1:
        return f" {word} ".join(f"({test})" for test in said)
    return said[0] if said else not ends


def number(value: Any, facts: Facts) -> str:
    """What a template tells, as an expression of a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Told)):
        raise Unread("a template tells no number")
    if isinstance(value, str):
        value = number_of(value)
    if not isinstance(value, Told):
        return repr(value)
    if value.kind == "number":
        return value.text
    if value.kind == "choice":
        test, yes, no = value.parts
        when = condition(test, facts)
        if isinstance(when, bool):
            return number(yes if when else no, facts)
        return f"({number(yes, facts)} if {when} else {number(no, facts)})"
    if value.kind in ("state", "attribute"):
        return _or_instead(facts.number(value.entity, value.attribute), value.instead)
    raise Unread("a template tells no number")


def text(value: Any, facts: Facts) -> str:
    """What a template tells, as an expression of a text."""
    if isinstance(value, str):
        return json.dumps(value.strip(), ensure_ascii=False)
    if isinstance(value, Told) and value.kind == "state":
        return facts.text(value.entity)
    if isinstance(value, Told) and value.kind == "choice":
        test, yes, no = value.parts
        return f"({text(yes, facts)} if {condition(test, facts)} else {text(no, facts)})"
    raise Unread("a template tells no text")


def _or_instead(worth: str, instead: Any) -> str:
    return worth if instead is None else f"({worth} if {worth} != None else {instead!r})"


def number_of(text: str) -> int | float:
    """The number that a text is. Raises `Unread` if it is none."""
    try:
        return int(text) if re.fullmatch(r"\s*-?\d+\s*", text) else float(text)
    except ValueError:
        raise Unread("a template tells no number") from None
