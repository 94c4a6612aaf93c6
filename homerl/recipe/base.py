"""The keys of every recipe, whatever it runs.

Invariants: unknown keys are refused; a recipe that loads has everything that a run needs, seeds included; nothing here
imports torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from envs.model import Model
from homerl.recipe.machine import CPU

Parallel = Literal["none", "ddp", "zero2", "zero3", "fsdp2"]


class WandbSettings(Model):
    """Monitoring with Weights & Biases."""

    mode: Literal["online", "offline", "disabled"] = Field(
        "online",
        description="Where metrics go: `online` to the server, `offline` to a folder beside the run (`wandb sync` uploads "
        "it later), `disabled` nowhere.",
    )
    project: str = Field("homerl", description="Project of Weights & Biases (and of trackio) that the run belongs to.")
    entity: str | None = Field(None, description="User or team that owns the project; null is the default of the account.")
    transcripts: bool = Field(
        True, description="Whether dialogues are logged; turn it off where they may hold personal text."
    )


class Base(Model):
    """What every recipe says."""

    homerl: Literal[1] = Field(description="Version of the recipe format; this line makes the file a program.")
    seed: int = Field(
        0, description="Seed of initial weights, of the order of data and of sampling; blueprints have their own."
    )
    out: Path = Field(Path("runs/run"), description="Folder of the run; the same command resumes from what is in it.")
    parallel: Parallel = Field(
        "ddp",
        description="How training is spread over processes: `ddp` keeps a whole copy in each, `zero2`, `zero3` (DeepSpeed) "
        "and `fsdp2` (PyTorch) keep shards, `none` expects one process.",
    )
    processes: int | None = Field(
        None,
        ge=0,
        description="Number of processes that `flywheel` starts for each stage of training, or of workers of `synth`; null "
        "is one a GPU (with `cpu`: one) in training, one a core in `synth`.",
    )
    cpu: Annotated[bool, *CPU] = Field(
        False, description="Whether models run on the CPU, even where there is a GPU; `auto` does so where there is none."
    )
    wandb: WandbSettings = Field(WandbSettings(), description="Monitoring with Weights & Biases.")
    report_to: tuple[Literal["wandb", "trackio", "tensorboard"], ...] = Field(
        ("wandb",), description="Where metrics go besides `metrics.jsonl`, which is always written."
    )
