"""Templates of the common kind, as conditions and expressions over a home: states and attributes of named entities, numbers,
the clock.

What a template tells is a constant, or a `TemplateValue`. Whatever is not of the closed set below raises
`UnreadableAutomation`.

Invariants: nothing is rendered or run; a template is read the same whatever the states are.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError, nodes

from homerl.envs.assistant.automations.automation_text import UnreadableAutomation
from homerl.envs.assistant.automations.home_facts import (
    HomeFacts,
    if_then_else_condition,
    join_with_and,
    join_with_or,
    negate_condition,
)
from homerl.envs.assistant.automations.named_entities import ENVIRONMENT
from homerl.envs.assistant.listing.home_listing import is_number
from homerl.envs.homeenv.sim.assist.entities_of_home import DEAD

CONSTANTS = {"true": True, "false": False, "none": None}
TRUE = ("true", "yes", "on", "enable", "1")


@dataclass(frozen=True)
class TemplateValue:
    """What a template tells: `text` is an expression. `kind` is `bool`, `number`, `choice`, or what is no value by itself.

    The others are `state` and `attribute` (of `entity`, `attribute`), `entity`, `attributes`, `now`, and `minute`, a time as
    `HH:MM`.
    """

    kind: str
    text: str = ""
    entity: str = ""
    attribute: str | None = None
    parts: tuple[Any, ...] = ()
    instead: Any = None  # the number of what shows none


@dataclass(frozen=True)
class TemplateTruth:
    """What a place takes for true of a template: which texts (None: any that is not empty), and whether numbers but 0."""

    texts: tuple[str, ...] | None
    numbers: bool

    def is_true_text(self, text: str) -> bool:
        """Whether a text is true there."""
        return bool(text) if self.texts is None else text.strip().lower() in self.texts


WITHIN = TemplateTruth(None, numbers=True)  # a template: as Jinja tests a value
OF_TRIGGER = TemplateTruth(TRUE, numbers=True)
OF_CONDITION = TemplateTruth(("true",), numbers=False)


def value_to_condition(value: Any, facts: HomeFacts, truth: TemplateTruth) -> str | bool:
    """That what a template tells is true in a place."""
    if isinstance(value, TemplateValue):
        if value.kind == "bool":
            return value.text
        if value.kind == "number":
            return f"({value.text}) != 0" if truth.numbers else False
        if value.kind == "choice":
            test, yes, no = value.parts
            return if_then_else_condition(test.text, *(value_to_condition(part, facts, truth) for part in (yes, no)))
        if value.kind == "state":
            if truth.texts is None:
                return True  # a state is never empty
            words = [word for word in truth.texts if not word.isdecimal()]
            return facts.is_state(value.entity, words if truth is not OF_CONDITION else ["true", "True", "TRUE"])
        raise UnreadableAutomation("a template tells no condition")
    if isinstance(value, str):
        return truth.is_true_text(value)
    return value if isinstance(value, bool) else bool(value) and truth.numbers


def value_to_number(value: Any, facts: HomeFacts) -> str:
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
        return f"({value_to_number(yes, facts)} if {test.text} else {value_to_number(no, facts)})"
    if value.kind in ("state", "attribute"):
        worth = facts.entity_number(value.entity, value.attribute)
        return worth if value.instead is None else f"({worth} if {worth} != None else {value.instead!r})"
    raise UnreadableAutomation("a template tells no number")


def value_to_text(value: Any, facts: HomeFacts) -> str:
    """What a template tells, as an expression of a text."""
    if isinstance(value, str):
        return json.dumps(value.strip(), ensure_ascii=False)
    if isinstance(value, TemplateValue) and value.kind == "state":
        return facts.entity_text(value.entity)
    if isinstance(value, TemplateValue) and value.kind == "choice":
        test, yes, no = value.parts
        return f"({value_to_text(yes, facts)} if {test.text} else {value_to_text(no, facts)})"
    raise UnreadableAutomation("a template tells no text")


def parse_template_number(text: str) -> int | float:
    """The number that a text is. Raises `UnreadableAutomation` if it is none."""
    try:
        return int(text) if re.fullmatch(r"\s*-?\d+\s*", text) else float(text)
    except ValueError:
        raise UnreadableAutomation("a template tells no number") from None


SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
PARTS = {  # of `now()`
    "hour": "clock.time // 3600",
    "minute": "clock.time // 60 % 60",
    "second": "clock.time % 60",
    "day": "clock.day",
    "month": "clock.month",
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "in": lambda left, right: left in right,
    "not in": lambda left, right: left not in right,
}
MINUTE = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


IDENTITY = ("entity_id", "domain", "object_id")  # what templates read of an entity that never changes


def entity_identity(entity: str) -> dict[str, str]:
    """What templates read of an entity that never changes."""
    domain, _, name = entity.partition(".")
    return dict(zip(IDENTITY, (entity, domain, name)))


Names = Mapping[str, Any]  # values by name; a callable is asked


def read_template(text: str, facts: HomeFacts, names: Names | None = None) -> Any:
    """What a template tells. Raises `UnreadableAutomation`."""
    try:
        tree = ENVIRONMENT.parse(text)
    except (TemplateError, RecursionError) as error:
        raise UnreadableAutomation(f"a template cannot be parsed: {error}") from None
    return TemplateReader(facts, dict(names or {})).read_body(tree.body)


class TemplateReader:
    """Reads one template. `names` grows by what it sets."""

    def __init__(self, facts: HomeFacts, names: dict[str, Any]) -> None:
        self.facts, self.names = facts, names

    def read_body(self, parts: Sequence[nodes.Node]) -> Any:
        """What the nodes of a template write, of which only one may write something."""
        found: list[Any] = []
        for part in parts:
            match part:
                case nodes.Output(nodes=written):
                    found += [self.read_value(one) for one in written]
                case nodes.Assign(target=nodes.Name(name=name), node=told):
                    self.names[name] = self.read_value(told)
                case nodes.If():
                    branches = [(part.test, part.body), *((one.test, one.body) for one in part.elif_)]
                    value = self._read_branch(part.else_)
                    for test, body in reversed(branches):
                        value = self._choose_value(self._read_test(test), self._read_branch(body), value)
                    found.append(value)
                case _:
                    raise UnreadableAutomation(f"a template has a part of the kind '{type(part).__name__}'")
        said = [one for one in found if not (isinstance(one, str) and not one.strip())]
        if len(said) > 1:
            if all(isinstance(one, (str, int, float)) for one in found):
                return "".join(map(str, found)).strip()
            raise UnreadableAutomation("a template joins several texts")
        return (said[0].strip() if isinstance(said[0], str) else said[0]) if said else ""

    def _read_branch(self, body: Sequence[nodes.Node]) -> Any:
        inner = TemplateReader(self.facts, dict(self.names))
        value = inner.read_body(body)
        if inner.names != self.names:
            raise UnreadableAutomation("a template sets a name in a branch")
        return value

    def _choose_value(self, test: str | bool, yes: Any, no: Any) -> Any:
        if isinstance(test, bool):
            return yes if test else no
        return TemplateValue("choice", parts=(TemplateValue("bool", test), yes, no))

    def _read_test(self, node: nodes.Node) -> str | bool:
        """An expression as Jinja tests it."""
        return value_to_condition(self.read_value(node), self.facts, WITHIN)

    def read_value(self, node: nodes.Node) -> Any:
        """What an expression is worth."""
        match node:
            case nodes.TemplateData(data=data):
                return data
            case nodes.Const(value=value):
                return value
            case nodes.Name(name=name):
                if name in CONSTANTS:
                    return CONSTANTS[name]
                if name not in self.names:
                    raise UnreadableAutomation(f"a template reads '{name}', which is not known here")
                value = self.names[name]
                return value() if callable(value) else value
            case nodes.List(items=items) | nodes.Tuple(items=items):
                return [self.read_value(one) for one in items]
            case nodes.Not(node=inner):
                test = negate_condition(self._read_test(inner))
                return test if isinstance(test, bool) else TemplateValue("bool", test)
            case nodes.And(left=left, right=right):
                return self._join_values(self.read_value(left), self.read_value(right), join_with_and)
            case nodes.Or(left=left, right=right):
                return self._join_values(self.read_value(left), self.read_value(right), join_with_or)
            case nodes.Compare(expr=left, ops=[nodes.Operand(op=op, expr=right)]):
                return self._as_value(self._compare_values(self.read_value(left), SIGNS[op], self.read_value(right)))
            case nodes.CondExpr(test=test, expr1=yes, expr2=no):
                return self._choose_value(
                    self._read_test(test), self.read_value(yes), "" if no is None else self.read_value(no)
                )
            case nodes.Neg(node=inner):
                return self._worked_out("-", [self.read_value(inner)])
            case nodes.Add() | nodes.Sub() | nodes.Mul() | nodes.Div() | nodes.FloorDiv() | nodes.Mod():
                return self._worked_out(node.operator, [self.read_value(node.left), self.read_value(node.right)])
            case nodes.Call(node=called, args=list() as args, kwargs=[]):
                return self._read_call(called, [self.read_value(one) for one in args])
            case nodes.Filter(node=inner, name=name, args=args, kwargs=kwargs) if inner is not None:
                named = {str(one.key): self.read_value(one.value) for one in kwargs if isinstance(one, nodes.Keyword)}
                return self._apply_filter(name, self.read_value(inner), [self.read_value(one) for one in args], named)
            case nodes.Test(node=inner, name="defined"):
                return self.read_value(inner) is not None  # what is not known raises
            case nodes.Test(node=inner, name="none"):
                return self._is_none(self.read_value(inner))
            case nodes.Getattr(node=inner, attr=name):
                return self._read_attribute(inner, name)
            case nodes.Getitem(node=inner, arg=nodes.Const(value=int() as place)):
                return self._read_entry(self.read_value(inner), place)
            case nodes.Getitem(node=inner, arg=nodes.Const(value=str() as name)):
                return self._read_attribute(inner, name)
        raise UnreadableAutomation(f"a template has an expression of the kind '{type(node).__name__}'")

    def _join_values(self, left: Any, right: Any, join: Callable[[Sequence[str | bool]], str | bool]) -> Any:
        """What `and` or `or` comes to, which is one of its two values."""
        tests = [value_to_condition(one, self.facts, WITHIN) for one in (left, right)]
        if all(isinstance(one, bool) or (isinstance(one, TemplateValue) and one.kind == "bool") for one in (left, right)):
            return self._as_value(join(tests))
        return self._choose_value(tests[0], *((right, left) if join is join_with_and else (left, right)))

    def _as_value(self, test: str | bool) -> Any:
        return test if isinstance(test, bool) else TemplateValue("bool", test)

    def _worked_out(self, sign: str, values: list[Any]) -> Any:
        if all(map(is_number, values)):
            try:
                return -values[0] if len(values) == 1 else ARITHMETIC[sign](*values)
            except ArithmeticError:
                raise UnreadableAutomation("a template divides by zero") from None
        for one in values:
            if isinstance(one, str) or (isinstance(one, TemplateValue) and one.kind == "state"):
                raise UnreadableAutomation("a template adds texts")
        said = [value_to_number(one, self.facts) for one in values]
        return TemplateValue("number", f"({sign}{said[0]})" if len(said) == 1 else f"({said[0]} {sign} {said[1]})")

    def _read_call(self, called: nodes.Node, args: list[Any]) -> Any:
        match called:
            case nodes.Name(name="now"):
                return TemplateValue("now")
            case nodes.Name(name="states" | "state_attr" | "is_state" | "is_state_attr" | "has_value" as name):
                return self._state_call(name, args)
            case nodes.Name(name="float" | "int" as name):
                return self._apply_filter(str(name), args[0], args[1:], {})
            case nodes.Name(name="min" | "max" as name) if len(args) > 1:
                return TemplateValue("number", f"{name}({', '.join(value_to_number(one, self.facts) for one in args)})")
            case nodes.Getattr(node=inner, attr=name):
                return self._read_method_call(self.read_value(inner), name, args)
        raise UnreadableAutomation("a template calls a function that is not known here")

    def _state_call(self, name: str, args: list[Any]) -> Any:
        if not args or not isinstance(args[0], str):
            raise UnreadableAutomation("a template reads an entity that is not named")
        entity, rest = args[0].lower(), args[1:]
        match name, rest:
            case "states", []:
                return TemplateValue("state", entity=entity)
            case "state_attr", [str() as attribute]:
                return TemplateValue("attribute", entity=entity, attribute=attribute)
            case "is_state", [str() as state]:
                return TemplateValue("bool", self.facts.is_state(entity, [state]))
            case "is_state", [list() as states]:
                return TemplateValue("bool", self.facts.is_state(entity, states))
            case "is_state_attr", [str() as attribute, value]:
                return self._as_value(
                    self._compare_values(TemplateValue("attribute", entity=entity, attribute=attribute), "==", value)
                )
            case "has_value", []:
                return TemplateValue("bool", f"not ({self.facts.is_state(entity, DEAD)})")
        raise UnreadableAutomation(f"a template calls {name} in a way that is not known here")

    def _read_method_call(self, value: Any, name: str, args: list[Any]) -> Any:
        if isinstance(value, TemplateValue) and value.kind == "now":
            if name == "strftime" and args == ["%H:%M"]:
                return TemplateValue("minute", "clock.time // 60")
            if name in ("weekday", "isoweekday") and not args:
                days = ", ".join(json.dumps(day) for day in WEEK)
                return TemplateValue("number", f"(index(({days},), clock.weekday) + {int(name == 'isoweekday')})")
        if isinstance(value, str) and name in ("lower", "upper", "strip", "split", "startswith", "endswith"):
            method: Callable[..., Any] = getattr(value, name)
            return method(*args)
        raise UnreadableAutomation(f"a template calls {name}, which is not known here")

    def _apply_filter(self, name: str, value: Any, args: list[Any], named: dict[str, Any]) -> Any:
        instead = named.get("default", args[0] if args else None)
        if name in ("float", "int"):
            if isinstance(value, TemplateValue) and value.kind in ("state", "attribute"):
                if not isinstance(instead, (int, float, type(None))) or isinstance(instead, bool):
                    raise UnreadableAutomation("a template has an odd default of a number")
                value = TemplateValue(value.kind, entity=value.entity, attribute=value.attribute, instead=instead)
            text = value_to_number(value, self.facts)
            if isinstance(value, TemplateValue):
                return TemplateValue("number", f"int({text})" if name == "int" else text)
            return (int if name == "int" else float)(parse_template_number(text))
        if name == "round" and not named and all(isinstance(one, int) for one in args[:1]) and len(args) < 2:
            places = "".join(f", {one}" for one in args)
            return TemplateValue("number", f"round({value_to_number(value, self.facts)}{places})")
        if name in ("min", "max") and isinstance(value, list) and value and not args:
            return TemplateValue("number", f"{name}({', '.join(value_to_number(one, self.facts) for one in value)})")
        if name == "abs":
            return TemplateValue("number", f"abs({value_to_number(value, self.facts)})")
        if name == "bool":
            return self._as_value(value_to_condition(value, self.facts, OF_TRIGGER))
        if name in ("lower", "trim", "string") and isinstance(value, str):
            return value.lower() if name == "lower" else value.strip() if name == "trim" else value
        if name in ("trim", "string") and isinstance(value, TemplateValue):
            return value
        if name == "timestamp_custom" or not isinstance(value, TemplateValue):
            raise UnreadableAutomation(f"a template has the filter '{name}'")
        raise UnreadableAutomation(f"a template has the filter '{name}', which is not known here")

    def _is_none(self, value: Any) -> Any:
        """That a value is none, as an attribute may be, and the state of an entity never is."""
        if not isinstance(value, TemplateValue):
            return value is None
        if value.kind == "attribute":
            return self._as_value(self.facts.is_attribute_value(value.entity, value.attribute or "", None))
        if value.kind in ("state", "entity"):
            self.facts.slot_type(value.entity, "state")  # which raises for one that is not there
            return False
        raise UnreadableAutomation("a template asks whether something is none that may be")

    def _read_entry(self, value: Any, place: int) -> Any:
        """An entry of a list, or a letter of a text."""
        if not isinstance(value, (list, str)) or not -len(value) <= place < len(value):
            raise UnreadableAutomation(f"a template reads the entry {place} of what has none")
        return value[place]

    def _read_attribute(self, inner: nodes.Node, name: str) -> Any:
        """What is behind a dot: of `states`, of an entity, of now, of a record."""
        path = [name]
        while isinstance(inner, nodes.Getattr):
            path.insert(0, inner.attr)
            inner = inner.node
        if isinstance(inner, nodes.Name) and inner.name == "states" and len(path) > 2:
            return self._follow_path(TemplateValue("entity", entity=f"{path[0]}.{path[1]}"), path[2:])
        return self._follow_path(self.read_value(inner), path)

    def _follow_path(self, value: Any, path: list[str]) -> Any:
        for place, name in enumerate(path):
            if isinstance(value, Mapping) and name in value:
                value = value[name]() if callable(value[name]) else value[name]
            elif isinstance(value, TemplateValue) and value.kind == "now" and name in PARTS:
                value = TemplateValue("number", f"({PARTS[name]})")
            elif isinstance(value, TemplateValue) and value.kind == "attributes" and len(path) == place + 1:
                return TemplateValue("attribute", entity=value.entity, attribute=name)
            elif isinstance(value, TemplateValue) and value.kind == "entity":
                rest = path[place:]
                if rest == ["state"]:
                    return TemplateValue("state", entity=value.entity)
                if rest[0] == "attributes" and len(rest) == 2:
                    return TemplateValue("attribute", entity=value.entity, attribute=rest[1])
                if len(rest) == 1 and rest[0] in IDENTITY:
                    return entity_identity(value.entity)[rest[0]]
                raise UnreadableAutomation(f"a template reads '{'.'.join(rest)}' of an entity")
            else:
                raise UnreadableAutomation(f"a template reads '{name}' of something")
        return value

    def _compare_values(self, left: Any, sign: str, right: Any) -> str | bool:
        """A comparison."""
        if not isinstance(left, TemplateValue) and not (isinstance(right, TemplateValue)):
            try:
                return bool(COMPARISONS[sign](left, right))
            except TypeError:
                raise UnreadableAutomation("a template compares what cannot be compared") from None
        if not isinstance(left, TemplateValue) and sign in FLIPPED:
            left, sign, right = right, FLIPPED[sign], left
        if not isinstance(left, TemplateValue):
            raise UnreadableAutomation("a template looks into a state")
        negative = sign in ("!=", "not in")
        if left.kind == "choice":
            test, yes, no = left.parts
            return if_then_else_condition(
                test.text, self._compare_values(yes, sign, right), self._compare_values(no, sign, right)
            )
        if left.kind == "minute" and isinstance(right, str) and (match := MINUTE.fullmatch(right)):
            return f"{left.text} {sign} {int(match[1]) * 60 + int(match[2])}"
        if sign in ("in", "not in") or sign in ("==", "!="):
            test = self._equals_any(left, right if sign in ("in", "not in") else [right])
            if test is not None:
                return negate_condition(test) if negative else test
        if sign in ("in", "not in"):
            raise UnreadableAutomation("a template compares with a list")
        if any(isinstance(one, str) or (isinstance(one, TemplateValue) and one.kind == "state") for one in (left, right)):
            raise UnreadableAutomation("a template compares texts by their order")
        return f"{value_to_number(left, self.facts)} {sign} {value_to_number(right, self.facts)}"

    def _equals_any(self, left: TemplateValue, values: Any) -> str | bool | None:
        """That something equals one of some values; None if they are compared as numbers."""
        if not isinstance(values, list):
            raise UnreadableAutomation("a template compares with a text that is looked into")
        if left.kind == "state":
            if all(isinstance(one, str) for one in values):
                return self.facts.is_state(left.entity, values)
            if len(values) == 1 and isinstance(values[0], TemplateValue) and values[0].kind == "state":
                return f"{self.facts.entity_text(left.entity)} == {self.facts.entity_text(values[0].entity)}"
            raise UnreadableAutomation("a template compares a state with what is no text")
        if left.kind == "attribute" and not any(isinstance(one, TemplateValue) for one in values):
            return join_with_or([self.facts.is_attribute_value(left.entity, left.attribute or "", one) for one in values])
        if left.kind == "bool" and values in ([True], [False]):
            return left.text if values[0] else negate_condition(left.text)
        if left.kind == "number" and all(isinstance(one, (int, float)) for one in values) and len(values) > 1:
            return join_with_or([f"{left.text} == {one!r}" for one in values])
        return None
