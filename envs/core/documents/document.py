"""The data of a file together with its line numbers, and the error that points into a file.

Invariants:
- An `InputError` says what is wrong, where, and what to do, in at most two lines. It can be pickled, so that a worker
  process can raise it.
- `Document.lines` holds the line of every key and list item. The key path leads there: `("rooms", 0, "name")`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

KeyPath = tuple[Hashable, ...]


class InputError(ValueError):
    """Something that a person wrote cannot be used.

    `what` says what is wrong, `where` names the place (such as `home.yaml:12`), and `remedy` says what to do about it.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = (" ".join(str(part).split()) for part in (what, where, remedy))
        first = f"{self.where}: {self.what}" if self.where else self.what
        super().__init__(f"{first}\n{self.remedy}" if self.remedy else first)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.where, self.remedy)  # pickled when a worker process raises it


@dataclass(frozen=True)
class Document:
    """The data of a file, and the line (from 1) of each of its keys.

    `path` names the file. A document may also be composed of several files: then `origins` names the source of each key
    that is not from `path`.
    """

    path: str
    data: Any
    lines: Mapping[KeyPath, int]
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def locate_key(self, key: KeyPath = ()) -> str:
        """`file:line` of a key, or only the file if no line is known. For an absent key it is that of the nearest key
        above.
        """
        known = next((key[:size] for size in range(len(key), -1, -1) if key[:size] in self.lines), ())
        line = self.lines.get(known, 0)
        source = self.origins.get(known, self.path)
        return f"{source}:{line}" if line else source
