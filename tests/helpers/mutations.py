"""Damages valid data: changes JSON trees and texts in a few places, as people, disks and agents might.

It knows nothing of the meaning of the data, so it serves homes, devices, blueprints, automations and weather alike.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

Place = tuple[Any, Any]  # a dict or list of the tree, and a key or index in it


def nested(depth: int, inner: Any = 0) -> Any:
    for level in range(depth):
        inner = [inner] if level % 2 else {"name": inner}
    return inner


WORDS = (
    "", " ", "on", "name", "None", "true", "1e999", "\0", "\n", "\t", "é", "a\u0301", "\u202e", "٣", "𝔸", "\ud800",
    "x" * 20_000, "outdoors", "self", "__class__", "device('1').x", "{0}", "%s", "../..", "<script>", "[/red]",
    "time_cron = * * * * *",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 0.5, -0.0, 1e-320, 1e16, 1e308, -1e308, float("nan"), float("inf"), float("-inf"),
    2**31, 2**63, -(2**63), 10**30, 10**400, 10**5000,
)  # fmt: skip
OTHERS = (None, True, False, [], {}, [[]], [None], {"": None}, nested(30), nested(300), [0] * 300)
JUNK = (*WORDS, *NUMBERS, *OTHERS)


def junk(rng: random.Random) -> Any:
    """A random value that hardly any field expects."""
    return copy.deepcopy(rng.choice(rng.choice((WORDS, NUMBERS, OTHERS))))


# Trees


def mutated(tree: Any, rng: random.Random, most: int = 3) -> Any:
    """A copy of a JSON tree, changed in 1 to `most` places."""
    tree = [copy.deepcopy(tree)]  # in a list, so that the root can be changed as well
    for _ in range(rng.randint(1, most)):
        holder, key = rng.choice(list(places(tree)) if rng.random() < 0.5 else upper_places(tree, rng))
        rng.choice(CHANGES)(holder, key, tree, rng)
        tree = tree[:1] or [None]
    return tree[0]


def places(tree: Any) -> Iterator[Place]:
    """Every (container, key or index) of a tree, breadth first."""
    level = [tree]
    while level:
        of_level = [
            (holder, key) for holder in level for key in (holder if isinstance(holder, dict) else range(len(holder)))
        ]
        yield from of_level
        level = [part for holder, key in of_level if isinstance(part := holder[key], (dict, list))]


def upper_places(tree: Any, rng: random.Random) -> list[Place]:
    """The places on a random path from the root. Without it, the many deep leaves would nearly always be chosen."""
    path: list[Place] = []
    while isinstance(tree, (dict, list)) and tree:
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        path.append((tree, key))
        tree = tree[key]
    return path


def _drop(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    del holder[key]


def _put_junk(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    holder[key] = junk(rng)


def _put_other(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    """Put a value from elsewhere in the tree here, for example a valid value in the wrong place."""
    other, at = rng.choice(list(places(tree)))
    holder[key] = copy.deepcopy(other[at])


def _put_sibling(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    at = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key] = copy.deepcopy(holder[at])


def _swap(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    at = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[at] = holder[at], holder[key]


def _add(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    if isinstance(holder, dict):
        holder[rng.choice(WORDS)] = copy.deepcopy(holder[key])
    else:
        holder.insert(key, copy.deepcopy(holder[key]))


def _rename(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    if isinstance(holder, dict):
        names = [name for other, name in places(tree) if isinstance(other, dict)]
        holder[rng.choice((str(key)[:-1], f"{key}s", *WORDS, *names))] = holder.pop(key)
    else:
        rng.shuffle(holder)


def _empty(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    holder[key] = type(holder[key])() if isinstance(holder[key], (dict, list, str)) else None


def _retype(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    forms: tuple[Callable[[Any], Any], ...] = (str, lambda it: [it], lambda it: {"value": it}, bool, repr)
    with suppress(ValueError):  # a number of too many digits for a text
        holder[key] = rng.choice(forms)(holder[key])


def _nudge(holder: Any, key: Any, tree: Any, rng: random.Random) -> None:
    """Change a number a little or a lot, or a text by one character."""
    value = holder[key]
    if isinstance(value, (int, float)) and abs(value) < 1e300:
        holder[key] = rng.choice((value + 1, value - 1, -value, value * 1000, value / 7, value + 0.123456789))
    elif isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        holder[key] = (
            value[:at] + rng.choice(("", " ", "'", '"', "(", "\\", "9", "é", "\n")) + value[at + rng.randrange(2) :]
        )


CHANGES = (
    _drop, _put_junk, _put_junk, _put_other, _put_other, _put_sibling, _swap, _add, _rename, _empty, _retype, _nudge, _nudge,
)  # fmt: skip


# Texts


SNIPPETS = (
    b"", b"\t", b"  ", b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", "é".encode(), b"[", b"]",
    b"{", b"}", b'"', b"'", b"- ", b": ", b"#", b"&a ", b"*a", b"<<: *a", b"!!int ", b"!!python/name:os.system ", b"---\n",
    b"|\n", b"? ", b"NaN", b"1e999", b"9" * 5000, b"[" * 1000, b'{"a":' * 1000, b"null", b"\\ud800", b",", b",,",
    b"%YAML 9.9\n",
    b"\n".join(b"a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10) if i else b"x") for i in range(12)),
)  # fmt: skip


def spoilt(data: bytes, rng: random.Random, most: int = 3) -> bytes:
    """A copy of the content of a file, damaged in 1 to `most` places."""
    for _ in range(rng.randint(1, most)):
        data = rng.choice(DAMAGES)(data, rng)
    return data


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _hole(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.choice((1, 2, 10, 100)) :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(SNIPPETS) + data[at:]


def _noise(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 3, 200))) + data[at + 1 :]


def _lines(data: bytes, rng: random.Random) -> bytes:
    """Delete, copy, indent (by a space or a tab) or swap a line."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at] = b" " + lines[at]
        case 3:
            lines[at] = b"\t" + lines[at]
        case _:
            lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


DAMAGES = (_cut, _hole, _insert, _insert, _noise, _lines, _lines, _lines)
