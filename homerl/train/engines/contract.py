"""The contract of an engine, which is defined completely in one file; the engines that there are, and the chosen one.

Invariants: an engine is discovered by its file (see `homerl.train.engines`); importing the file does not import torch, since
recipes are checked with it. Heavy imports stand where they are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import homerl.train.engines
from homerl.envs.core.model import Model
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.models.policy.policy_agent import Engine
from homerl.train.model_settings import ModelSettings
from homerl.train.watch.phase_deadlines import PhaseTimer

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch.nn import Module
    from transformers import PreTrainedModel
    from transformers import PreTrainedTokenizerBase as Tokenizer

Refusal = tuple[str, str, str]  # what is refused, its key, and the remedy


class SamplerSettings(Protocol):
    """A recipe's `rlve`, as far as engines read it. `engine` has the `keys` of all engines as flat fields; it is typed
    `Any`, since its model is built from these files.
    """

    blueprints_per_update: int
    group: int
    max_tokens: int
    max_episode_tokens: int
    temperature: float
    head: str
    async_rollouts: int
    play_only: bool
    engine: Any


class EngineRecipe(Protocol):
    """A recipe, as far as engines read it."""

    @property
    def cpu(self) -> bool:
        """Whether models run on the CPU."""

    @property
    def model(self) -> ModelSettings:
        """The model that is trained."""

    @property
    def rlve(self) -> SamplerSettings:
        """The section of rollouts."""


class PolicyTrainer(Protocol):
    """What an engine may know of the trainer: `model` is the policy, `model_wrapped` the same in shards or with DDP, once
    training has begun.
    """

    accelerator: Accelerator
    model: PreTrainedModel
    model_wrapped: Module
    processing_class: Tokenizer


class TrainedEngine(Engine, Protocol):
    """An engine that samples with the weights in training. `version` is the update whose weights it has.

    To define: all of it, with `sample(prompt)` of `Engine`, which many episodes await concurrently. The trainer owns the
    order of calls: `attach` once; then for each update `sync`, and `sample` within `awake`.

    If it has a method `metrics`, which returns figures by name since the last call, they are logged with each update.
    """

    version: int

    def attach(self, trainer: PolicyTrainer, phases: PhaseTimer) -> None:
        """Receive what is trained, before training begins. All ranks call it together.

        Args:
            trainer: has the policy. Its weights may be sharded later, so a copy of all of them is made here or gathered.
            phases: is to be told when the engine makes ranks wait for each other, for the watchdog.
        """

    def sync(self, version: int) -> None:
        """Take the trainer's current weights, which are those of update `version` (from 0). All ranks call it together.

        Raises:
            RunStalled: on all ranks, if what samples cannot be reached. The run then ends with exit code 4.
        """

    def awake(self) -> AbstractContextManager[object]:
        """The context of all sampling of an update. The trainer does not work in it, except with `async_rollouts`."""


class ServedEngine(TrainedEngine, Protocol):
    """An engine with weights of its own (`EngineKind.has_own_weights`), which can sample from them as they are."""

    def sample_as_served(self, policy: PolicyTrainer) -> None:
        """Sample from these weights, in place of `attach` and `sync`. `policy` has no model."""


@dataclass(frozen=True)
class MemorySizes:
    """The sizes of a recipe on one GPU in GB: the policy's weights, the cache of one episode, and the GPU's memory.

    `sharded` tells whether each GPU has only a shard of the weights.
    """

    weights: float
    cache: float
    gpu: float
    sharded: bool


@dataclass(frozen=True)
class MemoryUse:
    """The memory that an engine takes on the trainer's GPU, in GB by part: always, and only while it samples.

    `lacks` describes what does not fit; it is empty if all fits. `too_small` names the part that would have to be larger,
    if one holds too little.
    """

    always: Mapping[str, float] = field(default_factory=dict)
    sampling: Mapping[str, float] = field(default_factory=dict)
    lacks: str = ""
    too_small: str | None = None


class EngineKind(ABC):
    """One value of `rlve.engine.kind`, defined as `ENGINE` in a file of its own.

    To override: `name`, `sentence` and `make`; the attributes below, where the defaults do not hold; and `check`, `refuse`,
    `lacks` and `memory`, if there is something to say. The trainer owns the rest: it refuses recipes with what these yield,
    checks `packages`, makes the engine, and calls it as `TrainedEngine` says.

    Example:
        class OwnKind(EngineKind):
            name, sentence = "own", "my sampler, on a copy of the weights"
            keys, shares_gpu = OwnKeys, False  # `OwnKeys` is a `Model` with the field `batch`, which has a default

            def make(self, settings, tokenizer, seed, in_shards):
                from mine.sampler import Sampler  # heavy imports stand here

                return Sampler(tokenizer, settings.max_tokens, settings.temperature, settings.engine.batch)

        ENGINE = OwnKind()
    """

    name: str  # the value of `rlve.engine.kind`
    sentence: str  # a description for docs
    order: int = 100  # listings are sorted by it, ascending
    keys: type[Model] = Model  # a pydantic model of the engine's own keys, each with a default; `rlve.engine` has them
    exact: bool = False  # samples with the trainer's own forward pass, so no importance ratio is needed
    shares_gpu: bool = True  # cannot sample while the trainer works (`async_rollouts`)
    has_own_weights: bool = False  # what it makes is a `ServedEngine`: with `play_only` no model is loaded
    packages: Mapping[str, str] = {}  # required packages, and how to install each

    @abstractmethod
    def make(self, settings: SamplerSettings, tokenizer: Tokenizer, seed: int, in_shards: bool) -> TrainedEngine:
        """Create the engine. `attach` gives it the trainer later.

        Args:
            settings: the recipe's `rlve`. `max_tokens` bounds a sample, `max_episode_tokens` the prompt, both in tokens.
            tokenizer: the policy's. A sample ends with its `eos_token_id`, or at `max_tokens`.
            seed: the recipe's.
            in_shards: whether the trainer's weights are in shards, so that none has all of them.

        Returns:
            An engine that samples at `settings.temperature` without cut-offs such as top-p: its log-probabilities are those
            of the loss.

        Raises:
            RunStalled: if a server of the recipe does not answer.
        """

    def check(self, engine: Any) -> Iterable[str]:
        """Yield what is wrong with `rlve.engine`, as sentences. Every engine is asked, whichever `engine.kind` is chosen."""
        return ()

    def refuse(self, recipe: EngineRecipe, parallel: str) -> Iterable[Refusal]:
        """Yield why a recipe that chooses this engine cannot be trained; `parallel` is how its weights are distributed."""
        return ()

    def lacks(self, settings: SamplerSettings) -> Iterable[str]:
        """Yield what this machine or its servers lack for the engine, apart from its packages."""
        return ()

    def memory(self, settings: SamplerSettings, sizes: MemorySizes) -> MemoryUse:
        """An estimate of the engine's memory."""
        return MemoryUse()


@cache
def list_engines() -> Mapping[str, EngineKind]:
    """Every engine by kind."""
    return sort_plugins(discover(homerl.train.engines, "ENGINE", EngineKind, ("contract", "weight_sync")))


def chosen_engine(settings: SamplerSettings) -> EngineKind:
    """The engine that a recipe's `rlve` chooses."""
    return list_engines()[settings.engine.kind]
