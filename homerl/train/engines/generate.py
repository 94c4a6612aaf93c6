"""transformers' `generate`, with the trainer's own weights or with a whole copy of them."""

from __future__ import annotations

import copy
import threading
from contextlib import nullcontext
from typing import Any

import torch

from homerl.agents.policy import Sample, TransformersEngine
from homerl.train.parallel import whole_weights
from homerl.train.phases import Phases


class InPlace(TransformersEngine):
    """Samples from the very model in training: on-policy exactly."""

    def __init__(self, tokenizer: Any, max_tokens: int, temperature: float, batch: int) -> None:
        super().__init__(None, tokenizer, max_tokens, temperature, batch)

    def attach(self, trainer: Any, phases: Phases) -> None:
        self.trainer = trainer

    def sync(self, version: int) -> None:
        self.model, self.version = self.trainer.accelerator.unwrap_model(self.trainer.model_wrapped), version

    def awake(self) -> Any:
        return nullcontext()


class Snapshot(InPlace):
    """Samples from a copy, which a `sync` renews between two samples: while the trainer works on its own weights, or
    where those are in shards."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lock = threading.Lock()

    def attach(self, trainer: Any, phases: Phases) -> None:
        super().attach(trainer, phases)
        policy = trainer.accelerator.unwrap_model(trainer.model)  # whole still: shards are made when training begins
        self.model = copy.deepcopy(policy).eval().requires_grad_(False).to(trainer.accelerator.device)
        for module in self.model.modules():  # TRL's own `forward` runs the model that it was made for, and no copy
            vars(module).pop("forward", None)

    def sync(self, version: int) -> None:
        with self._lock, torch.no_grad():
            own = self.model.state_dict()
            for name, weight in whole_weights(self.trainer, frozen=False):
                own[name].copy_(weight)
            self.version = version

    def _generate(self, prompts: list) -> list[Sample]:
        with self._lock:
            return super()._generate(prompts)
