"""The closed expression grammar of conditions, preconditions and service code.

Allowed are constants, tuples and lists, dicts of constant keys, names and attribute paths that the caller resolves,
comparisons (also chained ones), `and or not in`, arithmetic, `list + list`, `list[place]`, `dict[key]`, conditional
expressions, and the functions `abs min max len any all round int index without replaced`.

Invariants:
- An expression compiles once, to a closure of one argument (the scope).
- Anything outside the grammar is an `ExpressionError` that names the column.
- Nothing is evaluated by Python's `eval`.
- `<`, `<=`, `>` and `>=` are false if a side is None. What cannot be computed raises `TypeError`, `ValueError` or
  `ArithmeticError`. No value grows without bound.
- `thresholds_of`: between two neighbouring thresholds of a slot the expression keeps its value, if nothing else changes.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import inf, nextafter
from typing import Any, cast

from homerl.envs.homeenv.sim.values.auditor import parse_python
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value

Closure = Callable[[Any], Any]
Resolver = Callable[[ast.expr], Closure | None]


def _false_of_none(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A comparison that is false if a side is None."""

    def compared(a: Any, b: Any) -> bool:
        try:
            return compare(a, b)
        except TypeError:  # looked at only now: conditions are evaluated often, and few values are None
            if a is None or b is None:
                return False
            raise

    return compared


COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: _false_of_none(operator.lt),
    ast.LtE: _false_of_none(operator.le),
    ast.Gt: _false_of_none(operator.gt),
    ast.GtE: _false_of_none(operator.ge),
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
MOST_NESTED = 100  # levels of a syntax tree: to compile and to evaluate it is recursive
MOST_ITEMS = 10_000  # of a list that an expression makes
MOST_DIGITS = 10  # to which `round` rounds


def _round_number(value: Any, digits: int = 0) -> Any:
    """The value rounded as Python does, halves to even. It is an int without digits."""
    if not isinstance(digits, int) or not 0 <= digits <= MOST_DIGITS:
        raise ValueError(f"round takes 0 to {MOST_DIGITS} digits")
    return round(_require_number(value), digits) if digits else round(_require_number(value))


def _index_in_list(items: Any, value: Any) -> int:
    """The place of a value in a list. Raises `ValueError` if it is not there."""
    if value not in _require_list(items):
        raise ValueError(f"{quote_value(value)} is not in the list")
    return _require_list(items).index(value)


def _without_item(items: Any, value: Any) -> tuple[Any, ...]:
    """The list without all items that equal a value."""
    return tuple(item for item in _require_list(items) if item != value)


def _replace_items(items: Any, old: Any, new: Any) -> tuple[Any, ...]:
    """The list with `new` in the place of all items that equal `old`."""
    return tuple(new if item == old else item for item in _require_list(items))


def _require_list(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise TypeError(f"{quote_value(value)} is not a list")
    return value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "len": len,
    "any": any,
    "all": all,
    "round": _round_number,
    "int": lambda value: int(_require_number(value)),
    "index": _index_in_list,
    "without": _without_item,
    "replaced": _replace_items,
}


class ExpressionError(ValueError):
    """An expression outside the grammar.

    `message` says what is wrong, `column` where (from 1), and `remedy` what to write instead ("" if nothing is known).
    """

    def __init__(self, message: str, node: ast.AST | None = None, remedy: str = "") -> None:
        self.message, self.remedy = message, remedy
        self.column = getattr(node, "col_offset", 0) + 1
        super().__init__(f"{message} (column {self.column})")


def parse_expression(text: str) -> ast.Expression:
    """The syntax tree of one expression. Raises `ExpressionError` if it cannot be parsed or is nested too deeply."""
    return cast(ast.Expression, _parse_shallow(text, "eval"))


def parse_statements(text: str) -> ast.Module:
    """The syntax tree of a sequence of statements. Raises `ExpressionError` like `parse_expression`."""
    return cast(ast.Module, _parse_shallow(text, "exec"))


@lru_cache(maxsize=4096)  # a part is compiled more than once; nobody changes a tree
def _parse_shallow(text: str, mode: str) -> ast.AST:
    try:
        tree: ast.AST = parse_python(text.strip(), mode=mode)  # a space in front would be an indentation
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        wrong = ExpressionError(f"cannot be parsed: {getattr(error, 'msg', error)}")
        wrong.column = getattr(error, "offset", None) or 1
        raise wrong from None
    level: list[ast.AST] = [tree]
    for _ in range(MOST_NESTED):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ExpressionError("is nested too deeply", level[0])
    return tree


