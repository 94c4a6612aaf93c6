"""The exit code of a run that a launcher started, for whom torchrun's own code 1 says too little.

Invariant: of the processes of a run, the first that ends with a reason of its own says it; what ends after it may only have
lost the others.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

TOLD = "HOMERL_EXIT_CODE"  # names the file, which does not exist yet


def write_exit_code(code: int) -> None:
    """Write an exit code into the file that the starter named, unless another process has written one."""
    if code and (path := os.environ.get(TOLD)):
        with suppress(OSError), Path(path).open("x", encoding="utf-8") as file:
            file.write(str(code))


def read_exit_code(path: Path, code: int) -> int:
    """The code that a run wrote into the file, else `code`. The file is removed."""
    try:
        return int(path.read_text(encoding="utf-8") or code)
    except FileNotFoundError:
        return code
    finally:
        path.unlink(missing_ok=True)
