"""Runs the parts of scripts/gpu_report, each in processes of its own, and writes what they found: JSON, tables, a page."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu.machine import ROOT, SECONDS, Machine, described, has
from gpu.page import PAGE, unfit, write_page
from gpu.parts import PARTS, SIDES, measured
from gpu.tables import show

NO_MEMORY = "OutOfMemoryError"


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description="Measures homerl on one GPU; see the head of scripts/gpu_report.")
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all of them if left out")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_report.json"))
    parser.add_argument("--page", type=Path, help="page to write the results to; docs/gpu.md unless --tiny is given")
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU")
    parser.add_argument("--only", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=SIDES, default="ours", help=argparse.SUPPRESS)
    asked = parser.parse_intermixed_args()
    machine = Machine(asked.out.absolute().parent / f"{asked.out.stem}_files", asked.tiny)
    machine.folder.mkdir(parents=True, exist_ok=True)
    if asked.only:
        machine.keep(result_of(asked.only, asked.side), measured(PARTS[asked.only], asked.side, machine))
        return
    if unknown := set(asked.parts) - set(PARTS):
        sys.exit(f"homerl: {', '.join(unknown)} is no part of this report: {', '.join(PARTS)}")
    page = asked.page or (None if asked.tiny else ROOT / PAGE)
    if page and (fault := unfit(page)):
        sys.exit(f"homerl: {fault}")  # before anything is measured
    report = begun(asked.out, described(machine))
    for part in asked.parts or [name for name, part in PARTS.items() if part.needs is None or has(part.needs)]:
        report[part] = run_part(part, asked, machine)
        asked.out.write_text(json.dumps(report, indent=1) + "\n")
        show(part, report[part])
        if page:
            write_page(page, report)


def begun(out: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The report so far, if it is of the same device, commit and packages: parts can be measured one by one."""
    before = json.loads(out.read_text()) if out.exists() else {}
    same = all(before.get(key) == about[key] for key in ("device", "commit", "packages"))
    return (before if same else {}) | about


def result_of(part: str, side: str) -> str:
    """The name under which a side's figures are kept."""
    return part if side == "ours" else f"{part}.{side}"


def run_part(part: str, asked: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    """The figures of homerl's side, with those of TRL's and the ratio where there is one.

    TRL runs without checkpointing first, which is its faster setting, and with it if that takes too much memory.
    """
    figures = run_side(part, "ours", asked, machine)
    if PARTS[part].trl is None:
        return figures
    trl = run_side(part, "trl", asked, machine)
    if NO_MEMORY in trl.get("failed", ""):
        trl = run_side(part, "trl_checkpointing", asked, machine)
    both = "failed" not in figures and "failed" not in trl
    return figures | {"trl": trl, "ratio": PARTS[part].ratio(figures, trl) if both else None}


def run_side(part: str, side: str, asked: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    """Run one side in a process of its own, within `SECONDS`. If it fails: the reason, and the figures written so far."""
    name = result_of(part, side)
    result, log = machine.folder / f"{name}.json", machine.folder / f"{name}.log"
    result.unlink(missing_ok=True)
    command = [sys.executable, str(ROOT / "scripts/gpu_report"), "--only", part, "--side", side, "--out", str(asked.out)]
    with log.open("w") as words:
        try:
            tiny = ["--tiny"] if asked.tiny else []
            subprocess.run([*command, *tiny], stdout=words, stderr=words, timeout=SECONDS, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            figures = json.loads(result.read_text()) if result.exists() else {}
            return figures | {"failed": f"{type(error).__name__}: {log.read_text(errors='replace')[-2000:]}"}
    return json.loads(result.read_text())
