"""The keys that every recipe has, what `auto` means on this machine, and the variables that monitoring reads.

Invariants:
- Unknown keys are refused. A recipe that loads has everything that a run needs, seeds included, and never `auto`.
- Nothing here imports torch or a service. Weights & Biases reads its variables once, when it is first called.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from homerl.envs.core.model import Model

AUTO = "auto"
GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # where NVIDIA's, AMD's and Windows' drivers show them on Linux
BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")  # flags of processors that multiply this format; the last is Arm's


def has_gpu() -> bool:
    """Whether this machine has the driver of a GPU."""
    return any(Path(name).exists() for name in GPUS)


@cache
def has_bfloat16_cpu(known: str = "/proc/cpuinfo") -> bool:
    """Whether the processor multiplies bfloat16; not on systems that do not tell."""
    try:
        lines = Path(known).read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return any(flag in flags.split() for flag in BFLOAT16)


CPU = (
    BeforeValidator(lambda given: not has_gpu() if given == AUTO else given),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": AUTO}]}),
)
NUMBER_FORMAT = (
    BeforeValidator(
        lambda given: ("bfloat16" if has_gpu() or has_bfloat16_cpu() else "float32") if given == AUTO else given
    ),
    WithJsonSchema({"enum": ["auto", "float32", "bfloat16", "float16"], "type": "string"}),
)


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


def set_monitoring_variables(recipe: BaseRecipe) -> None:
    """Set the variables that W&B and TensorBoard read."""
    os.environ["WANDB_MODE"] = recipe.wandb.mode
    os.environ["WANDB_PROJECT"] = recipe.wandb.project
    os.environ["WANDB_DIR"] = str(recipe.out)
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(recipe.out / "tensorboard")
    if recipe.wandb.entity:
        os.environ["WANDB_ENTITY"] = recipe.wandb.entity
