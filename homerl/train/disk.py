"""The disk that the checkpoints and models of a training take, before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from homerl.train.optim_settings import OptimSettings
from homerl.train.sizes import GB

WRITTEN = ("checkpoints", "model", "best")  # folders of a run, which an interrupted one already has


@dataclass(frozen=True)
class DiskEstimate:
    """GB by part, and GB that are free for a run in folder `out`."""

    parts: Mapping[str, float]
    free: float
    out: Path

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {size:.1f}" for name, size in self.parts.items())
        total = sum(self.parts.values())
        said = f"{listed}; {total:.1f} GB of the {self.free:.1f} GB that are free for {self.out}"
        remedy = ", which is too little: lower keep_checkpoints, or choose another `out`"
        return said + (remedy if total > self.free else "")


def estimate_disk(out: Path, settings: OptimSettings, best: bool, model: float, states: float) -> DiskEstimate:
    """The disk of a training in folder `out`.

    `model` are the bytes of a saved model or adapter, and `states` those that a checkpoint has besides. A new checkpoint is
    complete before the oldest is deleted. `best` tells whether evaluations keep the best model.
    """
    checkpoints = settings.keep_checkpoints + 1 if settings.save_steps else 0
    kept = f"{checkpoints} checkpoints (one while it is written)"
    parts = {kept: checkpoints * (model + states), "the model": model, "the best model": best * model}
    return DiskEstimate({name: size / GB for name, size in parts.items() if size}, count_free_bytes(out) / GB, out)


def count_free_bytes(out: Path) -> int:
    """Bytes that are free for a run in folder `out`: what it has written itself is written over."""
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    own = (path for name in WRITTEN for path in (out / name).rglob("*"))
    return shutil.disk_usage(there).free + sum(path.stat().st_size for path in own if path.is_file())
