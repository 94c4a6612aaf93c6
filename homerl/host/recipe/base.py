"""The keys of every recipe, whatever it runs.

Invariants: unknown keys are refused; a recipe that loads has everything that a run needs, seeds included; nothing here
imports torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.host.recipe.machine import CPU

Parallel = Literal["none", "ddp", "zero2", "zero3", "fsdp2"]


class WandbSettings(Model):
    """Monitoring with Weights & Biases."""

    mode: Literal["online", "offline", "disabled"] = Field(
        "online",
        description="Where metrics go: `online` to the server, `offline` to a folder for `wandb sync`, `disabled` nowhere.",
    )
    project: str = Field("homerl", description="Project of Weights & Biases and of trackio.")
    entity: str | None = Field(None, description="Owner of the project; null is the account's default.")
    transcripts: bool = Field(True, description="Whether dialogues are logged, which may hold personal text.")


class BaseRecipe(Model):
    """What every recipe says."""

    if TYPE_CHECKING:
        run: Any  # each kind of run says its own

    homerl: Literal[1] = Field(description="Version of the format; it makes the file a program.")
    seed: int = Field(0, description="Seed of weights, data and sampling; blueprints have their own.")
    out: Path = Field(Path("runs/run"), description="Folder of the run, from which the same command resumes.")
    parallel: Parallel = Field(
        "ddp",
        description="How training is spread: `ddp` copies the model, `zero2`, `zero3` and `fsdp2` shard it, "
        "`none` expects one process.",
    )
    processes: int | None = Field(
        None,
        ge=0,
        description="Processes of a flywheel's stages, or workers of `synth`; null: one a GPU (with `cpu`: one), in "
        "`synth` one a core.",
    )
    cpu: Annotated[bool, *CPU] = Field(
        False, description="Whether models run on the CPU; `auto` does so where there is no GPU."
    )
    wandb: WandbSettings = Field(WandbSettings(), description="Monitoring with Weights & Biases.")
    report_to: tuple[Literal["wandb", "trackio", "tensorboard"], ...] = Field(
        ("wandb",), description="Where metrics go besides `metrics.jsonl`."
    )
