"""The command line in this process: its exit code and what it says, on a disk that may be full."""

from __future__ import annotations

import contextlib
import io
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from homerl.app import cli


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str


def homerl(*arguments: str | Path) -> Done:
    """Run `homerl` with these arguments in this process. An error that has no message of its own is raised."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = mock.patch.object(sys, "argv", ["homerl", *map(str, arguments)])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as exit:
            code = int(exit.code or 0)
    out.getvalue().encode()
    return Done(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def full_disk(room: int = 0) -> Iterator[None]:
    """No file that this process writes may grow beyond `room` bytes: real writes fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
