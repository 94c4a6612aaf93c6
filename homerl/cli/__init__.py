"""The `homerl` command.

Invariant: bad input ends with one message and exit code 2, a plug-in file that cannot be used and a file that cannot be
read or written among it.
"""

from __future__ import annotations

import sys

from envs.documents import InputError
from homerl.terminal.console import print_error


def main() -> None:
    """Entry point. An `InputError`, or an `OSError` of a file, becomes one message and exit code 2."""
    try:
        from homerl.cli.app import app  # reads the worlds' folders, which may be the bad input

        app()
    except InputError as error:
        print_error(error)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:  # not of a file
            raise
        print_error(
            InputError(f"cannot be read or written ({error.strerror})", where=str(error.filename2 or error.filename))
        )
        sys.exit(2)
