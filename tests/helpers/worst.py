"""The worst calls that a model can write, drawn from seeds: for the tools of any world.

A call names a tool of the world, or none. Each argument is a value that means something in the home, or one of `JUNK`:
numbers of any size, texts of any length, lone surrogates, deep nesting, and values of other types.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from homerl.play.situation import Reply

HUGE = 10**400
NUMBERS = (
    0, -1, 1, 1.5, -0.0, 5e-324, 0.001, 3_600, 1e12, 2**62, -(2**62), 9e18, -9e18, 1e308, -1e308, HUGE, -HUGE,
    10**4299, float("nan"), float("inf"),
)  # fmt: skip
TEXTS = ("", "\ud800", "é\0\n", "{0.__class__}", "%s%n", "9" * 400, "1e999", "2025-08-23 99:00:00", "9999-12-31 23:59:59")


def nested(levels: int, inner: Any = 0) -> Any:
    """Lists and objects inside one another, so many levels of them."""
    for level in range(levels):
        inner = {"a": inner} if level % 2 else [inner]
    return inner


JUNK: tuple[Any, ...] = (
    *NUMBERS, *TEXTS, None, True, False, [], {}, [None], {"": None}, {"a": HUGE}, nested(40), nested(900), nested(20_000),
    ["x"] * 6_000, {str(n): n for n in range(6_000)}, "x" * 150_000,
)  # fmt: skip


def worst_calls(
    tools: Sequence[Mapping[str, Any]], real: Mapping[str, Sequence[Any]], count: int, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """So many calls of these tools. `real` has values that mean something in the home, by the name of the argument."""
    rng = random.Random(seed)
    functions = [tool["function"] for tool in tools]
    for _ in range(count):
        if not functions or rng.random() < 0.02:
            yield {"name": rng.choice(JUNK), "x": rng.choice(JUNK)}
            continue
        function = rng.choice(functions)
        yield {"name": function["name"], **arguments(function["parameters"], real, rng)}


def arguments(schema: Mapping[str, Any], real: Mapping[str, Sequence[Any]], rng: random.Random) -> dict[str, Any]:
    """Arguments of a tool, or members of an object: most of them there, some of them junk, now and then one too many."""
    found = {
        name: value(name, part, real, rng) for name, part in schema.get("properties", {}).items() if rng.random() < 0.97
    }
    return found if rng.random() < 0.95 else found | {"other": rng.choice(JUNK)}


def value(name: str, schema: Mapping[str, Any], real: Mapping[str, Sequence[Any]], rng: random.Random) -> Any:
    """A value for an argument."""
    if rng.random() < 0.2:
        return rng.choice(JUNK)
    if name in real:
        return spoiled(rng.choice(real[name]), rng)
    match schema.get("type"):
        case "object":
            return arguments(schema, real, rng)
        case "array":
            return [value(name, schema.get("items", {}), real, rng) for _ in range(rng.randint(0, 3))]
        case "integer" | "number":
            return rng.choice(NUMBERS)
    return rng.choice(schema["enum"]) if "enum" in schema else rng.choice(JUNK)


def spoiled(given: Any, rng: random.Random) -> Any:
    """A value in which numbers, and now and then other parts, are replaced by junk."""
    if isinstance(given, dict):
        return {key: spoiled(part, rng) for key, part in given.items()}
    if isinstance(given, list):
        return [spoiled(part, rng) for part in given]
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    return rng.choice(NUMBERS) if number and rng.random() < 0.5 else given


def real_values(data: Any, found: dict[str, list[Any]] | None = None) -> dict[str, list[Any]]:
    """The texts and numbers in plain data, such as a blueprint, by the key under which they are."""
    found = {} if found is None else found
    for key, part in data.items() if isinstance(data, Mapping) else ():
        if isinstance(part, (str, int, float)) and len(values := found.setdefault(key, [])) < 50:
            values.append(part)
    for part in data.values() if isinstance(data, Mapping) else data if isinstance(data, (list, tuple)) else ():
        real_values(part, found)
    return found


def written(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call in a model's message. What has more levels than Python can write is written by hand. Half characters stand in
    it as they are, since not every program escapes them.
    """
    given = {key: part for key, part in call.items() if key != "name"}
    try:
        text = json.dumps(given, ensure_ascii=False)
    except RecursionError:
        text = f'{{"{next(iter(given), "a")}": {"[" * 50_000}'
    name = call["name"] if isinstance(call["name"], str) else repr(type(call["name"]))
    return {"type": "function", "id": "c", "function": {"name": name[:100], "arguments": text}}


class WorstAgent:
    """Sends the worst calls in every message, and words of the same kind."""

    name = "worst"

    def __init__(self, real: Mapping[str, Sequence[Any]] | None = None) -> None:
        self.real = dict(real or {})

    async def propose(self, observation: Any, n: int = 1) -> list[Reply]:
        """A message of two calls, or of words."""
        seed = f"{observation.blueprint_id} {len(observation.messages)}"
        rng = random.Random(seed)
        calls = [written(call) for call in worst_calls(observation.tools, self.real, 2, rng.getrandbits(32))]
        words = rng.choice(
            ("", "Done.\ud800", "9" * 10_000, "Yes? " * 10_000, json.dumps({"mode": "act", "did": HUGE, "args": [HUGE]}))
        )
        said = {"role": "assistant", "content": words}
        return [Reply(said if rng.random() < 0.1 else said | {"content": "", "tool_calls": calls})]
