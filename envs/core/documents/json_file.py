"""Reading JSON files, with the line of every key.

Invariants: a key that stands twice in one object is refused; line numbers are computed only when an error needs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from homerl.envs.core.documents.document import Document, InputError, KeyPath
from homerl.envs.core.documents.sources import read_file_bytes, refuse_half_characters


def read_json(path: str | Path) -> Document:
    """The document of one JSON file. Raises `InputError` with file and line if it cannot be read."""
    name, content = str(path), read_file_bytes(Path(path))
    try:
        text = content.decode("utf-8-sig")
        data = json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, name))
        refuse_half_characters(data, name, text)
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read as text: {error}", name, "save the file as UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise _json_error(name, text, error) from None
    except InputError:
        raise
    except ValueError:
        raise InputError("holds a number of too many digits", name, "write it with fewer") from None
    except RecursionError:
        raise InputError("is nested too deeply", name, "write it with fewer levels") from None
    return Document(name, data, _LazyLines(lambda: json_key_lines(text)))


def _unique(pairs: list[tuple[str, Any]], name: str) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"the key {twice!r} is given twice in one object", name, "keep one of them")
    return data


def _json_error(name: str, text: str, error: json.JSONDecodeError) -> InputError:
    where = f"{name}:{error.lineno}:{error.colno}"
    if not text.strip():
        return InputError("the file is empty", name, "write it again or take it from its source")
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        what = f"the file breaks off ({error.msg})"
        return InputError(what, where, "it was cut short: write or copy it again")
    return InputError(f"not valid JSON: {error.msg}", where, "correct the line or the one above it")


class _LazyLines(Mapping[KeyPath, int]):
    """A mapping of lines that is computed at the first look-up."""

    def __init__(self, compute: Callable[[], dict[KeyPath, int]]) -> None:
        self._compute = compute

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return self._compute()

    def __getitem__(self, key: KeyPath) -> int:
        return self._lines[key]

    def __iter__(self) -> Iterator[KeyPath]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+')


def json_key_lines(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every key and list item of a JSON text, by key path. The text must be valid JSON."""
    lines: dict[KeyPath, int] = {(): 1}
    path: list[Any] = []  # the present key or index within each open object or array
    objects: list[bool] = []  # for each of these, whether it is an object
    line, key_next = 1, False
    for token in _JSON_TOKEN.findall(text):
        if token == "\n":
            line += 1
            continue
        if token in "}]":
            path.pop()
            objects.pop()
        elif token == ",":
            key_next = objects[-1]
            if not key_next:
                path[-1] += 1
        elif key_next:
            path[-1], key_next = json.loads(token), False
            lines[tuple(path)] = line
        elif token != ":":
            lines.setdefault(tuple(path), line)
            if token in "{[":
                key_next = token == "{"
                objects.append(key_next)
                path.append(None if key_next else 0)
    return lines
