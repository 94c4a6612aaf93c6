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
from typing import Any

from homerl.agents.policy import Sample
from homerl.train.engines.contract import Asked, EngineKind, GpuShare, MemorySizes, MemoryUse, PolicyTrainer, Refusal, Run
from homerl.train.phases import Phases

SMALL = {"block_size": 32, "num_blocks": 256, "max_batch_tokens": 512}  # on a CPU, where it would otherwise take all memory


class Continuous:
    """Starts with the first sample of an update, and stops when `awake` ends."""

    def __init__(self, tokenizer: Any, max_tokens: int, temperature: float, gpu_memory: float) -> None:
        from transformers import GenerationConfig

        self.end, self.max_tokens, self.version = tokenizer.eos_token_id, max_tokens, 0
        self.sampling = GenerationConfig(
            do_sample=True, temperature=temperature, top_p=1.0, top_k=0, max_new_tokens=max_tokens, eos_token_id=self.end,
            pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
        self.batching = {"return_logprobs": True, "max_memory_percent": gpu_memory}
        self.model: Any = None
        self._manager: Any = None
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
        self._start()
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        name = next(self._names)
        self._manager.register_result_handler(name, lambda output: None if done.done() else done.set_result(output))
        self._manager.add_request(list(prompt), name, self.max_tokens, eos_token_id=self.end)
        output = await done
        if output.error:
            raise RuntimeError(f"continuous batching failed: {output.error}")
        return Sample(tuple(output.generated_tokens), tuple(output.logprobs), self.version)

    def _start(self) -> None:
        from transformers import ContinuousBatchingConfig

        if self._manager is None:
            self._training = self.model.training
            size = SMALL if self.model.device.type == "cpu" else {}
            config = ContinuousBatchingConfig(**self.batching, **size)
            self._manager = self.model.init_continuous_batching(self.sampling, config)
            self._manager.start()

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

    def make(self, settings: Asked, tokenizer: Any, seed: int, in_shards: bool) -> Continuous:
        """An engine on the trainer's weights."""
        return Continuous(tokenizer, settings.max_tokens, settings.temperature, settings.engine.gpu_memory)

    def refuse(self, recipe: Run, parallel: str) -> Iterable[Refusal]:
        """Refuse sharded weights."""
        if parallel in ("zero3", "fsdp2"):
            instead = "use engine `vllm`, `server` or `transformers`"
            yield f"engine continuous needs whole weights, and {parallel} shards them", "rlve.engine", instead

    def memory(self, settings: Asked, sizes: MemorySizes) -> MemoryUse:
        """The cache, which takes its share of what is free, however few episodes there are."""
        return MemoryUse(sampling={"cache": settings.engine.gpu_memory * sizes.free})


ENGINE = ContinuousBatching()
