"""How the arguments of service calls pass from the sandbox to the host.

When the host reads the arguments of a call, it builds Python objects from them. The sandbox's limits do not bound that
work: hashing keys that share their parts, or whose hashes collide, may never end. The host therefore reads only arguments
that are known to be harmless.

Invariants:
- The host reads a call directly only if its source text has nothing but short literals between its brackets.
- The arguments of any other call arrive as one JSON text of at most `LONGEST` characters. The prelude makes this text
  inside the sandbox, within the sandbox's limits.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from homerl.envs.homeenv.sim.plan.fixed_plan import FixedPlan
from homerl.envs.homeenv.sim.values import auditor as parsing
from homerl.envs.homeenv.sim.values.auditor import Refused

ASK = "__device"  # the only host function that the prelude calls; the auditor refuses code that names it
LONGEST = 100_000  # most characters of the arguments of a call; texts that homes accept are far shorter
SHORT = 500  # most characters of the literals of a call that is read directly
SPAN = 2000  # most characters of the source text of such a call, including the expression that is called
OPAQUE = object()  # stands for an argument that JSON cannot express
_MARK = {"": None}  # how such an argument is written in JSON

# Defines `device` for snippets that call services with other arguments than literals. It gives the same objects, but the
# services that are called in this way are replaced by functions of this code. The code binds every name that it needs as a
# local one, because the snippet may rebind global names later.
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


def find_flattened_services(nodes: Iterable[ast.AST], plan: FixedPlan) -> set[str] | None:
    """The names of the services that a snippet calls with other arguments than literals.

    `nodes` are the nodes of the snippet's syntax tree. The result is None if the snippet does not need the prelude.
    """
    methods: set[str] = set()
    loose = 0  # uses of `device` other than calls with literals
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "device":
            loose += 1
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                loose -= int(node.func.id == "device" and _has_short_literals(node))
            elif isinstance(node.func, ast.Attribute) and not _has_short_literals(node):
                methods.add(node.func.attr)
    if methods:
        specs = {id(device.spec): device.spec for device in plan.devices}
        methods.intersection_update(path.rpartition(".")[2] for spec in specs.values() for path in spec.service_index)
    return methods if methods or loose else None


@lru_cache(1000)
def is_call_of_literals(text: str, name: str) -> bool:
    """Whether a source text is a call of something of this name, with short literals only."""
    try:
        call = parsing.parse_python(f"({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if not isinstance(call, ast.Call):
        return False
    called = {ast.Name: "id", ast.Attribute: "attr"}.get(type(call.func), "")
    return getattr(call.func, called, None) == name and _has_short_literals(call)


def _has_short_literals(call: ast.Call) -> bool:
    """Whether a call has only literals as arguments, of at most `SHORT` characters in all."""
    if not all(word.arg for word in call.keywords):
        return False
    values = [*call.args, *(word.value for word in call.keywords)]
    return sum(map(_literal_length, values)) + sum(len(word.arg or "") for word in call.keywords) <= SHORT


def _literal_length(node: ast.expr) -> float:
    """The approximate number of characters of a literal; infinite for anything else."""
    match node:
        case ast.Constant(value=str() | bytes() as value):
            return len(value)
        case ast.Constant(value=int() as value):
            return 1 + value.bit_length() / 4
        case ast.Constant():
            return 1
        case ast.UnaryOp(operand=ast.Constant() as operand):
            return _literal_length(operand)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return 2 + sum(map(_literal_length, parts))
    return math.inf


def read_flat_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The positional and named arguments in a text that the prelude made.

    Raises `Refused` if the text is too long or nested too deeply.
    """
    if len(text) > LONGEST:
        raise Refused("out_of_range", "the arguments are too long")
    try:
        # Python refuses thousands of digits, so the digits are cut. What is left is still too large for any value.
        args, kwargs = json.loads(text, parse_int=lambda digits: int(digits[:100]))
    except RecursionError:
        raise Refused("wrong_type", "the arguments are nested too deep") from None
    return [_opaque(value) for value in args], {name: _opaque(value) for name, value in kwargs.items()}


def _opaque(value: Any) -> Any:
    return OPAQUE if value == _MARK else value
