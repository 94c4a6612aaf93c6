"""What every recipe says, whatever it runs.

Invariants: unknown keys are refused; a recipe that loads says everything a run needs, seeds included; nothing here
imports torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from envs.model import Model

Parallel = Literal["none", "ddp", "zero2", "zero3", "fsdp2"]


class WandbSettings(Model):
    """Where runs are monitored. `offline` writes beside the run; `wandb sync` uploads it later."""

    mode: Literal["online", "offline", "disabled"] = "online"
    project: str = "homerl"
    entity: str | None = None
    transcripts: bool = Field(True, description="log dialogues; turn off where they may hold personal text")


class Base(Model):
    """What every recipe says."""

    homerl: Literal[1]
    seed: int = 0
    out: Path = Path("runs/run")
    parallel: Parallel = "ddp"
    processes: int | None = Field(None, description="processes that `flywheel` starts a stage with; workers of `synth`")
    cpu: bool = False
    wandb: WandbSettings = WandbSettings()
    report_to: tuple[Literal["wandb", "trackio", "tensorboard"], ...] = ("wandb",)
