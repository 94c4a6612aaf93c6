"""`homerl check-devices`: device files, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal.commands import Command
from homerl.host.terminal.console import counted, say


def check_devices(folder: Annotated[Path, typer.Argument(help="a folder of device files, or one of them")]) -> None:
    """Check a folder of device YAML files, or one of them, and list errors and warnings with file and line."""
    from homerl.envs.homeenv.maker.furnish import shipped_priors
    from homerl.envs.homeenv.sim.devices.lint import check_folder
    from homerl.envs.homeenv.sim.devices.spec import Catalogue

    report = check_folder(folder, shipped_priors().categories, Catalogue.beside(folder))
    for finding in report.findings:
        say(finding)
    names = ", ".join(spec.name for spec in report.specs) or "none"
    warnings, loaded = len(report.findings) - report.errors, len(report.specs)
    loads = f"{counted(loaded, 'device')} {'loads' if loaded == 1 else 'load'}"
    say(f"{folder}: {loads} ({names}); errors: {report.errors}, warnings: {warnings}")
    raise typer.Exit(2 if report.errors else 0)


COMMAND = Command("check-devices", "data", check_devices, "homerl check-devices my_devices")
