"""Processes of this machine: signals, the end of a parent, the lock of a folder, ports, and the processes of a launcher.

Invariants:
- Within `stop_on_signals`, Ctrl-C and SIGTERM both raise `KeyboardInterrupt` where the work stands. (By itself asyncio only
  asks its task to end, which happens once a model has sampled, minutes later.)
- A stage or worker ends within a second after its parent was killed. Else the next start of the same run would find it still
  writing. A parent that nobody has reaped counts as dead, and so does one whose number another process has taken.
- One process at a time works in a folder.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from homerl.envs.core.documents import InputError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block, so that its `finally` clauses run; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    except Exception as error:
        if asked and not isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error  # a library, whose callback was interrupted, made its own error of it
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def children_ignore_interrupt() -> Iterator[None]:
    """Processes that the block starts ignore Ctrl-C, from their first moment: who started them speaks, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


PARENT = "HOMERL_PARENT"
LAUNCHERS = {"TORCHELASTIC_RUN_ID", "ACCELERATE_MIXED_PRECISION"}  # set by torchrun and by accelerate launch


def die_with_process(pid: int) -> None:
    """Watch process `pid` in a thread, and end this process within a second after it has ended."""
    threading.Thread(target=_end_after, args=(pid,), daemon=True).start()


def die_with_parent() -> None:
    """End with the process named in the environment (`PARENT`), and with the launcher, if there are such."""
    if parent := os.environ.get(PARENT):
        die_with_process(int(parent))
    if LAUNCHERS & os.environ.keys():
        die_with_process(os.getppid())


def _end_after(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        starter = psutil.Process(pid)
        while starter.is_running() and starter.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.5)
    os._exit(1)  # this is a thread: `sys.exit` would end it alone


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


def free_port() -> int:
    """A port that nothing listens on now, on any address."""
    with socket.create_server(("", 0)) as free:
        return int(free.getsockname()[1])


def is_local_main_process() -> bool:
    """Whether this is the first process of its machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def is_main_process() -> bool:
    """Whether this is the process that prints and writes. A process without companions is."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"
