"""The `homerl` command.

Invariant: bad input ends with one message and exit code 2, a plug-in file that cannot be used and a file that cannot be
read or written among it (`homerl.host.exit_codes`).
"""

from __future__ import annotations

import sys

from homerl.host.exit_codes import run_to_end


def main() -> None:
    """Entry point."""
    sys.exit(run_to_end(_run_command))


def _run_command() -> int:
    from homerl.app.cli.app import app  # reads the worlds' folders, which may be the bad input
    from homerl.app.runs.launch import set_up_libraries

    set_up_libraries()
    try:
        app(prog_name="homerl")  # also where it is started by `python -m homerl`
    except SystemExit as end:  # the command line is typer's to refuse
        return end.code if isinstance(end.code, int) else 0
    return 0
