"""Engines whose weights TRL sends: their sync is TRL's, made visible and kept from samples that are under way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from peft import PeftModel

from homerl.agents.policy import Sample
from homerl.train.parallel import gathered
from homerl.train.phases import Phases

ADAPTED = ".base_layer.weight"  # how peft names a weight that an adapter is on


class Gate:
    """Samples come and go while it is open; `closed` waits for those under way and keeps others out."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._under_way, self._closed = 0, False

    async def enter(self) -> None:
        while not self._try():
            await asyncio.sleep(0.01)

    def leave(self) -> None:
        with self._state:
            self._under_way -= 1
            self._state.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        with self._state:
            self._closed = True
            self._state.wait_for(lambda: not self._under_way)
        try:
            yield
        finally:
            with self._state:
                self._closed = False

    def _try(self) -> bool:
        with self._state:
            self._under_way += not self._closed
            return not self._closed


def merged_weights(policy: PeftModel) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights that an adapted model has, by the base model's names; all ranks ask together.

    TRL would merge the adapter into the base in place and take it out again, which half precision does not undo: the base,
    and with it the KL reference and what a checkpoint's adapter is to be added to, would wander with every update.
    """
    base = policy.get_base_model()
    for name, weight in base.named_parameters():
        if policy.prefix in name:
            continue
        layer = base.get_submodule(name.removesuffix(ADAPTED)) if name.endswith(ADAPTED) else None
        with torch.no_grad(), gathered([*layer.parameters()] if layer else [weight]):
            whole = weight.data
            if layer is not None:
                whole = (whole.float() + layer.get_delta_weight(policy.active_adapter).float()).to(whole.dtype)
            yield name.replace(".base_layer", ""), whole


class Synced:
    """`attach` puts itself between TRL and its `sync_weights`, which TRL calls before an update's episodes; `sync` sends
    what TRL has not, the weights after the last update. Before the first, a server may have any: version -1."""

    def __init__(self, tokenizer: Any, max_tokens: int, temperature: float) -> None:
        self.tokenizer, self.max_tokens, self.temperature = tokenizer, max_tokens, temperature
        self.version, self.gate = -1, Gate()

    def attach(self, trainer: Any, phases: Phases) -> None:
        self.trainer, self.phases, self.generation = trainer, phases, trainer.vllm_generation
        if isinstance(self.generation.model, PeftModel):
            self.generation._iter_named_params = lambda: merged_weights(self.generation.model)
        send = self.generation.sync_weights

        def sync_weights() -> None:
            with phases.phase("sync"), self.gate.closed():
                self._send(send)
                self.version = trainer.state.global_step

        self.generation.sync_weights = sync_weights

    def sync(self, version: int) -> None:
        if self.version != version:
            self.generation.sync_weights()

    def _send(self, send: Callable[[], None]) -> None:
        send()

    def awake(self) -> Any:
        """Around all sampling."""
        return nullcontext()

    async def sample(self, prompt: Any) -> Sample:
        await self.gate.enter()
        try:
            return await self._sample(prompt)
        finally:
            self.gate.leave()

    async def _sample(self, prompt: Any) -> Sample:
        raise NotImplementedError
