"""Base of engines whose weights TRL sends. It keeps a sync apart from running samples."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from homerl.envs.core.documents import InputError
from homerl.models.policy.policy_agent import Sample
from homerl.train.engines.contract import EngineKind, EngineRecipe, PolicyTrainer, Refusal
from homerl.train.model_sources import resolve_complete_model
from homerl.train.watch.phase_deadlines import PhaseTimer
from homerl.train.workarounds import add_vllm_options

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer
    from torch.nn import Module, Parameter
    from transformers import PreTrainedModel
    from transformers import PreTrainedTokenizerBase as Tokenizer
    from trl.generation.vllm_generation import VLLMGeneration


class WeightLock:
    """A lock of the sampler's weights: samples share it, and a sync of the weights holds it alone."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._under_way, self._closed = 0, False

    async def begin_sample(self) -> None:
        """Begin a sample; wait while a sync holds the lock."""
        while True:
            with self._state:
                if not self._closed:
                    self._under_way += 1
                    return
            await asyncio.sleep(0.01)  # the lock is the sync's, which runs in another thread; the event loop must not block

    def end_sample(self) -> None:
        """End a sample."""
        with self._state:
            self._under_way -= 1
            self._state.notify_all()

    @contextmanager
    def hold_exclusively(self) -> Iterator[None]:
        """Wait for running samples, and keep new ones out within the context."""
        with self._state:
            self._closed = True
            self._state.wait_for(lambda: not self._under_way)
        try:
            yield
        finally:
            with self._state:
                self._closed = False


@dataclass
class PrefixHits:
    """Counts prompt tokens, and those of them that vLLM had in its cache."""

    hits: float = 0
    asked: float = 0

    def count_prompt(self, hits: float | None, asked: float) -> None:
        """Count a prompt; `hits` is None if vLLM does not tell."""
        if hits is not None:
            self.hits, self.asked = self.hits + hits, self.asked + asked

    def take_hit_rate(self) -> dict[str, float]:
        """The share as a metric, empty if nothing was counted; then start again from zero."""
        share = {"policy/prefix_hits": self.hits / self.asked} if self.asked else {}
        self.hits = self.asked = 0
        return share


def find_adapted_weights(model: Module) -> dict[int, LoraLayer]:
    """The layers of a model's adapter, each by the `id` of the weight that it adapts.

    peft wraps a linear layer, and a module whose weights are no layers once for each of these: the experts of a mixture.
    """
    from peft.tuners.lora import LoraLayer, ParamWrapper

    layers = [part for part in model.modules() if isinstance(part, LoraLayer)]
    return {
        id(part.get_param() if isinstance(part, ParamWrapper) else part.get_base_layer().weight): part for part in layers
    }


def list_own_weights(layer: LoraLayer) -> list[Parameter]:
    """The weights of a layer of an adapter, without those of what it wraps."""
    return [weight for name, weight in layer.named_parameters() if "base_layer" not in name]


