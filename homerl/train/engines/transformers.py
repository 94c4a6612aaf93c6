"""transformers' `generate`, on the trainer's own weights or on a complete copy of them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.models.policy.policy_agent import Sample
from homerl.models.policy.transformers_engine import CACHE_SHARE, TransformersEngine
from homerl.train.engines.contract import EngineKind, MemorySizes, MemoryUse, PolicyTrainer, SamplerSettings
from homerl.train.watch.phase_deadlines import PhaseTimer
from homerl.train.workarounds import return_freed_memory

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer


class TransformersKeys(Model):
    """The recipe keys of engine `transformers`."""

    batch: int = Field(64, ge=1, description="Of `transformers`: most prompts at a time.")
    tokens: int | None = Field(
        None, ge=1, description="Of `transformers`: most tokens at a time; null is what a quarter of the memory can cache."
    )


class InPlace(TransformersEngine):
    """Samples from the model in training, exactly on-policy."""

    def __init__(
        self, tokenizer: Tokenizer, max_tokens: int, temperature: float, batch: int, tokens: int | None = None
    ) -> None:
        super().__init__(None, tokenizer, max_tokens, temperature, batch, tokens=tokens)

    def attach(self, trainer: PolicyTrainer, phases: PhaseTimer) -> None:
        """Keep the trainer."""
        self.trainer = trainer

    def forget_dialogues(self) -> None:
        """Drop the keys and values that are held of dialogues, and give their memory back."""
        super().forget_dialogues()
        return_freed_memory()

    def sync(self, version: int) -> None:
        """Sample from the trainer's current weights."""
        self.model, self.version = self.trainer.accelerator.unwrap_model(self.trainer.model_wrapped), version
        self.forget_dialogues()

    def awake(self) -> AbstractContextManager[object]:
        """Nothing to prepare. Afterwards the memory is the trainer's."""
        after = ExitStack()
        after.callback(self.forget_dialogues)
        return after


class SnapshotEngine(InPlace):
    """Samples from a copy, which `sync` renews between two samples.

    It is used if the trainer works on its own weights meanwhile, or if those are sharded.
    """

    def attach(self, trainer: PolicyTrainer, phases: PhaseTimer) -> None:
        """Copy the policy, which has no fused head yet: TRL's would run the original's weights."""
        from homerl.train.parallel.sharding import broadcast_weights

        super().attach(trainer, phases)
        self._lock = threading.Lock()
        policy = trainer.accelerator.unwrap_model(trainer.model)  # not yet sharded: that happens when training begins
        self.model = broadcast_weights(copy.deepcopy(policy).eval().requires_grad_(False), trainer.accelerator)

    def sync(self, version: int) -> None:
        """Copy the trainable weights."""
        import torch

        from homerl.train.parallel.sharding import gather_whole_weights

        policy = self.trainer.accelerator.unwrap_model(self.trainer.model_wrapped)
        with self._lock, torch.no_grad():
            own = self.model.state_dict()  # tensors that share the model's memory, so that to copy into them is enough
            for name, weight in gather_whole_weights(policy, frozen=False):
                own[name].copy_(weight)
            self.version = version
            self.forget_dialogues()

    def awake(self) -> AbstractContextManager[object]:
        """Nothing to prepare, and nothing to drop: it may sample while the trainer works."""
        return nullcontext()

    def _generate(self, prompts: list[Sequence[int]]) -> list[Sample]:
        with self._lock:
            return super()._generate(prompts)


class TransformersKind(EngineKind):
    """The engine `transformers`."""

    name, order, keys = "transformers", 0, TransformersKeys
    sentence = "transformers' `generate`, on the weights in training or on a whole copy of them"
    exact, shares_gpu = True, False  # a copy samples while the trainer works

    def make(self, settings: SamplerSettings, tokenizer: Tokenizer, seed: int, in_shards: bool) -> InPlace:
        """An engine on a copy if it is needed, else on the trainer's weights."""
        kind = SnapshotEngine if settings.async_rollouts or in_shards else InPlace
        engine = settings.engine
        return kind(tokenizer, settings.max_tokens, settings.temperature, engine.batch, engine.tokens)

    def memory(self, settings: SamplerSettings, sizes: MemorySizes) -> MemoryUse:
        """The copy, if there is one, and the cache of a batch."""
        copied = settings.async_rollouts or sizes.sharded
        always = {"the sampler's copy": sizes.weights} if copied else {}
        engine = settings.engine
        most = sizes.cache * engine.tokens / settings.max_episode_tokens if engine.tokens else CACHE_SHARE * sizes.gpu
        return MemoryUse(always, {"cache": min(most, sizes.cache * engine.batch)})


ENGINE = TransformersKind()
