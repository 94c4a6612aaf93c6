"""State keys: the text of a state, and its hash. This is version 1 of the encoding.

Stored trajectories hold state keys, so the text of a value must never change. It depends on what is declared here and with
`written_as`, and not on the names of Python classes and fields: these may change.

Version 1:
- None, numbers, texts, dates, tuples, lists and dicts are written as Python literals. A dict keeps its order.
- A record is written as `Name(field=value, ...)`, with the names and the order of fields that `written_as` declares.
- A field that is younger than the keys (`AddedField`) is written only where it differs from its default.
- A set has no order, so it has no text. Sort it into a list first.

These are the texts that `repr` gave before the encoding was written down.

How to add a version 2: write a second table of writers beside `_WRITERS`, and let the worlds put a mark such as `2:` before
the keys that they make of it. A key without a mark is of version 1. Keep version 1 as long as trajectories hold its keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import date, datetime
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

Writer = Callable[[Any], str]
Record = TypeVar("Record", bound=type)


class AddedField(NamedTuple):
    """A field of a record that older keys do not know. It is written only where its value differs from `default`."""

    attribute: str
    default: Any = None


class Writers(dict[type, Writer]):
    """The functions that write values, by their exact type."""

    def __missing__(self, kind: type) -> Writer:
        raise TypeError(
            f"a state holds a {kind.__module__}.{kind.__qualname__}, which has no text in state keys: declare the class "
            f"with `written_as` or `written_by` of {__name__}"
        )


def state_text(value: Any) -> str:
    """The text of a value in state keys.

    Raises `TypeError` if the type of the value, or of a part of it, is not declared.
    """
    return _WRITERS[type(value)](value)


def written_as(name: str, /, **fields: str | AddedField) -> Callable[[Record], Record]:
    """Declare how a class of records is written. Use it as a decorator.

    Args:
        name: The written name of the record.
        fields: The attribute that holds each written field, by the field's written name and in the written order. A dotted
            attribute is one of a part.

    Example:
        >>> @written_as("Point", x="left", y="top")
        ... class Position(NamedTuple):
        ...     left: int
        ...     top: int
        >>> state_text(Position(1, 2))
        'Point(x=1, y=2)'
    """
    declared = [field if isinstance(field, AddedField) else AddedField(field, ALWAYS) for field in fields.values()]
    labels = [(f"{written}=", default) for written, (_, default) in zip(fields, declared)]
    read = attrgetter(*(attribute for attribute, _ in declared))
    read_all = read if len(declared) > 1 else lambda record: (read(record),)  # one attribute is read without a tuple
    template = f"{name}({', '.join([f'{written}=%s' for written in fields])})"

    def write_all(record: Any) -> str:
        return template % tuple([_WRITERS[type(value)](value) for value in read_all(record)])

    def write_changed(record: Any) -> str:
        values = zip(labels, read_all(record))
        shown = [label + _WRITERS[type(value)](value) for (label, default), value in values if value != default]
        return f"{name}({', '.join(shown)})"

    return written_by(write_changed if any(default is not ALWAYS for _, default in labels) else write_all)


def written_by(write: Writer) -> Callable[[Record], Record]:
    """Declare the function that writes the values of a class. Use it as a decorator. Subclasses need their own."""

    def declare(kind: Record) -> Record:
        _WRITERS[kind] = write
        return kind

    return declare


ALWAYS = object()  # equal to no value


def _tuple_text(value: tuple[Any, ...]) -> str:
    return f"({', '.join([_WRITERS[type(part)](part) for part in value])}{',' if len(value) == 1 else ''})"


def _list_text(value: list[Any]) -> str:
    return f"[{', '.join([_WRITERS[type(part)](part) for part in value])}]"


def _dict_text(value: dict[Any, Any]) -> str:
    return f"{{{', '.join([f'{state_text(key)}: {state_text(part)}' for key, part in value.items()])}}}"


# A trap: `repr` of a text escapes what the Unicode table of the running Python calls unprintable, such as a character that
# is newer than this Python.
_WRITERS = Writers(
    {
        **dict.fromkeys((type(None), bool, int, float, str, date, datetime), repr),
        tuple: _tuple_text,
        list: _list_text,
        dict: _dict_text,
    }
)


def text_hash(text: str) -> int:
    """A 128-bit hash of a text; half characters (lone surrogates) have one too."""
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest(), "big")