def merge_adapter_weights(policy: PeftModel) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the weights of a model with its adapter merged, by the base model's names. All ranks must iterate together.

    The base stays unchanged to the bit. Raises `InputError` for an adapter that is no part of a merged weight.
    """
    import torch

    from homerl.train.parallel.sharding import gather_weights

    base = policy.get_base_model()
    adapted = find_adapted_weights(base)
    merged = {id(part) for layer in adapted.values() for part in list_own_weights(layer)}
    for name, weight in base.named_parameters():
        if policy.prefix in name:
            if id(weight) not in merged:
                raise InputError(f"the adapter of {name} cannot be merged", "model.lora.target_modules", "leave it out")
            continue
        layer = adapted.get(id(weight))
        with torch.no_grad(), gather_weights([weight, *(list_own_weights(layer) if layer else ())]):
            whole = weight.data
            if layer is not None:
                # W + ΔW in float32, rounded once; in half precision the sum would be rounded at each step
                whole = (whole.float() + layer.get_delta_weight(policy.active_adapter).float()).to(whole.dtype)
            yield name.replace(".base_layer", ""), whole


def name_as_saved(model: PreTrainedModel, named: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield weights by the names, and in the shapes, of the model's files, which any server of the model reads.

    transformers keeps all experts of a layer in one weight (`experts.gate_up_proj`), while files have one for each expert;
    a server may skip a name that it does not know. A weight that is one of several which files keep as one waits for the
    others, as a copy.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import (
        PrefixChange,
        WeightConverter,
        WeightRenaming,
        rename_source_key,
        revert_weight_conversion,
    )

    loaded = getattr(model, "_weight_conversions", None)
    if loaded is None:  # it was made here, and not read from files
        made = get_model_conversion_mapping(model, add_legacy=False)
        loaded = [one for one in made if not isinstance(one, PrefixChange)]
    if not loaded:
        yield from named
        return
    backwards = [one.reverse_transform() for one in loaded[::-1]]
    renamings = [one for one in backwards if isinstance(one, WeightRenaming)]
    converters = [one for one in backwards if isinstance(one, WeightConverter)]
    parts_of = {pattern: len(one.source_patterns) for one in converters for pattern in one.source_patterns}
    held: dict[str, dict[str, torch.Tensor]] = {}
    for name, weight in named:
        saved, pattern = rename_source_key(name, renamings, converters, reverse=True)
        parts = held.setdefault(saved, {})
        parts[name] = weight
        if len(parts) < parts_of.get(pattern, 1):
            parts[name] = weight.clone()
            continue
        yield from revert_weight_conversion(model, held.pop(saved)).items()
    for parts in held.values():
        yield from revert_weight_conversion(model, parts).items()


def make_vllm_generation(
    trainer: PolicyTrainer, vllm: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> VLLMGeneration:
    """TRL's `VLLMGeneration`, which sends the weights to vLLM, and beside the trainer makes it, with the options `vllm` too.

    TRL merges an adapter in place and takes it out again. In half precision the base would drift with every update, and
    with it the KL reference, so copies are merged here. To a server, copies of all weights are sent: vLLM packs several
    into one buffer, and by then ZeRO-3 has freed the originals. vLLM reads its first weights from a folder of a complete
    model, which that of an adapter is not; the first sync replaces them.
    """
    from peft import PeftModel
    from trl.generation.vllm_generation import VLLMGeneration

    class Generation(VLLMGeneration):
        unsent: Iterator[tuple[str, torch.Tensor]] = iter(())

        def _init_vllm(self) -> None:
            try:
                super()._init_vllm()
            except OSError:
                self.accelerator.wait_for_everyone()  # as the other ranks do there
                raise

        def _iter_named_params(self) -> Iterator[tuple[str, torch.Tensor]]:
            named = merge_adapter_weights(self.model) if isinstance(self.model, PeftModel) else super()._iter_named_params()
            files = name_as_saved(inner, named)
            self.unsent = ((name, weight.clone() if self.mode == "server" else weight) for name, weight in files)
            return self.unsent

        def sync_weights(self) -> None:
            try:
                super().sync_weights()
            finally:
                deque(self.unsent, maxlen=0)  # what a server did not take: the other ranks gather it all the same

    model: Any = trainer.model
    inner = model.get_base_model() if isinstance(model, PeftModel) else model
    source, inner.name_or_path = inner.name_or_path, resolve_complete_model(inner.name_or_path)
    try:
        with add_vllm_options(vllm):
            return Generation(model, trainer.accelerator, trainer.processing_class, **options)
    finally:
        inner.name_or_path = source


# no cut-offs, in vLLM's names
UNCUT: Mapping[str, Any] = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}


class SyncedEngine:
    """Samples from a vLLM that TRL sends the weights to. `transfer` are options of its `VLLMGeneration`, `vllm` others of
    vLLM.

    `version` is -1 before the first sync, since a server may have any weights then.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        temperature: float,
        transfer: Mapping[str, Any],
        vllm: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.tokenizer, self.max_tokens, self.temperature, self.vllm = tokenizer, max_tokens, temperature, vllm
        self.version, self.lock, self.transfer = -1, WeightLock(), transfer
        self.generation: Any = None  # TRL's `VLLMGeneration`, once attached

    def attach(self, trainer: PolicyTrainer, phases: PhaseTimer) -> None:
        """Receive what is trained, and connect with vLLM or start it."""
        self.trainer, self.phases = trainer, phases
        self.generation = make_vllm_generation(trainer, vllm=self.vllm, **self.transfer)

    def sync(self, version: int) -> None:
        """Send the weights, and name them by their version."""
        with self.lock.hold_exclusively():  # no sample runs meanwhile
            self.generation.sync_weights()
            self.version = version

    def awake(self) -> AbstractContextManager[object]:
        """The context of all sampling."""
        return nullcontext()

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample one continuation while no sync runs."""
        await self.lock.begin_sample()
        try:
            return await self._sample(prompt)
        finally:
            self.lock.end_sample()

    async def _sample(self, prompt: Sequence[int]) -> Sample:
        """To override: one continuation of a prompt of token ids."""
        raise NotImplementedError


class SyncedEngineKind(EngineKind):
    """The base of the vLLM engines' contracts."""

    packages = {"vllm": "pip install 'homerl[gpu]'"}

    def refuse(self, recipe: EngineRecipe, parallel: str) -> Iterable[Refusal]:
        """Refuse a CPU, and adapters that FSDP2 shards."""
        if recipe.cpu:
            what = f"engine {self.name} takes weights from a GPU, and the recipe says `cpu: true`"
            yield what, "rlve.engine", "use `transformers`"
        if parallel == "fsdp2" and recipe.model.lora:
            yield (
                f"an adapter that fsdp2 shards cannot be merged for engine {self.name}",
                "model.lora",
                "adapters fit without shards: use `parallel: ddp`, or `zero2`",
            )
