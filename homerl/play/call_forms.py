"""The forms in which models write a call between its marks: JSON, a name before JSON, tags of parameters, Python.

Invariants: a reader gives whole calls or raises one of `UNREADABLE`; nothing that a model wrote is evaluated; the time grows
with the length of a text.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from homerl.envs.core.messages import tool_call
from homerl.envs.core.world import MOST_LEVELS, MOST_TEXT, is_too_deep

Call = dict[str, Any]  # in OpenAI's form
Tools = Sequence[Mapping[str, Any]]  # OpenAI's schemas of functions
UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)
FENCE = "```"
NAMES = ("name", "tool_name", "tool", "function_name", "function", "action")
ARGUMENTS = ("arguments", "parameters", "args", "input", "kwargs", "action_input")
INNER = ("function", "function_call", "tool_call")  # keys whose object is the call
ACTS = {*NAMES, *INNER, "tool_calls", "service", "intent", "entity_id"}  # keys of what was meant as a call, or is one
SPACE = "(?:[\\w-]{1,20}[:_]|[|｜]DSML[|｜])?"  # of the names of tags

DECODER = json.JSONDecoder()
NEXT = re.compile(r"\s*;\s*")  # between calls in JSON
SINGLE = re.compile(r"\[?\s*\{\s*'|[^']*:\s*'\s*\{")  # Python's quotes in place of JSON's
HEAD = re.compile(  # a name before JSON: `NAME[ARGS]`, `functions.NAME:0<|...|>`, `function<｜...｜>NAME`, `call:NAME`
    r"(?:function\s*<[|｜][^<>]+[|｜]>)?\s*(?:call:|functions[.:])?(?P<name>[\w.-]+)(?::\d+)?"
    r"(?:\s|<[|｜][^<>]+[|｜]>|\[CALL_ID\]\w+|\[ARGS\]|```(?:json)?)*"
)
MOST_HEAD = 300  # characters
ESCAPES = re.compile(r"<escape>|<\|\"\|>")  # Gemma's quotation marks
KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
PARAMETER = re.compile(
    rf"<{SPACE}param(?:eter)?(?:=|\s+name=)\"?([^\"<>]{{1,100}})\"?[^<>]{{0,60}}>"
    r"|<arg_key>([^<>]{1,100})</arg_key>\s*<arg_value>"
)
PARAMETER_END = re.compile(rf"</{SPACE}(?:param(?:eter)?|arg_value)>")
PYTHON = re.compile(r"[\[\s]*(?:print\()?[A-Za-z_][\w.]*\(.*\)[\]\s]*", re.S)
MOST_PYTHON = 10_000  # characters
KINDS = {bool: ("boolean",), int: ("integer", "number"), float: ("number",), list: ("array",), dict: ("object",)}
CONSTANTS = {"true": True, "false": False, "null": None}


def parse_bounded_json(text: str) -> Any:
    """The JSON of a text that is not longer than a call may be."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"it is longer than {MOST_TEXT} characters")
    return json.loads(text)


def strip_code_fence(text: str) -> str:
    """The text without the code fence that a model may put around JSON, and without white space around it."""
    text = text.strip()
    if len(text) >= 2 * len(FENCE) and text.startswith(FENCE) and text.endswith(FENCE):
        return text[len(FENCE) : -len(FENCE)].removeprefix("json").strip()
    return text


def parse_marked_calls(body: str, tools: Tools, closed: bool = True) -> list[Call]:
    """The calls between two marks. A body is not `closed` if its end may have been cut."""
    body = strip_code_fence(body)
    found = parse_python_calls(body) or _named(body, tools, closed)
    return found or [call for value in _values(body) for call in calls_from_json(value)]


def _named(body: str, tools: Tools, closed: bool) -> list[Call]:
    """The call whose name stands before its arguments; none if there is no such call."""
    at = body.find("<arg_key>") if body[:1].isalpha() and "<arg_key>" in body else body.find("{")
    named = HEAD.fullmatch(body, 0, at) if 0 < at <= MOST_HEAD else None
    try:
        arguments = parse_named_arguments(body[at:], named["name"], tools, closed) if named else {}
        return (
            [make_openai_call(named["name"], arguments)] if named and not has_call_shape(arguments) else []
        )  # a word before a whole call
    except UNREADABLE:
        return []


def parse_named_arguments(body: str, name: str, tools: Tools, closed: bool) -> Any:
    """The arguments of a call whose name stands before them: in JSON, in Gemma's form of it, or in tags."""
    body = strip_code_fence(body).removesuffix(FENCE)
    if body.startswith("{"):
        return parse_bounded_json(_as_json(body)) if KEY.match(body) or ESCAPES.search(body) else parse_bounded_json(body)
    if not closed:
        raise ValueError("the call has no end")
    return dict(_parameters(body, _types(name, tools)))


def has_call_shape(value: Any) -> bool:
    """Whether JSON has a place for a call's name and one for its arguments."""
    if not isinstance(value, dict):
        return False
    inner = any(isinstance(value.get(key), dict) for key in INNER) or isinstance(value.get("tool_calls"), list)
    return inner or not (value.keys().isdisjoint(NAMES) or value.keys().isdisjoint(ARGUMENTS))


