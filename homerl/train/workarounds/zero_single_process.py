"""DeepSpeed expects a launcher even for a single process. Without one it looks for MPI.

Versions: deepspeed 0.19.2 to 0.19.8.
Upstream: https://github.com/deepspeedai/DeepSpeed/pull/8444
"""

from __future__ import annotations

import os
import socket


def set_launcher_environment() -> None:
    """Set the environment variables of a launcher, if there was none."""
    if "LOCAL_RANK" in os.environ:
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
