"""Calls of tools, drawn from the tools' own JSON Schemas: those that fit, and those with one violation.

A violation is a part of the arguments, at any depth, that is replaced by `JUNK`, left out, or added. Numbers may be any that
a model can write, so also NaN and infinity, which Python reads in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from homerl.envs.core.world import tool_call_to_action

Schema = Mapping[str, Any]
Real = Mapping[str, Sequence[Any]]  # values that mean something in the home, by the name of the argument
Path = tuple[str | int, ...]
HUGE = 10**400
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, HUGE, -HUGE, 2**63, 1e308, float("nan"), float("inf"), "", "x", "x" * 10_000, "1",
    "\ud800", [], {}, [None], [[[]]], {"": None}, {"a": {"a": [HUGE]}}, ["x"] * 100,
)  # fmt: skip
TEXT = st.text(max_size=12) | st.sampled_from(["on", "up", "all", "2025-08-23 09:00:00", "{0}", "%s", "9" * 400, "é\0\n"])
ANYTHING = st.sampled_from(JUNK) | TEXT | st.integers() | st.floats()


def fitting(schema: Schema, real: Real, name: str = "") -> st.SearchStrategy[Any]:
    """Values that fit a schema; a text is often one that means something."""
    if "allOf" in schema:
        return fitting({key: value for part in schema["allOf"] for key, value in part.items()}, real, name)
    if "anyOf" in schema:
        return st.one_of([fitting(part, real, name) for part in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema.get("type", ())
    return st.one_of(
        [_of(kind, schema, real, name) for kind in ([kinds] if isinstance(kinds, str) else kinds)] or [ANYTHING]
    )


def _of(kind: str, schema: Schema, real: Real, name: str) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    match kind:
        case "string":
            text = TEXT.map(lambda text: text[: schema.get("maxLength")])
            return st.sampled_from([str(one) for one in real[name]]) | text if real.get(name) else text
        case "integer":
            return st.integers(low, high)
        case "number":
            return st.floats(low, high) | st.integers(None if low is None else int(low), None if high is None else int(high))
        case "boolean":
            return st.booleans()
        case "array":
            items = fitting(schema.get("items", {}), real, name)
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=min(4, schema.get("maxItems", 4)))
        case "object":
            parts = schema.get("properties", {})
            if not parts:
                return st.dictionaries(st.sampled_from([*real] or ["a"]) | TEXT, ANYTHING, min_size=1, max_size=2)
            drawn = {key: fitting(part, real, key) for key, part in parts.items()}
            needed = {key: drawn[key] for key in schema.get("required", ())}
            return st.fixed_dictionaries(needed, optional={key: drawn[key] for key in parts if key not in needed})
    return st.none()


def paths(value: Any, path: Path = ()) -> list[Path]:
    """The places of all parts of a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, part in parts for found in ((*path, key), *paths(part, (*path, key)))]


def replaced(value: Any, path: Path, junk: Any, drop: bool = False) -> Any:
    """A copy of a value with one part replaced, or left out."""
    if not path:
        return junk
    key, *rest = path
    parts = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    parts = {one: part for one, part in parts.items() if one != key or rest or not drop}
    if rest or not drop:
        parts[key] = replaced(parts.get(key), tuple(rest), junk, drop)
    return parts if isinstance(value, dict) else list(parts.values())


@st.composite
def calls(draw: st.DrawFn, tools: Sequence[Schema], real: Real) -> dict[str, Any]:
    """A call of one of the tools; every second one has a violation."""
    function = draw(st.sampled_from([tool["function"] for tool in tools]))
    given = draw(fitting(function["parameters"], real))
    if draw(st.booleans()):
        change = draw(st.sampled_from(["replace", "drop", "add"]))
        if change == "add" or not paths(given):
            given = {**given, draw(TEXT): draw(ANYTHING)}
        else:
            given = replaced(given, draw(st.sampled_from(paths(given))), draw(st.sampled_from(JUNK)), change == "drop")
    return tool_call_to_action(function["name"], given, "name" in function["parameters"].get("properties", {}))


def violations(schema: Schema, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All arguments that differ from the given ones in one property of a schema: any junk, absent; and with one too many."""
    names = schema.get("properties", {})
    wrong = [{**given, name: junk} for name in names for junk in JUNK]
    absent = [{key: part for key, part in given.items() if key != name} for name in names]
    return [*wrong, *absent, {**given, "other": 1}, {}]
