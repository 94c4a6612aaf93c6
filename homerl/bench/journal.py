"""The played episodes of a benchmark, in one append-only file.

Invariants:
- A row is in the file completely or not at all (opening the file cuts off an incomplete last line).
- A killed process loses no row.
- Of two rows with one index the later counts.
- Memory holds only the positions of rows.
- A line that is no row of a journal is an `InputError` with its place.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError, name_path_in_errors
from homerl.play.trajectory import parse_json_line

EDITED = "a journal may have been edited: remove the line, and what it holds is played again"


class BenchJournal:
    """Rows by index, a number or a text, in the order of playing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at: dict[Any, tuple[int, int]] = {}  # the position and the number of the line
        self._lines = 0
        self._counts: dict[Any, bool] = {}
        self._synced = -math.inf
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
                self._lines += 1
                row = parse_json_line(line, where := f"{self.path}:{self._lines}")
                index, counts = row.get("index"), row.get("counts")
                number = isinstance(index, int) and not isinstance(index, bool) and index >= 0
                alike = type(index) is type(next(iter(self._at), index))
                if not (number or isinstance(index, str)) or not alike or not isinstance(counts, bool):
                    raise InputError("not a row of a journal: it has no index, or does not say what counts", where, EDITED)
                self._at[index], self._counts[index] = (whole, self._lines), counts
                whole = file.tell()
            file.truncate(whole)

    def append_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows, each with `index` and `counts` (whether the outcome says something about the agent)."""
        rows = list(rows)
        lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for row in rows]
        with name_path_in_errors(self.path), self.path.open("ab") as file:
            at = file.tell()
            file.write(b"".join(lines))
            file.flush()
            self._sync(file.fileno())
        for row, line in zip(rows, lines):
            self._lines += 1
            self._at[row["index"]], self._counts[row["index"]] = (at, self._lines), row["counts"]
            at += len(line)

    def _sync(self, descriptor: int) -> None:
        """Force a write to disk, at most once a second; only a loss of power makes it necessary."""
        if time.monotonic() - self._synced > 1.0:
            os.fsync(descriptor)
            self._synced = time.monotonic()

    def is_settled(self, index: int | str) -> bool:
        """Whether the episode of this index was played, and its outcome counts."""
        return self._counts.get(index, False)

    def __len__(self) -> int:
        return len(self._at)

    def sorted_rows(self) -> Iterator[dict[str, Any]]:
        """Read all rows, ordered by index."""
        if not self._at:
            return
        with self.path.open("rb") as file:
            for index in sorted(self._at):
                file.seek(self._at[index][0])
                yield json.loads(file.readline())

    def row_location(self, index: int | str) -> str:
        """The place of a row."""
        return f"{self.path}:{self._at[index][1]}"