def calls_from_json(value: Any) -> list[Call]:
    """The calls that JSON tells: one, a list of them, or a message with `tool_calls`."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    if isinstance(value, list) and value:
        if is_too_deep(value, 2 * MOST_LEVELS):
            raise RecursionError
        return [call for item in value for call in calls_from_json(item)]
    inner = [value[key] for key in INNER if isinstance(value, dict) and isinstance(value.get(key), dict)]
    data = inner[0] if inner else value
    keys = data if isinstance(data, dict) else ()
    name = data[next((key for key in NAMES if key in keys), "name")]
    if not isinstance(name, str):
        raise TypeError("the name must be a string")
    return [make_openai_call(name, data[next((key for key in ARGUMENTS if key in keys), "arguments")])]


def make_openai_call(name: str, arguments: Any) -> Call:
    """A call in OpenAI's form, which any file can hold."""
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        arguments = parse_bounded_json(arguments)
    if not isinstance(arguments, dict):
        raise TypeError("arguments must be an object")
    if is_too_deep(arguments):  # what was read here might not be read again where the stack is deeper
        raise RecursionError
    call = tool_call(name, arguments)
    json.dumps(call, ensure_ascii=False).encode()  # a lone surrogate cannot be stored
    return call


def _values(text: str) -> list[Any]:
    """The JSON in a text: one value, or several with semicolons between them. Python's quotes are read too."""
    try:
        return [parse_bounded_json(text)]
    except ValueError:
        if several := _literal(text) or list(_several(text)):
            return several
        raise


def _several(text: str) -> Iterator[Any]:
    """The values of JSON with semicolons between them; none, or not all, where the text is something else."""
    parts, at = [], 0
    while len(text) <= MOST_TEXT and text.startswith(("{", "["), at):
        try:
            value, at = DECODER.raw_decode(text, at)
        except ValueError:
            return
        parts.append(value)
        if at == len(text):
            yield from parts
        following = NEXT.match(text, at)
        at = following.end() if following else len(text)


def _as_json(text: str) -> str:
    """Gemma's form of an object as JSON: its keys have no quotation marks, and its texts have others."""
    parts = ESCAPES.split(text)
    return "".join(json.dumps(part) if at % 2 else KEY.sub(r'\1"\2":', part) for at, part in enumerate(parts))


def _parameters(body: str, types: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    head, *found = PARAMETER.split(body)
    if head.strip():
        raise ValueError("it is neither JSON nor parameters in tags")
    for named, keyed, text in zip(found[::3], found[1::3], found[2::3]):
        value, *after = PARAMETER_END.split(text, maxsplit=1)
        if not after or after[0].strip():
            raise ValueError("a parameter has no end")
        key = (named or keyed).strip()
        yield key, _typed(value.strip("\n"), types.get(key))


def _types(name: str, tools: Tools) -> Mapping[str, Any]:
    """The schemas of a tool's parameters."""
    for tool in tools:
        function = tool.get("function") or {}
        if function.get("name") == name:
            return (function.get("parameters") or {}).get("properties") or {}
    return {}


def _typed(text: str, schema: Any) -> Any:
    """The value of a parameter that stands in a tag as text: JSON, unless it is no JSON or the schema asks for a text."""
    kinds = _kinds(schema) if isinstance(schema, Mapping) else ()
    try:
        value = parse_bounded_json(text)
    except (ValueError, RecursionError):
        return text
    return value if "string" not in kinds or any(kind in kinds for kind in KINDS.get(type(value), ())) else text


def _kinds(schema: Mapping[str, Any]) -> Sequence[Any]:
    """The types that a schema allows."""
    kind = schema.get("type")
    several = kind if isinstance(kind, list) else [kind]
    return [*several, *(one.get("type") for one in schema.get("anyOf") or () if isinstance(one, Mapping))]


def parse_python_calls(body: str) -> list[Call]:
    """The calls in Python's form with literals as named arguments, alone or in a list; none if it is something else."""
    if len(body) > MOST_PYTHON or not PYTHON.fullmatch(body):
        return []
    try:
        return [call for node in _parsed(body).body for call in _python(node)]
    except (ValueError, TypeError, AttributeError):
        return []


def _parsed(text: str) -> ast.Module:
    """Python's tree of a text. Raises `ValueError`, also for what is nested too deeply for the parser."""
    deepest = depth = 0
    for sign in re.findall(r"[(\[{]|[)\]}]", text):
        depth += 1 if sign in "([{" else -1
        deepest = max(deepest, depth)
    if deepest > MOST_LEVELS:
        raise ValueError("nested too deeply")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            return ast.parse(text.strip())
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"it is no Python ({type(error).__name__})") from None


def _literal(text: str) -> list[Any]:
    """The data in a text with Python's quotes; none if it is something else."""
    if len(text) > MOST_PYTHON or not SINGLE.match(text):
        return []
    try:
        return [ast.literal_eval(statement.value) for statement in _parsed(text).body if isinstance(statement, ast.Expr)]
    except (ValueError, TypeError, MemoryError, RecursionError):
        return []


def _python(node: Any) -> Iterator[Call]:
    """The calls of a statement. Raises `ValueError` or `AttributeError` if it is none."""
    called: Any = node.value if isinstance(node, ast.Expr) else node
    if isinstance(called, (ast.List, ast.Tuple)):
        for item in called.elts:
            yield from _python(item)
        return
    name = ast.unparse(called.func)
    if name == "print" and len(called.args) == 1:
        yield from _python(called.args[0])
        return
    if called.args or any(given.arg is None for given in called.keywords):
        raise ValueError("an argument has no name")
    arguments = {given.arg: ast.literal_eval(_Constants().visit(given.value)) for given in called.keywords}
    yield make_openai_call(name.removeprefix("default_api.").removesuffix(".call"), arguments)


class _Constants(ast.NodeTransformer):
    """Reads JSON's constants in Python's form."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A constant in place of a name, if it is one of JSON's."""
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node
