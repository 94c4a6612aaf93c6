"""Engines whose weights TRL sends: their sync is TRL's, made visible and kept from samples that are under way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from homerl.agents.policy import Sample
from homerl.train.engines.contract import EngineKind, Refusal
from homerl.train.phases import Phases
from homerl.workarounds import adapter_merge

if TYPE_CHECKING:
    import torch
    from peft import PeftModel

ADAPTED = ".base_layer.weight"  # how peft names a weight that an adapter is on


class WeightLock:
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
    def exclusive(self) -> Iterator[None]:
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

    The base stays as it is, to the bit (`workarounds/adapter_merge.py`).
    """
    import torch

    from homerl.train.parallel import gathered

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
        self.version, self.lock = -1, WeightLock()

    def attach(self, trainer: Any, phases: Phases) -> None:
        self.trainer, self.phases, self.generation = trainer, phases, trainer.vllm_generation
        adapter_merge.apply(self.generation, merged_weights)
        send = self.generation.sync_weights

        def sync_weights() -> None:
            with phases.phase("sync"), self.lock.exclusive():
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
        await self.lock.enter()
        try:
            return await self._sample(prompt)
        finally:
            self.lock.leave()

    async def _sample(self, prompt: Any) -> Sample:
        raise NotImplementedError


class SyncedKind(EngineKind):
    """What the engines on vLLM have in common."""

    packages = {"vllm": "pip install 'homerl[gpu]'"}

    def arguments(self, settings: Any) -> Mapping[str, Any]:
        return {"use_vllm": True, "vllm_max_model_length": settings.max_episode_tokens + settings.max_tokens}

    def refuse(self, recipe: Any, parallel: str) -> Iterable[Refusal]:
        if recipe.cpu:
            what = f"engine {self.name} takes weights from a GPU, and the recipe says `cpu: true`"
            yield what, "rlve.engine", "use `transformers`"
        if parallel == "fsdp2" and recipe.model.lora:
            yield (
                f"an adapter that fsdp2 shards cannot be merged for engine {self.name}", "model.lora",
                "adapters fit without shards: use `parallel: ddp`, or `zero2`",
            )  # fmt: skip
