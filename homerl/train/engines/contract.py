"""What an engine says, whole in its own file.

Invariant: importing an engine's file brings no torch, since recipes are read with it: what is heavy is imported where it
is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field

from envs.model import Model
from homerl.agents.policy import Engine
from homerl.train.phases import Phases

Refusal = tuple[str, str, str]  # what, where, what to do instead


class TrainedEngine(Engine, Protocol):
    """An engine whose weights are those in training. `version` is that of the weights it samples with."""

    version: int

    def attach(self, trainer: Any, phases: Phases) -> None:
        """Meet the trainer, before training begins."""

    def sync(self, version: int) -> None:
        """Take the weights that the trainer has now, which are of this update. All ranks call it together."""

    def awake(self) -> AbstractContextManager[None]:
        """Around all sampling of an update: the trainer does not work meanwhile, but with `async_rollouts`."""


class GpuShare(Model):
    """A key that several engines have."""

    gpu_memory: float = Field(
        0.35, gt=0, lt=1, description="Of `vllm` and `continuous`: share (0 to 1) of each GPU's memory."
    )


@dataclass(frozen=True)
class Sizes:
    """Of a recipe on one GPU, in GB: the policy's weights, one episode's cache, the GPU itself; and whether each has only a
    shard of the weights."""

    weights: float
    cache: float
    gpu: float
    sharded: bool


@dataclass(frozen=True)
class Takes:
    """GB by part that an engine takes of the trainer's GPU, always and while it samples; in words, what does not fit."""

    always: Mapping[str, float] = field(default_factory=dict)
    sampling: Mapping[str, float] = field(default_factory=dict)
    lacks: str = ""


class EngineKind(ABC):
    """One value of `rlve.engine.kind`. `settings` is the recipe's `rlve`; in `settings.engine` the engine's own `keys` lie
    flat beside the others'. Their model is built from these files, so they cannot name its type."""

    name: str
    sentence: str  # what it is, for docs
    order: int = 100  # of listings: the lower, the earlier
    keys: type[Model] = Model  # a pydantic model of its own keys, each with a default
    exact: bool = False  # whether it samples with the trainer's own forward pass, so that no ratio is to be corrected
    shares_gpu: bool = True  # so that it cannot sample while the trainer works (`async_rollouts`)
    packages: Mapping[str, str] = {}  # that have to be there, and how each is installed

    @abstractmethod
    def make(self, settings: Any, tokenizer: Any, seed: int, in_shards: bool) -> TrainedEngine:
        """The engine; `attach` gives it the trainer, whose weights may be in shards."""

    def arguments(self, settings: Any) -> Mapping[str, Any]:
        """TRL's arguments, where TRL brings it the weights."""
        return {}

    def check(self, engine: Any) -> Iterable[str]:
        """What is wrong with `rlve.engine`. Asked of every engine, whichever `engine.kind` is chosen."""
        return ()

    def refuse(self, recipe: Any, parallel: str) -> Iterable[Refusal]:
        """What a recipe that chooses it cannot be trained as; `spread` is how its weights are spread over GPUs."""
        return ()

    def lacks(self, settings: Any) -> Iterable[str]:
        """What it needs of this machine, or of servers, and does not find, its packages apart."""
        return ()

    def takes(self, settings: Any, sizes: Sizes) -> Takes:
        """An estimate of its memory."""
        return Takes()
