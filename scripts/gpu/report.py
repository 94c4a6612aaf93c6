"""Runs the parts of scripts/gpu_report, each in processes of its own, and writes what they found: JSON and tables."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu.machine import QUICK, ROOT, SECONDS, Machine, described, has
from gpu.parts import PARTS, SIDES, measured
from gpu.tables import show

NO_MEMORY = "OutOfMemoryError"


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description="Measures homerl on one GPU; see the head of scripts/gpu_report.")
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all of them if left out")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_report.json"))
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)} within 9 minutes, without TRL's sides")
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU")
    parser.add_argument("--trace", action="store_true", help="keep each profiled update as a trace for ui.perfetto.dev")
    parser.add_argument("--only", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=SIDES, default="ours", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=argparse.SUPPRESS)
    asked, overrides = parser.parse_known_intermixed_args()
    folder = asked.out.absolute().parent / f"{asked.out.stem}_files"
    trace = folder / f"{result_of(asked.only, asked.side)}.trace.json.gz" if asked.only and asked.trace else None
    machine = Machine(folder, asked.tiny, asked.seconds, trace, tuple(overrides))
    machine.folder.mkdir(parents=True, exist_ok=True)
    if asked.only:
        machine.keep(result_of(asked.only, asked.side), measured(PARTS[asked.only], asked.side, machine))
        return
    if unknown := set(asked.parts) - set(QUICK if asked.quick else PARTS):
        sys.exit(f"homerl: {', '.join(unknown)} is no part of this report: {', '.join(QUICK if asked.quick else PARTS)}")
    report = begun(asked.out, described(machine))
    every = QUICK if asked.quick else [name for name, part in PARTS.items() if part.needs is None or has(part.needs)]
    for part, side in in_order(asked.parts or every, asked.quick):
        if side == "ours":
            report[part] = run_side(part, side, asked, machine)
        else:
            report[part] |= beside(part, report[part], asked, machine)
        asked.out.write_text(json.dumps(report, indent=1) + "\n")
        show(part, report[part])


def in_order(parts: Iterable[str], quick: bool) -> list[tuple[str, str]]:
    """The parts with their sides: homerl's trainers, then TRL's unless it is `quick`, then what has one side."""
    trained = [part for part in parts if PARTS[part].trl]
    others = [(part, "ours") for part in parts if not PARTS[part].trl]
    return [*((part, "ours") for part in trained), *((part, "trl") for part in trained if not quick), *others]


def begun(out: Path, about: dict[str, Any]) -> dict[str, Any]:
    """The report so far, if it is of the same device, commit and packages: parts can be measured one by one."""
    before = json.loads(out.read_text()) if out.exists() else {}
    same = all(before.get(key) == about.get(key) for key in ("device", "commit", "packages", "overrides"))
    return (before if same else {}) | about


def result_of(part: str, side: str) -> str:
    """The name under which a side's figures are kept."""
    return part if side == "ours" else f"{part}.{side}"


def beside(part: str, figures: dict[str, Any], asked: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    """The figures of TRL's side, and the ratio.

    TRL runs without checkpointing first, which is its faster setting, and with it if that takes too much memory.
    """
    trl = run_side(part, "trl", asked, machine)
    if NO_MEMORY in trl.get("failed", ""):
        trl = run_side(part, "trl_checkpointing", asked, machine)
    ratio = PARTS[part].ratio
    assert ratio is not None
    return {"trl": trl, "ratio": None if "failed" in figures or "failed" in trl else ratio(figures, trl)}


def run_side(part: str, side: str, asked: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    """Run one side in processes of its own, within its seconds. The figures, as far as they were written.

    `failed` says why it failed, and `cut` why it has fewer updates than it should.
    """
    name, seconds = result_of(part, side), QUICK[part] if asked.quick and not asked.tiny else SECONDS
    result, log = machine.folder / f"{name}.json", machine.folder / f"{name}.log"
    result.unlink(missing_ok=True)
    command = [sys.executable, str(ROOT / "scripts/gpu_report"), "--only", part, "--side", side, "--out", str(asked.out)]
    command += ["--seconds", str(seconds), *(f"--{name}" for name in ("tiny", "trace") if getattr(asked, name))]
    command += machine.overrides
    with log.open("w") as words, subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True) as child:
        try:
            ended = f"exit status {status}" if (status := child.wait(seconds)) else None
        except subprocess.TimeoutExpired:
            ended = f"its {seconds:.0f} s were over"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # with all that it started: they hold the GPU's memory
    figures = json.loads(result.read_text()) if result.exists() else {}
    if ended and figures.get("updates"):
        return figures | {"cut": f"{ended}: {log.read_text(errors='replace')[-2000:]}"}
    return figures | ({"failed": f"{ended}: {log.read_text(errors='replace')[-2000:]}"} if ended else {})
