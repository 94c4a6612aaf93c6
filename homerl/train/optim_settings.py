"""What recipes of SFT and RLVE say of the optimizer, of an update's passes and of checkpoints.

Invariant: nothing here imports torch, and nothing plug-ins.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.train.model_settings import AUTO

Floored = Literal["cosine_with_min_lr", "cosine_warmup_with_min_lr"]
Schedule = Literal[  # transformers' schedules that need no other settings
    "linear", "cosine", "cosine_with_restarts", "constant", "constant_with_warmup", "inverse_sqrt", Floored
]


class OptimSettings(Model):
    """What both trainers share. Names are Hugging Face's."""

    learning_rate: float = Field(gt=0, description="Peak learning rate of AdamW.")
    lr_scheduler: Schedule = Field("cosine", description="Schedule, as transformers names it.")
    min_lr: float | None = Field(None, ge=0, description="Last learning rate of `cosine_with_min_lr`.")
    warmup: float = Field(0.01, ge=0, lt=1, description="Share (0 to 1) of updates in which the learning rate rises.")
    tokens_per_step: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        AUTO,
        description="Most tokens of a pass; `auto` takes what the memory allows.",
    )
    weight_decay: float = Field(0.0, ge=0, description="Weight decay of the optimizer.")
    max_grad_norm: float = Field(1.0, ge=0, description="Norm above which gradients are clipped.")
    adam_beta2: float = Field(0.999, ge=0, lt=1, description="AdamW's second beta (0 to 1).")
    gradient_checkpointing: bool | Literal["auto"] = Field(
        AUTO,
        description="Whether activations are computed again in the backward pass; `auto` does it where a pass"
        " would not fit otherwise.",
    )
    save_steps: int | None = Field(
        100,
        ge=1,
        description="Updates between checkpoints; null writes none.",
    )
    keep_checkpoints: int = Field(2, ge=1, description="Newest checkpoints that are kept.")
    seconds: float | None = Field(
        None, gt=0, description="Seconds after which training stops with the model of then; null is never."
    )
    log_steps: int = Field(10, ge=1, description="Updates between lines of metrics.")

    @model_validator(mode="after")
    def _floor_has_its_schedule(self) -> OptimSettings:
        floored = self.lr_scheduler in get_args(Floored)
        if floored and self.min_lr is None:
            raise ValueError(f"`lr_scheduler: {self.lr_scheduler}` ends at `min_lr`: give both")
        if not floored and self.min_lr is not None:
            raise ValueError("`min_lr` is of `lr_scheduler: cosine_with_min_lr`: give both, or leave `min_lr` null")
        if self.min_lr is not None and self.min_lr > self.learning_rate:
            raise ValueError(f"`min_lr` {self.min_lr:g} is above `learning_rate` {self.learning_rate:g}: lower it")
        return self
