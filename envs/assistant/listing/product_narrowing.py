"""Fits a product to one entity: what the entity lacks is dropped, and units, speeds, durations and codes are its own.

A product of Home Assistant's shape has all that its domain may have. What an entity lacks is dropped. Reads of it become
`None`, what is computed with `None` becomes `None`, and what follows from that is worked out, so that the code of the
narrowed product speaks of what is there alone.

Invariants:
- A narrowed product has no name of what was dropped in its code. Narrowing with everything kept gives one that behaves
  alike.
- A product is written in celsius and km/h. Every bound, start and target of what is in another unit there is converted
  with it; the unit of an entity is its own, else that of its home.
- A fan with three speeds, or of which none are told, stays as it is in the catalogue. A script whose text is not known runs
  for a minute, as there.
- A home asks for the code of an alarm panel where the entity does, and takes any. No code of an owner is in a home.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from homerl.envs.assistant.listing.home_listing import ListedEntity, is_number, light_colour_modes

Spec = dict[str, Any]  # a specification as JSON
Typed = dict[str, Any]  # an attribute, an argument or a service in it
Change = Callable[[Typed], Typed]
COMPARED: dict[type, Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
NUMERIC = ("abs", "int", "max", "min", "round")
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
HOMEWARD = ("dock", "return_to_base")  # services that send a robot home
EXPRESSIONS = ("counts", "derived", "starts")  # keys of attributes that hold an expression


def narrow_product(spec: Spec, attributes: Collection[str], services: Mapping[str, Collection[str]]) -> Spec:
    """The specification with these attributes, and these services with these arguments."""
    has = frozenset(attributes)
    kept = [_narrow_attribute(attribute, has) for attribute in spec.get("attributes", ()) if attribute["name"] in has]
    offered = [service for service in spec.get("services", ()) if service["name"] in services]
    narrow = spec | {
        "attributes": kept,
        "services": [_narrow_service(service, has, frozenset(services[service["name"]])) for service in offered],
    }
    if "available" in spec:
        narrow["available"] = _narrow_expression(spec["available"], has)
    if "air" in spec:
        air = {key: value if key == "kind" else _narrow_expression(value, has) for key, value in spec["air"].items()}
        narrow["air"] = {key: value for key, value in air.items() if value != "None"}
    return narrow


def change_parts(spec: Mapping[str, Any], attribute: Change | None = None, service: Change | None = None) -> Spec:
    """The specification with each attribute, and each service, changed."""
    attributes, services = (spec.get(key, ()) for key in ("attributes", "services"))
    return {
        **spec,
        "attributes": [attribute(one) if attribute else one for one in attributes],
        "services": [service(one) if service else one for one in services],
    }


def remove_travel_time(spec: Spec) -> Spec:
    """The specification of a device that is where it is sent at once: what moves is where it moves to."""
    moving = {one["name"]: one["moves"]["to"] for one in spec.get("attributes", ()) if "moves" in one}

    def at_once(one: Typed) -> Typed:
        if one["name"] not in moving:
            return one
        return {key: value for key, value in one.items() if key not in ("moves", "starts")} | {
            "derived": moving[one["name"]]
        }

    def stay(one: Typed) -> Typed:
        lines = (line for line in ast.parse(one["code"].strip()).body if _assigned_attribute(line) not in moving)
        return one | {"code": "\n".join(map(ast.unparse, lines))}

    return change_parts(spec, at_once, stay)


def remove_docking_time(spec: Spec) -> Spec:
    """The specification of a robot that is home as soon as it is sent there."""

    def dock(one: Typed) -> Typed:
        return one | {"code": f"{one['code'].strip()}\nself.way = 0"} if one["name"] in HOMEWARD else one

    return change_parts(spec, service=dock)


def replace_bounds(code: str, ranges: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """The code with new bounds, by attribute as (before, now): in what is assigned, `min` and `max` keep to them."""
    if not ranges:
        return code
    tree = ast.parse(code)
    for statement in tree.body:
        if (own := _assigned_attribute(statement)) in ranges:
            bounds: dict[Any, Any] = dict(zip(*ranges[str(own)]))
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("min", "max"):
                    for constant in call.args:
                        if isinstance(constant, ast.Constant) and is_number(constant.value):
                            constant.value = bounds.get(constant.value, constant.value)
    return ast.unparse(tree)


def replace_disallowed_values(code: str, attribute: str, allowed: Collection[Any], instead: Any) -> str:
    """The code with `instead` for what is assigned to an attribute and is not allowed; empty if there is nothing instead."""
    tree = ast.parse(code)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and _assigned_attribute(statement) == attribute:
            for constant in _assigned_texts(statement.value):
                if constant.value not in allowed:
                    if instead is None:
                        return ""
                    constant.value = instead
    return ast.unparse(tree)


def _assigned_texts(value: ast.expr) -> Iterator[ast.Constant]:
    """The texts that may be the value of an expression."""
    if isinstance(value, ast.IfExp):
        yield from _assigned_texts(value.body)
        yield from _assigned_texts(value.orelse)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value


def limit_start_value(starts: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How an attribute starts, with what its limits allow now in the place of what they allowed before."""
    tree = ast.parse(starts, mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
            if node.value in (was.get("options") or ()) and node.value not in (now.get("options") or ()):
                node.value = (now.get("options") or [node.value])[0]
            elif isinstance(node.value, (int, float)) and "range" in now:
                node.value = min(max(node.value, now["range"][0]), now["range"][1])
    return ast.unparse(tree)


def _narrow_attribute(attribute: Mapping[str, Any], has: frozenset[str]) -> dict[str, Any]:
    changed = {key: _narrow_expression(attribute[key], has) for key in EXPRESSIONS if key in attribute}
    if "moves" in attribute:
        changed["moves"] = attribute["moves"] | {"to": _narrow_expression(attribute["moves"]["to"], has)}
    known = {key: value for key, value in changed.items() if value != "None" or key == "starts"}
    return {key: value for key, value in attribute.items() if key not in changed} | known


def _narrow_service(service: Mapping[str, Any], has: frozenset[str], arguments: frozenset[str]) -> dict[str, Any]:
    declared = service.get("arguments", ())
    lacking = frozenset(argument["name"] for argument in declared) - arguments
    narrow = {**service, "code": _narrow_code(service["code"], has, lacking)}
    if declared:
        narrow["arguments"] = [argument for argument in declared if argument["name"] in arguments]
    if "requires" in service:
        narrow["requires"] = _narrow_expression(service["requires"], has, lacking)
        if narrow["requires"] == "True":
            del narrow["requires"]
    returns = service.get("returns")
    if isinstance(returns, str):
        narrow["returns"] = _narrow_expression(returns, has, lacking)
    elif returns is not None:
        narrow["returns"] = {name: _narrow_expression(text, has, lacking) for name, text in returns.items()}
    return narrow


@lru_cache(4096)  # entities of a home are alike
def _narrow_code(code: str, has: frozenset[str], lacking: frozenset[str]) -> str:
    """The assignments to what is there, with the rest worked out; one that changes nothing is left out."""
    lines = []
    for statement in ast.parse(code.strip()).body:
        if isinstance(statement, ast.Assign) and _assigned_attribute(statement) in has:
            value = _PutNone(has, lacking).visit(statement.value)
            if ast.unparse(value) != ast.unparse(statement.targets[0]):
                lines.append(f"{ast.unparse(statement.targets[0])} = {ast.unparse(value)}")
    return "\n".join(lines)


@lru_cache(4096)
def _narrow_expression(text: str, has: frozenset[str], lacking: frozenset[str] = frozenset()) -> str:
    return ast.unparse(_PutNone(has, lacking).visit(ast.parse(text.strip(), mode="eval").body))


def _attribute_of_self(node: ast.AST) -> str | None:
    """The attribute of `self` that a node names."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


def _assigned_attribute(line: ast.stmt) -> str | None:
    """The attribute of `self` that a line of code sets."""
    return _attribute_of_self(line.targets[0]) if isinstance(line, ast.Assign) else None


class _PutNone(ast.NodeTransformer):
    """Puts None for the attributes and arguments that are lacking, and works out what is then known."""

    def __init__(self, has: frozenset[str], lacking: frozenset[str]) -> None:
        self.has, self.lacking = has, lacking

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        own = _attribute_of_self(node)
        return ast.Constant(None) if own is not None and own not in self.has else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(None) if node.id in self.lacking else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            result: ast.AST = self.visit(node.body if test.value else node.orelse)
            return result
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        decides = isinstance(node.op, ast.Or)
        parts: list[ast.expr] = []
        for i, part in enumerate(map(self.visit, node.values)):
            known = isinstance(part, ast.Constant)
            if known and bool(part.value) is not decides and i + 1 < len(node.values):
                continue
            parts.append(part)
            if known and bool(part.value) is decides:
                break
        return parts[0] if len(parts) == 1 else ast.BoolOp(node.op, parts)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not) and isinstance(operand, ast.Constant):
            return ast.Constant(not operand.value)
        return ast.UnaryOp(node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        left, *rights = map(self.visit, (node.left, *node.comparators))
        if len(rights) == 1:
            if isinstance(node.ops[0], ORDERED) and (_is_none(left) or _is_none(rights[0])):
                return ast.Constant(False)
            compare = COMPARED.get(type(node.ops[0]))
            if compare and isinstance(left, ast.Constant) and isinstance(rights[0], ast.Constant):
                return ast.Constant(compare(left.value, rights[0].value))
        return ast.Compare(left, node.ops, rights)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        left, right = self.visit(node.left), self.visit(node.right)
        return ast.Constant(None) if _is_none(left) or _is_none(right) else ast.BinOp(left, node.op, right)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        arguments = [self.visit(argument) for argument in node.args]
        numeric = isinstance(node.func, ast.Name) and node.func.id in NUMERIC
        return ast.Constant(None) if numeric and any(map(_is_none, arguments)) else ast.Call(node.func, arguments, [])


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


SPEEDS = 3  # of the catalogue's fans, which begin with the second one: 67 %
LAST = "(self.speed if self.speed > 0 else 100)"  # with which any other begins, if it is told no speed


def set_fan_speeds(spec: Spec, step: Any) -> Spec:
    """The specification of a fan whose speeds are so many percent apart."""
    speeds = round(100 / step) if isinstance(step, (int, float)) and 1 <= step <= 100 else SPEEDS
    if speeds == SPEEDS:
        return spec
    changes = ((f"* {SPEEDS}", f"* {speeds}"), (f"// {SPEEDS}", f"// {speeds}"), ("67", LAST))

    def with_step(one: Typed) -> Typed:
        return one | {"derived": repr(float(step))} if one["name"] == "percentage_step" else one

    def with_speeds(one: Typed) -> Typed:
        for old, new in changes:
            one = one | {"code": one["code"].replace(old, new)}
        return one

    return change_parts(spec, with_step, with_speeds)


UNKNOWN = 60  # seconds for which the script of the catalogue runs


def set_script_duration(spec: Spec, seconds: int | None) -> Spec:
    """The specification of a script that runs for some seconds."""
    lasts = UNKNOWN if seconds is None else seconds
    left = {"range": [0, max(lasts, 1)], "starts": f'{lasts} if self.state == "on" else 0'}
    runs = {"turn_on": "(self.runs + 1) % 1000000", "toggle": "(self.runs + 1) % 1000000 if self.left == 0 else self.runs"}

    def run(one: Typed) -> Typed:
        counts = f"self.runs = {runs[one['name']]}\n" if one["name"] in runs else ""
        return one | {"code": counts + one["code"].replace(str(UNKNOWN), str(lasts))}

    made = change_parts(spec, lambda one: one | left if one["name"] == "left" else one, run)
    count = {"name": "runs", "type": "int", "range": [0, 1_000_000], "internal": True, "starts": "0"}
    return made | {"attributes": [*made["attributes"], count]}


DOMAIN = "alarm_control_panel"
TO_ARM = "code_arm_required"
CODE = "code"  # the argument
GIVEN = 'code != None and code != ""'  # the real panel judges it


def require_alarm_code(spec: Mapping[str, Any], entity: ListedEntity) -> dict[str, Any]:
    """The product of an alarm panel, which asks for a code where its entity does. Any other stays as it is."""
    if entity.domain != DOMAIN:
        return dict(spec)
    shown = entity.attributes
    to_arm = shown.get(TO_ARM) is not False

    def with_code(one: Typed) -> Typed:
        # a panel that says nothing of its codes may take one
        takes = shown.get("code_format", "") is not None and (to_arm or not one["name"].startswith("alarm_arm_"))
        plain = {key: value for key, value in one.items() if key != "requires"}
        return plain | ({"requires": GIVEN} if "requires" in one and takes else {})

    return change_parts(spec, lambda one: one | {"derived": repr(to_arm)} if one["name"] == TO_ARM else one, with_code)


def limit_light_modes(spec: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of a light, which has one mode if it has no colour and no white of several kinds."""
    modes = light_colour_modes(attributes)
    if len(modes) != 1 or not modes <= {"onoff", "brightness"}:
        return spec
    (mode,) = modes
    own = {"options": [mode], "derived": f"'{mode}' if self.state == 'on' else None"}
    return change_parts(spec, lambda one: one | own if one["name"] == "color_mode" else one)


TOLD = {  # the unit in which a product is written -> the attribute, and the part of the unit system, with that of a home
    "celsius": ("temperature_unit", "temperature"),
    "km/h": ("wind_speed_unit", "wind_speed"),
}


class UnitConversion(NamedTuple):
    """From the unit of a product to `unit`: `value * factor + offset`."""

    unit: str
    factor: float
    offset: float = 0

    def convert_value(self, value: float) -> float:
        """The value in the other unit, to one place."""
        return round(value * self.factor + self.offset, 1)


CONVERSIONS = {
    ("celsius", "°F"): UnitConversion("fahrenheit", 1.8, 32),
    ("km/h", "mph"): UnitConversion("mph", 0.621371),
    ("km/h", "m/s"): UnitConversion("m/s", 1 / 3.6),
    ("km/h", "kn"): UnitConversion("kn", 0.539957),
    ("km/h", "ft/s"): UnitConversion("ft/s", 0.911344),
}
CONVERTED_UNITS = frozenset(conversion.unit for conversion in CONVERSIONS.values())


def temperature_unit(entity: ListedEntity) -> str | None:
    """The unit of the temperatures that an entity shows, as Home Assistant writes it; None if nothing tells it."""
    return _shown_unit(entity, "celsius")


def convert_to_entity_units(entity: ListedEntity, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification with its attributes and arguments in the units that the entity shows."""

    def convert(one: Typed) -> Typed:
        return _convert_typed(one, entity)

    def convert_arguments(one: Typed) -> Typed:
        return one | {"arguments": [*map(convert, one["arguments"])]} if "arguments" in one else dict(one)

    return change_parts(spec, convert, convert_arguments)


def _shown_unit(entity: ListedEntity, unit: str) -> str | None:
    attribute, part = TOLD[unit]
    told = entity.attributes.get(attribute) or entity.units.get(part)
    return told if isinstance(told, str) else None


def _convert_typed(typed: Mapping[str, Any], entity: ListedEntity) -> dict[str, Any]:
    unit = typed.get("unit")
    conversion = CONVERSIONS.get((unit, _shown_unit(entity, unit) or "")) if unit in TOLD else None
    if conversion is None:
        return dict(typed)
    changed = {**typed, "unit": conversion.unit}
    if "range" in typed:
        changed["range"] = [conversion.convert_value(bound) for bound in typed["range"]]
    if "starts" in typed:
        changed["starts"] = _convert_expression(typed["starts"], conversion)
    if moves := typed.get("moves"):
        rate = round(moves["rate"] * conversion.factor, 9)
        changed["moves"] = {"to": _convert_expression(moves["to"], conversion), "rate": rate}
    return changed


def _convert_expression(text: str, conversion: UnitConversion) -> str:
    """The expression, with the numbers that may be its value converted. What it compares is left as it is."""
    return ast.unparse(_convert_node(ast.parse(text, mode="eval").body, conversion))


def _convert_node(node: ast.expr, conversion: UnitConversion) -> ast.expr:
    if isinstance(node, ast.IfExp):
        return ast.IfExp(node.test, _convert_node(node.body, conversion), _convert_node(node.orelse, conversion))
    if isinstance(node, ast.Constant) and is_number(node.value):
        return ast.Constant(conversion.convert_value(node.value))
    return node