def compile_expression(node: ast.expr, resolve: Resolver) -> Closure:
    """Compile a tree to a closure over the scope. Raises `ExpressionError` for what is outside the grammar.

    `resolve` is called first for names, attribute paths, calls and subscripts. It returns None for those that it does not
    know.
    """
    names = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
    if isinstance(node, names) and (closure := resolve(node)) is not None:
        return closure
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return lambda scope: value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            closures = [compile_expression(part, resolve) for part in parts]
            return lambda scope: tuple(part(scope) for part in closures)
        case ast.Dict(keys=keys, values=parts) if all(isinstance(key, ast.Constant) for key in keys):
            closures = [compile_expression(part, resolve) for part in parts]
            named = [key.value for key in keys if isinstance(key, ast.Constant)]
            # Pairs in place of a dict, since values are hashable.
            return lambda scope: tuple((key, part(scope)) for key, part in zip(named, closures))
        case ast.BoolOp(op=op, values=parts):
            closures = [compile_expression(part, resolve) for part in parts]
            return _compile_and_or(closures, until=isinstance(op, ast.Or))
        case ast.UnaryOp(op=ast.Not(), operand=part):
            inner = compile_expression(part, resolve)
            return lambda scope: not inner(scope)
        case ast.UnaryOp(op=ast.USub(), operand=part):
            inner = compile_expression(part, resolve)
            return lambda scope: -_require_number(inner(scope))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yes, no = compile_expression(body, resolve), compile_expression(orelse, resolve)
            when = compile_expression(test, resolve)
            return lambda scope: yes(scope) if when(scope) else no(scope)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = compile_expression(left, resolve), compile_expression(right, resolve)
            return lambda scope: _add_values(first(scope), second(scope))
        case ast.Subscript(value=value, slice=place) if not isinstance(place, ast.Slice):
            items, at = compile_expression(value, resolve), compile_expression(place, resolve)
            return lambda scope: _item_at(items(scope), at(scope))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            act = ARITHMETIC[type(op)]
            a, b = compile_expression(left, resolve), compile_expression(right, resolve)
            return lambda scope: act(_require_number(a(scope)), _require_number(b(scope)))
        case ast.Compare() if all(type(op) in COMPARISONS for op in node.ops):
            return _compile_comparison(node, resolve)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            call = FUNCTIONS[name]
            closures = [compile_expression(part, resolve) for part in args]
            return lambda scope: call(*(part(scope) for part in closures))
    raise ExpressionError(f"{quoted_source(node)} is not allowed here", node)


def quoted_source(node: ast.AST) -> str:
    """The source of a node in quotes, for a message. If Python cannot write it (some f-strings), the type of the node."""
    try:
        return f"'{ast.unparse(node)}'"
    except (ValueError, RecursionError):
        return f"this {type(node).__name__}"


def _compile_and_or(closures: list[Closure], until: bool) -> Closure:
    """`or` (`until` is True) or `and` (`until` is False): the first value that decides the result, else the last one."""

    def settled(scope: Any) -> Any:
        for part in closures:
            value = part(scope)
            if bool(value) is until:
                break
        return value

    return settled


def _require_number(value: Any) -> Any:
    """The value, or `TypeError` if it is no number. Arithmetic on text could fill the memory: "x" * 10**9."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{quote_value(value)} is not a number")
    return value


def _add_values(a: Any, b: Any) -> Any:
    """The sum of two numbers, or two lists in one."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return _require_number(a) + _require_number(b)
    if len(a) + len(b) > MOST_ITEMS:
        raise ValueError(f"a list has more than {MOST_ITEMS} items")
    return a + b


def _item_at(items: Any, at: Any) -> Any:
    """The item of a list at a place; negative places count from the end. Of a dict, the value of a key."""
    if isinstance(at, str):
        for key, value in (pair for pair in _require_list(items) if isinstance(pair, tuple) and len(pair) == 2):
            if key == at:
                return value
        raise ValueError(f"there is no {quote_value(at)}")
    if not isinstance(at, int) or isinstance(at, bool):
        raise TypeError(f"{quote_value(at)} is not a place in a list")
    if not -len(_require_list(items)) <= at < len(items):
        raise ValueError(f"the list has {len(items)} items, and none at {at}")
    return items[at]


