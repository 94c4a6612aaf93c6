"""Base of engines whose weights TRL sends. It reports TRL's sync as a phase, and keeps it apart from running samples."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from homerl.agents.policy import Sample
from homerl.train.engines.contract import EngineKind, Refusal
from homerl.train.phases import Phases
from homerl.workarounds import adapter_merge

if TYPE_CHECKING:
    import torch
    from peft import PeftModel

ADAPTED = ".base_layer.weight"  # how peft names a weight with an adapter


class WeightLock:
    """A lock of the sampler's weights: samples share it, and a sync of the weights holds it alone."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._under_way, self._closed = 0, False

    async def enter(self) -> None:
        """Begin a sample; wait while a sync holds the lock."""
        while not self._try():
            await asyncio.sleep(0.01)

    def leave(self) -> None:
        """End a sample."""
        with self._state:
            self._under_way -= 1
            self._state.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for running samples, and keep new ones out within the context."""
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


@dataclass
class PrefixHits:
    """Counts prompt tokens, and those of them that vLLM had in its cache."""

    hits: float = 0
    asked: float = 0

    def add(self, hits: float | None, asked: float) -> None:
        """Count a prompt; `hits` is None if vLLM does not tell."""
        if hits is not None:
            self.hits, self.asked = self.hits + hits, self.asked + asked

    def take(self) -> dict[str, float]:
        """The share as a metric, empty if nothing was counted; then start again from zero."""
        share = {"policy/prefix_hits": self.hits / self.asked} if self.asked else {}
        self.hits = self.asked = 0
        return share


def merged_weights(policy: PeftModel) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the weights of a model with its adapter merged, by the base model's names. All ranks must iterate together.

    The base stays unchanged to the bit (`workarounds/adapter_merge.py`).
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
    """Wraps TRL's `sync_weights`, which TRL calls before the episodes of an update.

    `sync` calls it if TRL has not done so for that version, as after the last update. `version` is -1 before the first
    sync, since a server may have any weights then.
    """

    def __init__(self, tokenizer: Any, max_tokens: int, temperature: float) -> None:
        self.tokenizer, self.max_tokens, self.temperature = tokenizer, max_tokens, temperature
        self.version, self.lock = -1, WeightLock()

    def attach(self, trainer: Any, phases: Phases) -> None:
        """Receive the trainer, and wrap its `sync_weights`."""
        self.trainer, self.phases, self.generation = trainer, phases, trainer.vllm_generation
        adapter_merge.apply(self.generation, merged_weights)
        send = self.generation.sync_weights

        def sync_weights() -> None:
            with phases.phase("sync"), self._without_samples():
                self._send(send)
                self.version = trainer.state.global_step

        self.generation.sync_weights = sync_weights

    def sync(self, version: int) -> None:
        """Send the weights, unless the sampler has this version."""
        if self.version != version:
            self.generation.sync_weights()

    def _without_samples(self) -> AbstractContextManager[None]:
        """The context in which weights are sent: no sample runs in it."""
        return self.lock.exclusive()

    def _send(self, send: Callable[[], None]) -> None:
        send()

    def awake(self) -> Any:
        """The context of all sampling."""
        return nullcontext()

    async def sample(self, prompt: Any) -> Sample:
        """Sample one continuation while no sync runs."""
        await self.lock.enter()
        try:
            return await self._sample(prompt)
        finally:
            self.lock.leave()

    async def _sample(self, prompt: Any) -> Sample:
        raise NotImplementedError


class SyncedKind(EngineKind):
    """The base of the vLLM engines' contracts."""

    packages = {"vllm": "pip install 'homerl[gpu]'"}

    def arguments(self, settings: Any) -> Mapping[str, Any]:
        """TRL's arguments for vLLM."""
        return {"use_vllm": True, "vllm_max_model_length": settings.max_episode_tokens + settings.max_tokens}

    def refuse(self, recipe: Any, parallel: str) -> Iterable[Refusal]:
        """Refuse a CPU, and adapters that FSDP2 shards."""
        if recipe.cpu:
            what = f"engine {self.name} takes weights from a GPU, and the recipe says `cpu: true`"
            yield what, "rlve.engine", "use `transformers`"
        if parallel == "fsdp2" and recipe.model.lora:
            yield (
                f"an adapter that fsdp2 shards cannot be merged for engine {self.name}", "model.lora",
                "adapters fit without shards: use `parallel: ddp`, or `zero2`",
            )  # fmt: skip
