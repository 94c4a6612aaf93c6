"""What was read from a file, and the error that names what is wrong with it.

Invariants: an `InputError` says what is wrong, where it stands and what to do, in two lines at most; it survives
pickling, so a worker process can raise it; `Document.lines` knows the line of every key and list item by its path of
keys, such as `("rooms", 0, "name")`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

KeyPath = tuple[Hashable, ...]


class InputError(ValueError):
    """Something that a person gave cannot be used: what is wrong, where it stands, and what to do about it."""

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = (" ".join(str(part).split()) for part in (what, where, remedy))
        first = f"{self.where}: {self.what}" if self.where else self.what
        super().__init__(f"{first}\n{self.remedy}" if self.remedy else first)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.where, self.remedy)  # so that it survives a worker process


@dataclass(frozen=True)
class Document:
    """Data and where each of its keys stands; `origins` names the source of keys that are not from `path`."""

    path: str
    data: Any
    lines: Mapping[KeyPath, int]
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def where(self, key: KeyPath = ()) -> str:
        """`file:line` of `key` or, if it is absent, of what would hold it; line 0 stands for no line."""
        known = next((key[:size] for size in range(len(key), -1, -1) if key[:size] in self.lines), ())
        line = self.lines.get(known, 0)
        source = self.origins.get(known, self.path)
        return f"{source}:{line}" if line else source