def _compile_comparison(node: ast.Compare, resolve: Resolver) -> Closure:
    first = compile_expression(node.left, resolve)
    links = [(COMPARISONS[type(op)], compile_expression(part, resolve)) for op, part in zip(node.ops, node.comparators)]
    if len(links) == 1:
        ((act, second),) = links
        return lambda scope: act(first(scope), second(scope))

    def chained(scope: Any) -> bool:
        left = first(scope)
        for act, closure in links:
            right = closure(scope)
            if not act(left, right):
                return False
            left = right
        return True

    return chained


def attributes_in(tree: ast.AST) -> list[str]:
    """The names after a dot in a tree, each once, in alphabetical order."""
    return sorted({node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})


def path_of(node: ast.expr) -> tuple[ast.expr, tuple[str, ...]]:
    """Split `root.a.b` into its root node and the names ("a", "b")."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return node, tuple(reversed(names))


EXACT = 1 << 50  # below it, the float next to a number could not be the value of a slot
Numbers = frozenset[float] | None  # a slot's thresholds; None if the slot is used in more than comparisons with constants
SlotOf = Callable[[ast.expr], int | None]  # the slot that a node refers to; None for any other node


def thresholds_of(tree: ast.expr, slot_of: SlotOf, slots: Iterable[int]) -> dict[int, Numbers]:
    """For each slot, the thresholds of its plain comparisons, or None if it is used in anything else."""
    numbers: dict[int, set[float] | None] = {slot: set() for slot in slots}

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.expr) and (slot := slot_of(node)) is not None:
            numbers[slot] = None
        elif isinstance(node, ast.Compare) and (plain := _plain_comparison(node, slot_of)) is not None:
            for slot, values in plain:
                if (known := numbers[slot]) is not None:
                    known.update(values)
        else:
            for child in ast.iter_child_nodes(node):
                walk(child)

    walk(tree)
    return {slot: None if values is None else frozenset(values) for slot, values in numbers.items()}


def _plain_comparison(node: ast.Compare, slot_of: SlotOf) -> list[tuple[int, list[float]]] | None:
    """The (slot, thresholds) pairs of a comparison in which each slot is compared with constants only; else None."""
    sides = [node.left, *node.comparators]
    slots = [slot_of(side) for side in sides]
    fixed = [list(constant_values(side)) for side in sides]
    pairs: list[tuple[int, list[float]]] = []
    for at, slot in enumerate(slots):
        near = [n for n in (at - 1, at + 1) if 0 <= n < len(sides)]
        if slot is None and not fixed[at]:
            return None
        if slot is not None and not all(fixed[n] for n in near):
            return None
        if slot is not None:
            edges = [(_side_of_change(node.ops[min(at, n)], n > at), value) for n in near for value in fixed[n]]
            members = [(side, value if isinstance(value, (tuple, list)) else (value,)) for side, value in edges]
            numbers = [(side, part) for side, parts in members for part in parts if isinstance(part, (int, float))]
            pairs.append((slot, [_threshold_beside(number, side) for side, number in numbers]))
    return pairs


def _side_of_change(op: ast.cmpop, slot_first: bool) -> float:
    """On which side of a constant a comparison changes: just above it (inf), just below it (-inf), or on both (0)."""
    above, below = (ast.Gt, ast.LtE), (ast.Lt, ast.GtE)
    if isinstance(op, above + below):
        return inf if isinstance(op, above) == slot_first else -inf
    return 0


def _threshold_beside(number: float, side: float) -> float:
    """The float next to a number on the given side, a threshold that no slot's value equals.

    It is the number itself if the comparison changes on both sides, or if the number is too large.
    """
    return nextafter(number, side) if side and abs(number) < EXACT else number


def constant_values(node: ast.expr) -> Iterator[Any]:
    """The value of an expression without names; nothing for any other."""
    try:
        yield ast.literal_eval(node)
    except ValueError:
        return


def code_literal(value: Any) -> str:
    """A value as conditions and code write it."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
