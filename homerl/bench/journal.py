"""What a benchmark has played so far, as one file that only grows.

Invariants: a row is on disk whole or not at all (a torn last line is cut off when the file is opened again); of two
rows of one index the later counts; nothing of the rows is kept in memory but where they stand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


class Journal:
    """Rows by index, in the order of playing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at: dict[int, int] = {}
        self._counts: dict[int, bool] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._read()

    def _read(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb+") as file:
            whole = 0
            for line in iter(file.readline, b""):
                if not line.endswith(b"\n"):
                    break
                row = json.loads(line)
                self._at[row["index"]], self._counts[row["index"]] = whole, row["counts"]
                whole = file.tell()
            file.truncate(whole)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows, each with `index` and `counts` (whether it says something about the agent)."""
        rows = list(rows)
        lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for row in rows]
        with self.path.open("ab") as file:
            at = file.tell()
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        for row, line in zip(rows, lines):
            self._at[row["index"]], self._counts[row["index"]] = at, row["counts"]
            at += len(line)

    def done(self, index: int) -> bool:
        """Whether the index was played, and what came of it counts."""
        return self._counts.get(index, False)

    def __len__(self) -> int:
        return len(self._at)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows by index."""
        if not self._at:
            return
        with self.path.open("rb") as file:
            for index in sorted(self._at):
                file.seek(self._at[index])
                yield json.loads(file.readline())
