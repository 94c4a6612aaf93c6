"""Processes that end with the one that started them.

Invariants: a stage or worker whose starter was killed ends within a second, or the next start of the same run
would find it still writing; a starter that nobody has reaped is dead, and so is one whose number another process has.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

import psutil

PARENT = "HOMERL_PARENT"
LAUNCHERS = {"TORCHELASTIC_RUN_ID", "ACCELERATE_MIXED_PRECISION"}  # set by torchrun and by accelerate launch


def die_with(pid: int) -> None:
    """End this process soon after process `pid` has ended."""
    threading.Thread(target=_watch, args=(pid,), daemon=True).start()


def die_with_parent() -> None:
    """The same for the process that the environment names, and for the launcher, if there are such."""
    if parent := os.environ.get(PARENT):
        die_with(int(parent))
    if LAUNCHERS & os.environ.keys():
        die_with(os.getppid())


def _watch(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        starter = psutil.Process(pid)
        while starter.is_running() and starter.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.5)
    os._exit(1)
