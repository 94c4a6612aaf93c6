"""How the arguments of service calls cross from the sandbox to the host.

When the host reads the arguments of a call, it makes Python objects of them. No limit of the sandbox bounds that work:
hashing keys that share their parts, or whose hashes collide, may never end. So the host reads harmless arguments alone.

Invariants: a call whose source text has nothing but short literals between its brackets is read as it is; the arguments of
any other call arrive as one JSON text of at most `LONGEST` characters, which the prelude made in the sandbox, within its
limits.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from envs.homeenv import parsing
from envs.homeenv.audit import Refused
from envs.homeenv.plan import Plan

ASK = "__device"  # the host's one function beneath the prelude: no code that the auditor passes can name it
LONGEST = 100_000  # characters of all arguments of a call; single texts that homes take are far shorter
SHORT = 500  # characters of all literals of a call that is read as it is
SPAN = 2000  # characters of its own text, with what it is called on
OPAQUE = object()  # what is neither number, text, nor a list or dictionary of such
_MARK = {"": None}  # and how it crosses

# `device` as it is where arguments are no literals. It hands out the same objects, on which the services that are called
# with such arguments are functions of this code. It holds all that it needs: names may mean others later.
PRELUDE = f"""\
def __make(ask, setattr, isinstance, int, error):
    from json import dumps
    def plain(value):
        try:
            dumps(value)
        except error:
            return 10**100 if isinstance(value, int) else {_MARK}
        return value
    def flat(args, kwargs):
        try:
            text = dumps([args, kwargs])
        except error:
            text = dumps([[plain(value) for value in args], {{name: plain(kwargs[name]) for name in kwargs}}])
        return text[:{LONGEST + 1}]
    def service(did, path):
        def call(*args, **kwargs):
            ask(did, path, flat(args, kwargs))
        return call
    def device(*args, **kwargs):
        did, whole, parts = ask("", "", flat(args, kwargs))
        for name, part, services in parts:
            for path, service_name in services:
                setattr(part or whole, service_name, service(did, path))
            if name:
                setattr(whole, name, part)
        return whole
    return device
device = __make({ASK}, setattr, isinstance, int, Exception)
"""


def flattened(nodes: Iterable[ast.AST], plan: Plan) -> set[str] | None:
    """The names of services that a snippet calls with other than literals; None where it can do without the prelude."""
    methods: set[str] = set()
    loose = 0  # uses of `device` that are no call with literals
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "device":
            loose += 1
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                loose -= int(node.func.id == "device" and _of_literals(node))
            elif isinstance(node.func, ast.Attribute) and not _of_literals(node):
                methods.add(node.func.attr)
    if methods:
        specs = {id(device.spec): device.spec for device in plan.devices}
        methods.intersection_update(path.rpartition(".")[2] for spec in specs.values() for path in spec.service_index)
    return methods if methods or loose else None


@lru_cache(1000)
def of_literals(text: str, name: str) -> bool:
    """Whether a source text calls something of this name, with literals alone."""
    try:
        call = parsing.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if not isinstance(call, ast.Call):
        return False
    called = {ast.Name: "id", ast.Attribute: "attr"}.get(type(call.func), "")
    return getattr(call.func, called, None) == name and _of_literals(call)


def _of_literals(call: ast.Call) -> bool:
    """Whether a call has but few and short literals between its brackets: what is longer may as well cross as a text."""
    if not all(word.arg for word in call.keywords):
        return False
    values = [*call.args, *(word.value for word in call.keywords)]
    return sum(map(_length, values)) + sum(len(word.arg or "") for word in call.keywords) <= SHORT


def _length(node: ast.expr) -> float:
    """The characters of a literal, roughly; infinite for what is none."""
    match node:
        case ast.Constant(value=str() | bytes() as value):
            return len(value)
        case ast.Constant(value=int() as value):
            return 1 + value.bit_length() / 4
        case ast.Constant():
            return 1
        case ast.UnaryOp(operand=ast.Constant() as operand):
            return _length(operand)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return 2 + sum(map(_length, parts))
    return math.inf


def arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that the prelude made into a text, or `Refused`."""
    if len(text) > LONGEST:
        raise Refused("out_of_range", "the arguments are too long")
    try:
        args, kwargs = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise Refused("wrong_type", "the arguments are nested too deep") from None
    return [_opaque(value) for value in args], {name: _opaque(value) for name, value in kwargs.items()}


def _integer(digits: str) -> int:
    """A whole number, or one that is too large as well: Python reads no thousands of digits."""
    return int(digits[:100])


def _opaque(value: Any) -> Any:
    return OPAQUE if value == _MARK else value
