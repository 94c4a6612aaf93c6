"""Runs a server for a process, and ends it with that process: `python -m homerl.processes.guard PID COMMAND...`.

Invariants: guard and server are one process group, in which nothing is left once process PID or the server is gone;
SIGTERM to the group lets the server end by itself. It is the group that is ended and not psutil's tree of children: what
a dead child of the server started is in the group, and in nobody's tree.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

GRACE = 10.0  # seconds that a server has to end by itself


def main(arguments: Sequence[str]) -> int:
    """Run the command while the process lives; return the command's code."""
    owner, command = int(arguments[0]), arguments[1:]
    server = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the group is told, and the server decides
    while server.poll() is None:
        if os.getppid() != owner:
            return end(server)
        time.sleep(0.2)
    return server.returncode


def end(server: subprocess.Popen) -> int:
    """The owner is gone: end the group, this process included."""
    os.killpg(0, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(GRACE)
    os.killpg(0, signal.SIGKILL)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
