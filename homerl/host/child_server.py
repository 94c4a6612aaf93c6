"""Runs a server for a process, and ends it with that process: `python -m homerl.host.child_server PID COMMAND...`.

Invariants: guard and server form one process group; once process PID or the server has ended, no process of the group
remains; SIGTERM to the group lets the server shut down by itself.

The group is ended, and not psutil's tree of children: what a dead child of the server started is in the group, and in
nobody's tree.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

GRACE = 10.0  # seconds that a server gets to shut down


def main(arguments: Sequence[str]) -> int:
    """Run the command while process PID lives, and return the command's exit code, or 1 if PID ended first."""
    owner, command = int(arguments[0]), arguments[1:]
    server = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the group gets the signal; the server decides when to end
    while server.poll() is None:
        if os.getppid() != owner:
            # The owner has ended. The group includes this process.
            os.killpg(0, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                server.wait(GRACE)
            os.killpg(0, signal.SIGKILL)
            return 1
        time.sleep(0.2)
    return server.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
