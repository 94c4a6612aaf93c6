"""transformers' continuous batching: requests join and leave the running batch one by one. One GPU, no vLLM.

It runs in its own thread on the weights in training, so it samples only while the trainer does not work (`awake`). Its
caches are dropped afterwards, since the weights change. It draws its seed from torch's random numbers, which are those of
the update and the rank: with a seed of its own it would begin each update with the same ones.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from homerl.agents.policy import Sample
from homerl.train.engines.contract import (
    EngineKind,
    EngineRecipe,
    GpuShare,
    MemorySizes,
    MemoryUse,
    PolicyTrainer,
    Refusal,
    SamplerSettings,
)
from homerl.train.phases import Phases

if TYPE_CHECKING:
    from transformers import ContinuousBatchingManager, PreTrainedModel
    from transformers import PreTrainedTokenizerBase as Tokenizer
    from transformers.generation.continuous_batching.requests import GenerationOutput

SMALL = {"block_size": 32, "num_blocks": 256, "max_batch_tokens": 512}  # on a CPU, where it would otherwise take all memory


class Continuous:
    """Starts with the first sample of an update, and stops when `awake` ends. `model` is set by `sync`."""

    model: PreTrainedModel

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, temperature: float, gpu_memory: float) -> None:
        from transformers import GenerationConfig

        self.end, self.max_tokens, self.version = tokenizer.eos_token_id, max_tokens, 0
        self.sampling = GenerationConfig(
            do_sample=True, temperature=temperature, top_p=1.0, top_k=0, max_new_tokens=max_tokens, eos_token_id=self.end,
            pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
        self.batching = {"return_logprobs": True, "max_memory_percent": gpu_memory}
        self._manager: ContinuousBatchingManager | None = None
        self._names = map(str, itertools.count())

    def attach(self, trainer: PolicyTrainer, phases: Phases) -> None:
        """Keep the trainer."""
        self.trainer = trainer

    def sync(self, version: int) -> None:
        """Sample from the trainer's current weights."""
        self._stop()
        self.model, self.version = self.trainer.accelerator.unwrap_model(self.trainer.model_wrapped), version

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Stop at the end of the context."""
        try:
            yield
        finally:
            self._stop()

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample one continuation. Raises `RuntimeError` if the batching failed."""
        manager = self._started()
        done: asyncio.Future[GenerationOutput] = asyncio.get_running_loop().create_future()
        name = next(self._names)
        manager.register_result_handler(name, lambda output: None if done.done() else done.set_result(output))
        manager.add_request(list(prompt), name, self.max_tokens, eos_token_id=self.end)
        output = await done
        if output.error:
            raise RuntimeError(f"continuous batching failed: {output.error}")
        return Sample(tuple(output.generated_tokens), tuple(output.logprobs), self.version)

    def _started(self) -> ContinuousBatchingManager:
        from transformers import ContinuousBatchingConfig

        if self._manager is None:
            self._training = self.model.training
            size = SMALL if self.model.device.type == "cpu" else {}
            config = ContinuousBatchingConfig(**self.batching, **size)
            self._manager = self.model.init_continuous_batching(self.sampling, config)
            self._manager.start()
        return self._manager

    def _stop(self) -> None:
        if self._manager is not None:
            self._manager.stop(block=True, hard_stop=True)
            self._manager.destroy()
            self._manager = None
            self.model.train(self._training)


class ContinuousBatching(EngineKind):
    """The engine `continuous`."""

    name, order, keys = "continuous", 1, GpuShare
    sentence = "transformers' continuous batching, on one GPU"

    def make(self, settings: SamplerSettings, tokenizer: Tokenizer, seed: int, in_shards: bool) -> Continuous:
        """An engine on the trainer's weights."""
        return Continuous(tokenizer, settings.max_tokens, settings.temperature, settings.engine.gpu_memory)

    def refuse(self, recipe: EngineRecipe, parallel: str) -> Iterable[Refusal]:
        """Refuse sharded weights."""
        if parallel in ("zero3", "fsdp2"):
            instead = "use engine `vllm`, `server` or `transformers`"
            yield f"engine continuous needs whole weights, and {parallel} shards them", "rlve.engine", instead

    def memory(self, settings: SamplerSettings, sizes: MemorySizes) -> MemoryUse:
        """The cache, which takes its share of what is free, however few episodes there are."""
        return MemoryUse(sampling={"cache": settings.engine.gpu_memory * sizes.free})


ENGINE = ContinuousBatching()
