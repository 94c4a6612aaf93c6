"""Ports of this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nothing listens on now, on any address."""
    with socket.create_server(("", 0)) as free:
        return int(free.getsockname()[1])
