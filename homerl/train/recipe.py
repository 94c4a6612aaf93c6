"""Recipes of training: SFT and step-wise RLVE.

Invariants: unknown keys are refused; a recipe that loads says everything a run needs, seeds included; nothing here
imports torch; no credit mode and no engine is named here: their keys come from their files.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from envs.model import Model
from homerl.llm.settings import UserSettings
from homerl.play.episode import EpisodeLimits
from homerl.recipe.base import Base
from homerl.train.credit.registry import mode_of, modes
from homerl.train.engines.registry import engine_of, engines
from homerl.train.found import keys_of
from homerl.train.tiny import TinyConfig
from homerl.worlds.registry import world_of
from homerl.worlds.sources import AnyBlueprintSource, default_recipe
from rewards.composite import RewardWeights


class LoraSettings(Model):
    """Low-rank adapters (peft)."""

    r: int = 32
    alpha: int = 64
    dropout: float = 0.0
    target_modules: str | tuple[str, ...] = "all-linear"


class ModelSettings(Model):
    """Which model: a hub id or folder (`name`), or one made `from_scratch` from the training data."""

    name: str | None = None
    from_scratch: TinyConfig | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    attention: Literal["sdpa", "eager", "flash_attention_2", "kernels-community/vllm-flash-attn3"] = "sdpa"
    lora: LoraSettings | None = None
    parameters: float | None = Field(None, description="billions; asked of the hub's name where missing")

    @model_validator(mode="after")
    def _one_source(self) -> ModelSettings:
        if (self.name is None) == (self.from_scratch is None):
            raise ValueError("give either `name` (hub id or folder) or `from_scratch`")
        return self


class OptimSettings(Model):
    """What both trainers share. Names are Hugging Face's."""

    learning_rate: float = Field(gt=0)
    lr_scheduler: str = "cosine"
    min_lr: float | None = Field(None, description="the floor of `cosine_with_min_lr`")
    warmup: float = Field(0.01, ge=0, lt=1, description="share of all updates")
    batch: int = Field(8, ge=1, description="rows a device and forward pass")
    accumulate: int = Field(1, ge=1)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    adam_beta2: float = 0.999
    gradient_checkpointing: bool = True
    save_steps: int | None = Field(100, ge=1, description="null: no checkpoints, so a killed run begins again")
    keep_checkpoints: int = Field(2, ge=1)
    seconds: float | None = Field(None, gt=0, description="stop after so long, with the model as it is then")
    log_steps: int = Field(10, ge=1)


class SFTSettings(OptimSettings):
    """Supervised fine-tuning, loss on assistant tokens alone (HomeFlow eq. 5)."""

    learning_rate: float = 1e-5
    epochs: float = 2.0
    max_steps: int = -1
    max_length: int = Field(16384, description="longer dialogues are refused, never cut")
    packing: bool = True
    muon: float | None = Field(None, gt=0, description="Muon's rate for hidden matrices; learning_rate is AdamW's then")
    in_order: bool = Field(False, description="take rows as the dataset orders them: a curriculum")


class EngineKeys(Model):
    """What every engine has."""

    kind: Literal[tuple(engines())] = "transformers"


class EngineSettings(*keys_of(engines().values(), EngineKeys), EngineKeys):
    """What samples the policy (`kind`), and the keys of all engines (`homerl/train/engines`)."""

    @model_validator(mode="after")
    def _checked(self) -> EngineSettings:
        for what in (what for engine in engines().values() for what in engine.check(self)):
            raise ValueError(what)
        return self


class CurriculumSettings(Model):
    """Which blueprints come when, and what becomes of a group without signal."""

    by: Literal["none", "difficulty", "success"] = Field(
        "none", description="difficulty: each pass from easy to hard; success: what is always or never solved comes seldom"
    )
    synthesis: str | None = Field(None, description="of `difficulty`: a folder of synthesis of the same blueprints")
    refill: int = Field(0, ge=0, description="times that a group without variance is replaced, before it is left out")

    @model_validator(mode="after")
    def _known(self) -> CurriculumSettings:
        if (self.by == "difficulty") != (self.synthesis is not None):
            raise ValueError("`synthesis` goes with `by: difficulty`, and the other way round")
        return self


class RolloutSettings(OptimSettings):
    """How much is played, and which mode credits it."""

    learning_rate: float = 1e-6
    updates: int = Field(500, ge=1)
    blueprints_per_update: int = Field(32, ge=1)
    group: int = Field(8, ge=2)
    iterations: int = Field(1, ge=1)
    credit: Literal[tuple(modes())] = "step"


