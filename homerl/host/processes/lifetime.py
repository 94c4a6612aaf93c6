"""Ends a process when the process that started it ends.

Invariants: a stage or worker ends within a second after its parent was killed; otherwise the next start of the same run
would find it still writing. A parent that nobody has reaped counts as dead, and so does one whose number another
process has taken.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

import psutil

PARENT = "HOMERL_PARENT"
LAUNCHERS = {"TORCHELASTIC_RUN_ID", "ACCELERATE_MIXED_PRECISION"}  # set by torchrun and by accelerate launch


def die_with_process(pid: int) -> None:
    """Watch process `pid` in a thread, and end this process within a second after it has ended."""
    threading.Thread(target=_watch, args=(pid,), daemon=True).start()


def die_with_parent() -> None:
    """End with the process named in the environment (`PARENT`), and with the launcher, if there are such."""
    if parent := os.environ.get(PARENT):
        die_with_process(int(parent))
    if LAUNCHERS & os.environ.keys():
        die_with_process(os.getppid())


def _watch(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        starter = psutil.Process(pid)
        while starter.is_running() and starter.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.5)
    os._exit(1)
