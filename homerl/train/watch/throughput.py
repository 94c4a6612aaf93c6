"""How fast a training is: tokens and samples a second, and on a GPU the peak memory and MFU.

Invariants: only what was measured is told. On a CPU, on a GPU whose rated speed is not known, and for a mixture of experts
there is no MFU. Tokens are those of all processes, memory is that of the first one's GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from homerl.train.model_settings import list_expert_weights

RATED = {"H200": 989e12, "H100": 989e12, "A100": 312e12}  # dense bf16 operations a second, by a part of the GPU's name
PEAK = "perf/peak_memory_gb"


def rated_operations(device: str) -> float | None:
    """The operations a second that a GPU of this name is rated for; None if it is not known."""
    return next((value for known, value in RATED.items() if known in device), None)


def count_operations_per_token(model: PreTrainedModel | PeftModel) -> float | None:
    """Operations that an update needs for each token: forward, and backward through all weights to those that are trained.

    Attention's own products, which grow with the length, are not counted. None for a mixture of experts.
    """
    if list_expert_weights(model):
        return None
    looked_up = model.get_input_embeddings().weight  # not multiplied, unless it is the head too
    tied = looked_up is getattr(model.get_output_embeddings(), "weight", None)
    multiplied = [weight for weight in model.parameters() if tied or weight is not looked_up]
    trained = sum(int(weight.numel()) for weight in multiplied if weight.requires_grad)
    return 4.0 * sum(int(weight.numel()) for weight in multiplied) + 2.0 * trained


class ThroughputMeter(TrainerCallback):
    """Measures between one line of metrics and the next. `samples` are those of one of the trainer's steps."""

    def __init__(
        self, model: PreTrainedModel | PeftModel, samples: float, processes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.samples, self.processes, self.clock = samples, processes, clock
        self.operations = count_operations_per_token(model)
        self.since, self.step, self.tokens = clock(), 0, 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Begin to measure; a run that goes on has tokens and steps from before."""
        self._begin(state)

    def measure(self, state: TrainerState, device: torch.device, training: float = 1.0) -> dict[str, float]:
        """The figures since the last call. `training` is the share of the time in which weights were trained."""
        seconds = self.clock() - self.since
        tokens, steps = state.num_input_tokens_seen - self.tokens, state.global_step - self.step
        self._begin(state)
        if seconds <= 0 or steps <= 0:
            return {}
        found = {"perf/tokens_per_second": tokens / seconds, "perf/samples_per_second": self.samples * steps / seconds}
        if device.type == "cuda":
            found[PEAK] = torch.cuda.max_memory_allocated(device) / 1e9
            rated = rated_operations(torch.cuda.get_device_name(device))
            if rated and self.operations and training > 0:
                found["perf/mfu"] = self.operations * tokens / (seconds * training * self.processes * rated)
        return found

    def _begin(self, state: TrainerState) -> None:
        self.since, self.step, self.tokens = self.clock(), state.global_step, state.num_input_tokens_seen
