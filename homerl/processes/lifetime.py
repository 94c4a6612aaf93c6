"""Ends a process when the process that started it ends.

Invariant: a stage or worker ends within a second after its parent was killed; otherwise the next start of the same run
would find it still writing.
"""

from __future__ import annotations

import os
import threading
import time

PARENT = "HOMERL_PARENT"
LAUNCHERS = {"TORCHELASTIC_RUN_ID", "ACCELERATE_MIXED_PRECISION"}  # set by torchrun and by accelerate launch


def die_with(pid: int) -> None:
    """Watch process `pid` in a thread, and end this process within a second after it has ended."""
    threading.Thread(target=_watch, args=(pid,), daemon=True).start()


def die_with_parent() -> None:
    """End with the process named in the environment (`PARENT`), and with the launcher, if there are such."""
    if parent := os.environ.get(PARENT):
        die_with(int(parent))
    if LAUNCHERS & os.environ.keys():
        die_with(os.getppid())


def _watch(pid: int) -> None:
    while _alive(pid):
        time.sleep(0.5)
    os._exit(1)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
