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


class UnreadableAutomation(Exception):
    """A part of an automation that has no counterpart here."""


class TemplateFacts(Protocol):
    """What a template asks of a home, as conditions and expressions. Each raises `Unread` or `Refused` if it cannot tell."""

    def is_state(self, entity: str, states: Sequence[Any]) -> str:
        """That an entity is in one of these states."""

    def entity_number(self, entity: str, attribute: str | None) -> str:
        """The number that an entity shows."""

    def entity_text(self, entity: str) -> str:
        """The state of an entity, which is a text."""

    def is_attribute_value(self, entity: str, attribute: str, value: Any) -> str:
        """That an attribute of an entity has a value."""


@dataclass(frozen=True)
class TemplateValue:
    """What a template tells: `text` is an expression. `kind` is `bool`, `number`, `choice`, or what is no value by itself.

    The others are `state` and `attribute` (of `entity`, `attribute`), `entity`, `now`, and `minute`, a time as `HH:MM`.
    """

    kind: str
    text: str = ""
    entity: str = ""
    attribute: str | None = None
    parts: tuple[Any, ...] = ()
    instead: Any = None  # the number of what shows none


def value_to_condition(value: Any, facts: TemplateFacts) -> str | bool:
    """What a template tells, as a condition."""
    if isinstance(value, TemplateValue):
        if value.kind == "bool":
            return value.text
        if value.kind == "number":
            return f"({value.text}) != 0"
        if value.kind == "choice":
            test, yes, no = (value_to_condition(part, facts) for part in value.parts)
            return if_then_else_condition(test, yes, no)
        if value.kind == "state":
            return facts.is_state(value.entity, TRUE[:4])
        raise UnreadableAutomation("a template tells no condition")
    if isinstance(value, str):
        return value.strip().lower() in TRUE
    return bool(value)


def if_then_else_condition(test: str | bool, yes: str | bool, no: str | bool) -> str | bool:
    """A condition by another one."""
    if isinstance(test, bool):
        return yes if test else no
    return join_with_or([join_with_and([test, yes]), join_with_and([negate_condition(test), no])])


def negate_condition(test: str | bool) -> str | bool:
    """That a condition does not hold."""
    return not test if isinstance(test, bool) else f"not ({test})"


def join_with_and(tests: Sequence[str | bool]) -> str | bool:
    """That all conditions hold."""
    return _joined(tests, "and", ends=False)


def join_with_or(tests: Sequence[str | bool]) -> str | bool:
    """That one condition holds."""
    return _joined(tests, "or", ends=True)


def _joined(tests: Sequence[str | bool], word: str, ends: bool) -> str | bool:
    if any(test is ends for test in tests):
        return ends
    said = [test for test in tests if isinstance(test, str)]
    if len(said) > 1:
        return f" {word} ".join(f"({test})" for test in said)
    return said[0] if said else not ends


def value_to_number(value: Any, facts: TemplateFacts) -> str:
    """What a template tells, as an expression of a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, TemplateValue)):
        raise UnreadableAutomation("a template tells no number")
    if isinstance(value, str):
        value = parse_template_number(value)
    if not isinstance(value, TemplateValue):
        return repr(value)
    if value.kind == "number":
        return value.text
    if value.kind == "choice":
        test, yes, no = value.parts
        when = value_to_condition(test, facts)
        if isinstance(when, bool):
            return value_to_number(yes if when else no, facts)
        return f"({value_to_number(yes, facts)} if {when} else {value_to_number(no, facts)})"
    if value.kind in ("state", "attribute"):
        return _or_instead(facts.entity_number(value.entity, value.attribute), value.instead)
    raise UnreadableAutomation("a template tells no number")


def value_to_text(value: Any, facts: TemplateFacts) -> str:
    """What a template tells, as an expression of a text."""
    if isinstance(value, str):
        return json.dumps(value.strip(), ensure_ascii=False)
    if isinstance(value, TemplateValue) and value.kind == "state":
        return facts.entity_text(value.entity)
    if isinstance(value, TemplateValue) and value.kind == "choice":
        test, yes, no = value.parts
        return f"({value_to_text(yes, facts)} if {value_to_condition(test, facts)} else {value_to_text(no, facts)})"
    raise UnreadableAutomation("a template tells no text")


def _or_instead(worth: str, instead: Any) -> str:
    return worth if instead is None else f"({worth} if {worth} != None else {instead!r})"


def parse_template_number(text: str) -> int | float:
    """The number that a text is. Raises `Unread` if it is none."""
    try:
        return int(text) if re.fullmatch(r"\s*-?\d+\s*", text) else float(text)
    except ValueError:
        raise UnreadableAutomation("a template tells no number") from None
