"""Writing files.

Invariant: a file is replaced whole or not at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path


def write_atomic(path: str | Path, content: str | bytes | Iterable[str]) -> None:
    """Replace the file at `path`, making its folder. Readers, and runs after a crash, see the old content or the new.

    Content that comes in parts is written as it comes, so the whole need not fit into memory. `OSError` leaves the old
    file as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = f"{os.getpid()}.{threading.get_ident()}"  # two writers must not share a temporary file
    temporary = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        with temporary.open("wb") as file:
            parts = [content] if isinstance(content, (str, bytes)) else content
            file.writelines(part.encode() if isinstance(part, str) else part for part in parts)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
