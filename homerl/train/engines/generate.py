"""transformers' `generate`, with the trainer's own weights or with a copy of them."""

from __future__ import annotations

import copy
import threading
from contextlib import nullcontext
from typing import Any

from homerl.agents.policy import Sample, TransformersEngine
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
    """Samples from a copy, which a `sync` renews between two samples, while the trainer works on its own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lock = threading.Lock()

    def sync(self, version: int) -> None:
        source = self.trainer.accelerator.unwrap_model(self.trainer.model_wrapped)
        with self._lock:
            if self.model is None:
                self.model = copy.deepcopy(source).eval().requires_grad_(False)
            else:
                self.model.load_state_dict(source.state_dict())
            self.version = version

    def _generate(self, prompts: list) -> list[Sample]:
        with self._lock:
            return super()._generate(prompts)
