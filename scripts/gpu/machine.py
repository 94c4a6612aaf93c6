"""Where a part works, and what it works on: the folder, the device, the date, the commit and the versions of packages."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
STARTED = time.monotonic()
SECONDS = 570  # time limit of one process of a part
QUICK = {"sft_8b_lora": 140, "rlve_8b_lora": 240, "sft_4b": 90}  # those of --quick: with 30 s for checks, in 8.5 minutes
PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "liger-kernel", "vllm")
T = TypeVar("T")


@dataclass(frozen=True)
class Machine:
    """The folder in which a part works, whether it uses tiny models on the CPU, and after how many seconds it is ended.

    `trace` is the file for the profiled update, if it is kept. `overrides` are of the recipes' keys, as on a command line.
    """

    folder: Path
    tiny: bool = False
    seconds: float = SECONDS
    trace: Path | None = None
    overrides: tuple[str, ...] = ()

    @property
    def device(self) -> str:
        """The name of the device, as torch has it."""
        return "cpu" if self.tiny else "cuda"

    def pick(self, full: T, tiny: T) -> T:
        """`tiny` for tiny models, else `full`."""
        return tiny if self.tiny else full

    def peak_gb(self) -> float | None:
        """Most GB that torch has allocated since the last reset."""
        import torch

        return None if self.tiny else torch.cuda.max_memory_allocated() / 1e9

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""
        import torch

        if not self.tiny:
            torch.cuda.reset_peak_memory_stats()

    def wait(self) -> None:
        """Wait for the device's work."""
        import torch

        if not self.tiny:
            torch.cuda.synchronize()

    def profiler(self) -> Any:
        """A profiler of the host and of the device, with the shapes of what operators get."""
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU, *([] if self.tiny else [ProfilerActivity.CUDA])]
        return profile(activities=activities, record_shapes=True)

    def flops(self) -> float | None:
        """The operations a second that the device is rated for; None if it is not known."""
        import torch

        from homerl.train.watch.throughput import rated_operations

        name = "" if self.tiny else torch.cuda.get_device_name()
        return rated_operations(name)

    def shape(self, name: str) -> Any:
        """The sizes of a model, by the name of the model that has them."""
        from homerl.train.model_settings import KNOWN, DecoderSizes

        return self.pick(KNOWN[name], DecoderSizes(64, 2, 2, 2, 128, 32, vocab=12_000, tied=KNOWN[name].tied))

    def keep(self, name: str, figures: Any) -> None:
        """Write figures to `<name>.json` in the folder, completely or not at all."""
        from homerl.envs.core.documents import write_atomic

        write_atomic(self.folder / f"{name}.json", json.dumps(figures))

    def seconds_left(self) -> float:
        """Seconds until this process is ended."""
        return self.seconds - (time.monotonic() - STARTED)


def described(machine: Machine) -> dict[str, Any]:
    """The device, its cores, the date, the commit and the versions of packages. Exits if there is no GPU and `tiny` is not
    set.
    """
    import torch

    if not (machine.tiny or torch.cuda.is_available()):
        sys.exit("homerl: no GPU is visible to torch: this report is of one (--tiny tries its parts on a CPU)")
    device = "cpu, tiny models" if machine.tiny else torch.cuda.get_device_name()
    packages = {name: found for name in PACKAGES if (found := installed(name))}
    date = time.strftime("%Y-%m-%d")
    about = {"device": device, "cores": os.cpu_count(), "date": date, "commit": commit(), "packages": packages}
    return about | ({"overrides": list(machine.overrides)} if machine.overrides else {})


def installed(package: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The commit that is measured, with `+` if files differ from it. Outside of git it is what HOMERL_COMMIT says."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True)
    except OSError:  # no git
        return os.environ.get("HOMERL_COMMIT", "unknown")
    if head.returncode:
        return os.environ.get("HOMERL_COMMIT", "unknown")
    return head.stdout.strip() + ("+" if changed.returncode else "")


def has(module: str) -> bool:
    """Whether a module is installed."""
    return importlib.util.find_spec(module) is not None
