"""`homerl check-plugin`: plug-in files, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, say, waiting_spinner


def check_plugin(
    file: Annotated[Path, typer.Argument(help="a reward, credit mode, loss, toolset or user, or a world's folder")],
) -> None:
    """Check the contract of a plug-in of your own: which rule is broken, where, and what to do."""
    from homerl.app.plugin_check import check_plugin_file

    with waiting_spinner(f"{file}: checking"):
        line = check_plugin_file(file)
    say(line)


COMMAND = Command("check-plugin", "research", check_plugin, "homerl check-plugin my_rewards/brevity.py")
