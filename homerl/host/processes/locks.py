"""One process at a time works in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from homerl.envs.core.documents import InputError

SECONDS = 10.0  # a killed run may take a moment to release the lock


@contextmanager
def folder_lock(out: Path) -> Iterator[None]:
    """Hold the lock of the folder, which is made if needed. Raises `InputError` if another process holds it."""
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock")
    try:
        lock.acquire(timeout=SECONDS)
    except Timeout:
        raise InputError("another run works in this folder", where=str(out), remedy="wait for it, or choose --out") from None
    try:
        yield
    finally:
        lock.release()