class LossSettings(Model):
    """What is learned of rollouts, and what samples them."""

    gamma: float = Field(1.0, gt=0, le=1)
    last_step_only: bool = Field(False, description="the paper's ST: update on the final step alone")
    kl: float = Field(3e-3, ge=0, description="against the model that training starts from")
    entropy: float = Field(0.0, ge=0)
    epsilon: float = 0.2
    epsilon_high: float | None = None
    loss: Literal["grpo", "dapo", "dr_grpo", "bnpo"] = "dapo"
    temperature: float = Field(1.0, gt=0)
    max_tokens: int = Field(1024, ge=1, description="sampled tokens a step at most")
    max_episode_tokens: int = Field(16384, ge=1)
    engine: EngineSettings = EngineSettings()
    async_rollouts: int = Field(0, ge=0, description="updates that rollouts may be ahead; 0 is on-policy, exactly")
    ratio_cap: float = Field(2.0, ge=1, description="of the importance ratio of trainer to sampler, where they may differ")
    curriculum: CurriculumSettings = CurriculumSettings()


class RLVESettings(LossSettings, *keys_of(modes().values(), RolloutSettings, LossSettings), RolloutSettings):
    """Step-wise RLVE (HomeFlow 3.4.2, Table 9), with the keys of all credit modes (`homerl/train/credit`)."""

    @property
    def exact(self) -> bool:
        """Whether what is sampled is sampled by the trainer's own forward pass, with the weights being trained."""
        return engine_of(self).exact and self.async_rollouts == 0

    @model_validator(mode="after")
    def _fits(self) -> RLVESettings:
        if self.async_rollouts and engine_of(self).shares_gpu:
            raise ValueError(f"engine {self.engine.kind} shares the trainer's GPU, so `async_rollouts` is 0 with it")
        if self.async_rollouts and self.iterations > 1:
            raise ValueError("`async_rollouts` counts updates of one iteration each")
        for what in mode_of(self).refuse(self):
            raise ValueError(what)
        return self


class BlueprintSource(Model):
    """Blueprints by seed: `count` of them from `first_seed` on; by a recipe, or a `file` of one's own (JSON Lines)."""

    recipe: AnyBlueprintSource = Field(default_factory=default_recipe)
    count: int = Field(10000, ge=1)
    first_seed: int = 1_000_000


class SentinelSettings(Model):
    """When a run without signal is stopped, with the cause named."""

    patience: int = Field(20, ge=1, description="updates in a row")
    max_zero_advantage: float = Field(0.98, ge=0, le=1, description="share of sampled tokens")
    max_logp_gap: float = Field(0.1, gt=0, description="sampler against trainer, nats a token")
    min_entropy: float = Field(1e-4, ge=0)


class DeadlineSettings(Model):
    """Seconds after which the watchdog stops the run and says who waits for whom (exit code 4)."""

    rollout: float = Field(7200, gt=0, description="one update's episodes")
    sync: float = Field(600, gt=0, description="weights to the sampler")
    collective: float = Field(7200, gt=0, description="ranks exchanging what they have: the slowest rank's rollouts count")
    train: float = Field(7200, gt=0, description="one update of the trainer, checkpoint included")
    step: float = Field(1800, gt=0, description="of SFT: one micro-batch, in which ranks wait for one another")


class EvaluationSettings(Model):
    """A held-out suite, played every so many updates by the policy in training; the best model is kept in `best/`."""

    every: int | None = Field(None, ge=1)
    count: int = Field(100, ge=1)
    first_seed: int = 900_000
    recipe: AnyBlueprintSource | None = Field(None, description="the training blueprints' if left out")


class SFTRecipe(Base):
    run: Literal["sft"]
    model: ModelSettings
    data: str = Field(description="a folder or JSONL of trajectories, or a hub dataset")
    sft: SFTSettings = SFTSettings()
    deadlines: DeadlineSettings = DeadlineSettings()


class RLVESections(Base):
    """What a run says that plays blueprints with the model in training."""

    model: ModelSettings
    blueprints: BlueprintSource = BlueprintSource()
    rlve: RLVESettings = RLVESettings()
    rewards: RewardWeights = RewardWeights()
    user: UserSettings = UserSettings()
    limits: EpisodeLimits = EpisodeLimits()
    sentinel: SentinelSettings = SentinelSettings()
    deadlines: DeadlineSettings = DeadlineSettings()
    evaluation: EvaluationSettings = EvaluationSettings()

    @model_validator(mode="after")
    def _has_such_users(self) -> RLVESections:
        world = world_of(self.blueprints.recipe)
        if self.user.kind not in world.users:
            known = " or ".join(f"`user: {{kind: {kind}}}`" for kind in world.users)
            raise ValueError(f"in the world '{world.name}' no such user can speak: write {known}")
        return self


class RLVERecipe(RLVESections):
    run: Literal["rlve"]
