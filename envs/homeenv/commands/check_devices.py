"""`homerl check-devices`: device files, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.host.terminal import Command, say


def check_devices(folder: Annotated[Path, typer.Argument(help="a folder of device files, or one of them")]) -> None:
    """Check a folder of device YAML files, or one of them, and list errors and warnings with file and line."""
    from homerl.envs.homeenv.maker.layout_and_furniture import shipped_priors
    from homerl.envs.homeenv.sim.devices.device_lint import lint_device_files
    from homerl.envs.homeenv.sim.devices.device_spec import Catalogue

    report = lint_device_files(folder, shipped_priors().categories, Catalogue.products_beside(folder))
    for finding in report.findings:
        say(finding)
    names = ", ".join(spec.name for spec in report.specs)
    found = f"{len(report.specs)} ({names})" if names else "0"
    warnings = len(report.findings) - report.error_count
    say(f"{folder}: devices that load: {found}; errors: {report.error_count}, warnings: {warnings}")
    raise typer.Exit(2 if report.error_count else 0)


COMMAND = Command("check-devices", "data", check_devices, "homerl check-devices my_devices")
