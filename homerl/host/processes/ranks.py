"""Which of a launcher's processes this one is."""

from __future__ import annotations

import os


def is_main_process() -> bool:
    """Whether this is the process that prints and writes. A process without companions is."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"
