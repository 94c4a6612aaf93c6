"""vLLM in the trainer's process, on the trainer's GPU. TRL creates it and sends it the weights; this module feeds it.

The event loop steps its engine: each step samples one token of every running request. Episodes continue between two
steps. So a request starts as soon as its episode is ready, and none waits for another. vLLM caches prefixes unless it is
told otherwise, which TRL does not: a group's prompt is read once. With `sleep`, vLLM frees its
memory, weights included, after the episodes of each update; the next sync sends new weights.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.models.policy.policy_agent import Sample
from homerl.train.engines.contract import MemorySizes, MemoryUse, SamplerSettings
from homerl.train.engines.weight_sync import UNCUT, PrefixHits, SyncedEngine, SyncedEngineKind
from homerl.train.workarounds import wake_vllm

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer
    from vllm import SamplingParams

FULL = 0.9  # share of vLLM's memory above which weights leave no room for its cache


class VLLMKeys(Model):
    """The recipe keys of engine `vllm`."""

    gpu_memory: float = Field(0.35, gt=0, lt=1, description="Of `vllm`: share (0 to 1) of each GPU's memory.")
    sleep: bool = Field(True, description="Of `vllm`: whether it frees memory while the trainer works.")


class ColocatedVLLM(SyncedEngine):
    """Drives `LLM.llm_engine` by its methods `add_request` and `step`."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        temperature: float,
        sleep: bool,
        options: Mapping[str, Any] = MappingProxyType({}),
        vllm: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        transfer = {**options, "enable_sleep_mode": sleep, "mode": "colocate"}
        super().__init__(tokenizer, max_tokens, temperature, transfer, vllm)
        self.sleep, self.prefixes = sleep, PrefixHits()
        self._waiting: dict[str, asyncio.Future[Sample]] = {}
        self._names = map(str, itertools.count())
        self._driver: asyncio.Task[None] | None = None

    def awake(self) -> AbstractContextManager[object]:
        """Memory for the cache, and weights again if they were freed since the last sync."""
        return wake_vllm(self.generation) if self.sleep else super().awake()

    def metrics(self) -> Mapping[str, float]:
        """The share of prompt tokens that vLLM had in its cache, since the last call."""
        return self.prefixes.take_hit_rate()

    async def _sample(self, prompt: Sequence[int]) -> Sample:
        name = next(self._names)
        done: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._waiting[name] = done
        self.generation.llm.llm_engine.add_request(name, {"prompt_token_ids": list(prompt)}, self._parameters())
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive_engine())
        try:
            return await done
        except asyncio.CancelledError:  # nobody reads it any more
            if self._waiting.pop(name, None) is not None:
                self.generation.llm.llm_engine.abort_request([name])
            raise

    async def _drive_engine(self) -> None:
        """Step the engine while requests wait. An error is passed to all of them."""
        try:
            while self._waiting:
                for output in self.generation.llm.llm_engine.step():
                    if output.finished and (done := self._waiting.pop(output.request_id, None)):
                        self.prefixes.count_prompt(output.num_cached_tokens, len(output.prompt_token_ids or ()))
                        ids, positions = output.outputs[0].token_ids, output.outputs[0].logprobs
                        logprobs = (position[token].logprob for token, position in zip(ids, positions, strict=True))
                        if not done.done():  # else a program that is played has hung up
                            done.set_result(Sample(tuple(ids), tuple(logprobs), self.version))
                await asyncio.sleep(0)
        except Exception as error:
            waiting, self._waiting = self._waiting, {}
            for done in waiting.values():
                if not done.done():
                    done.set_exception(error)

    def _parameters(self) -> SamplingParams:
        from vllm import SamplingParams

        return SamplingParams(
            temperature=self.temperature,
            **UNCUT,
            max_tokens=self.max_tokens,
            logprobs=0,
            stop_token_ids=[self.tokenizer.eos_token_id],
            detokenize=False,
        )


class VLLMKind(SyncedEngineKind):
    """The engine `vllm`."""

    name, order, keys = "vllm", 1, VLLMKeys
    sentence = "vLLM in the trainer's process, on its GPU"

    def make(self, settings: SamplerSettings, tokenizer: Tokenizer, seed: int, in_shards: bool) -> ColocatedVLLM:
        """An engine that starts vLLM when it gets the trainer."""
        from homerl.train.recipe import world_size

        options = {
            "gpu_memory_utilization": settings.engine.gpu_memory,
            "max_model_length": settings.max_episode_tokens + settings.max_tokens,
            "max_num_seqs": settings.blueprints_per_update * settings.group // world_size(),
        }
        vllm = {"hf_overrides": {"head_dtype": "float32"}} if settings.head == "float32" else {}
        return ColocatedVLLM(tokenizer, settings.max_tokens, settings.temperature, settings.engine.sleep, options, vllm)

    def memory(self, settings: SamplerSettings, sizes: MemorySizes) -> MemoryUse:
        """Each GPU's vLLM holds the complete model, since it is not sharded there."""
        engine = settings.engine
        share, lacks = engine.gpu_memory * sizes.gpu, ""
        part = "vLLM (sleeps while the trainer works)" if engine.sleep else "vLLM"
        if sizes.weights >= FULL * share:
            lacks = f"vLLM's {share:.1f} GB (rlve.engine.gpu_memory) hold no model of {sizes.weights:.1f} GB with its cache"
            lacks += ": raise it, take a smaller model, or sample on other GPUs (rlve.engine.kind: server)"
        too_small = part if lacks else None
        if engine.sleep:
            return MemoryUse(sampling={part: share}, lacks=lacks, too_small=too_small)
        return MemoryUse(always={part: share}, lacks=lacks, too_small=too_small)


ENGINE = VLLMKind()
