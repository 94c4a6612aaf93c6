"""Recipes of training: SFT and step-wise RLVE.

Invariants: unknown keys are refused; a recipe that loads has everything that a run needs, seeds included; nothing here
imports torch; no loss, no credit mode and no engine is named here, since their keys come from their own files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from envs.model import Model
from homerl.agents.policy import Thoughts
from homerl.llm.settings import UserSettings
from homerl.play.episode import EpisodeLimits
from homerl.recipe.base import Base
from homerl.train.credit.registry import mode_of, modes
from homerl.train.engines.registry import engine_of, engines
from homerl.train.losses.registry import losses
from homerl.train.model import ModelSettings
from homerl.train.optim_settings import OptimSettings
from homerl.train.plugin_keys import keys_of
from homerl.worlds.registry import refuse_behaviours, refuse_user, worlds_in
from homerl.worlds.sources import AnyBlueprintSource, Mixture, default_recipe
from rewards.composite import RewardWeights

if TYPE_CHECKING:
    EngineName: TypeAlias = str
    CreditName: TypeAlias = str
    LossName: TypeAlias = str
else:  # those of the plug-ins' files
    EngineName, CreditName, LossName = (Literal[tuple(named())] for named in (engines, modes, losses))


class SFTSettings(OptimSettings):
    """Supervised fine-tuning, by default with the loss on assistant tokens alone (HomeFlow eq. 5)."""

    learning_rate: float = Field(1e-5, gt=0, description="Peak learning rate of AdamW.")
    dialogues_per_update: int = Field(
        64, ge=1, description="Number of dialogues whose gradients make one update, over all processes."
    )
    epochs: float = Field(2.0, gt=0, description="Number of passes over the data.")
    max_steps: Annotated[int, Field(ge=1)] | Literal[-1] = Field(
        -1, description="Number of updates, in place of `epochs`; -1 leaves it to `epochs`."
    )
    max_length: int = Field(
        16384, ge=1, description="Most tokens of a dialogue; data with a longer one is refused, never cut."
    )
    muon: float | None = Field(
        None, gt=0, description="Learning rate of Muon, which then trains hidden matrices; AdamW trains the other weights."
    )
    loss_on: Literal["assistant", "all"] = Field(
        "assistant",
        description="Tokens that are learnt: those of the `assistant`, or `all`, from which a model from scratch learns "
        "sooner to copy names, since people say what the list of devices has said. What the assistant is said to have said "
        "before the dialogue began is never learnt.",
    )
    in_order: bool = Field(False, description="Whether dialogues are taken in the order of the dataset, as a curriculum.")
    dialogues_per_prompt: int = Field(
        1,
        ge=1,
        description="Most dialogues of one home that an update takes together: their system prompts have at least half in "
        "common, which is forwarded once for all of them. 1 draws each dialogue by itself.",
    )

    @model_validator(mode="after")
    def _one_order(self) -> SFTSettings:
        if self.in_order and self.dialogues_per_prompt > 1:
            raise ValueError("`in_order` takes dialogues as they come: leave out `dialogues_per_prompt`")
        return self


class EngineKeys(Model):
    """What every engine has."""

    kind: EngineName = Field("transformers", description="Which engine samples the policy.")


class EngineSettings(*keys_of(engines().values(), EngineKeys), EngineKeys):  # type: ignore[misc]  # bases of plug-ins
    """What samples the policy (`kind`), and the keys of all engines (`homerl/train/engines`)."""

    @model_validator(mode="after")
    def _checked(self) -> EngineSettings:
        for what in (what for engine in engines().values() for what in engine.check(self)):
            raise ValueError(what)
        return self


class PrefixSettings(Model):
    """Groups that begin within a dialogue that succeeds: a curriculum from the end (`homerl/train/prefixes.py`)."""

    share: float = Field(0.5, ge=0, le=1, description="Share (0 to 1) of groups that begin within a dialogue.")
    synthesis: str | None = Field(
        None,
        description="Synthesis (a folder) of the same blueprints: groups begin in its verified trajectories, at nodes of "
        "its search trees. Null takes dialogues of the world's expert.",
    )
    at: Literal["any", "last"] = Field(
        "any",
        description="Where such a group begins: at `any` step but the first and the last, or at the first step of the "
        "`last` turn.",
    )
    fade: bool = Field(True, description="Whether the share falls to 0 by the end of the run.")


class DistillSettings(Model):
    """Distillation on the policy's own tokens, from a teacher with the same tokenizer (`homerl/train/distill.py`)."""

    model: str | None = Field(
        None, description="Hub id or folder of the teacher, which is loaded beside the policy; with `url`, its name there."
    )
    url: str | None = Field(
        None,
        pattern=r"^https?://[^?#@]*[^/?#@]$",
        description="Address of a running server of the teacher that echoes prompts with log-probabilities, as vLLM does: "
        "http://host:8000/v1.",
    )
    weight: float = Field(
        1.0,
        gt=0,
        description="Advantage of a token for each nat by which the teacher finds it likelier than the policy does.",
    )
    bound: float | None = Field(None, gt=0, description="Most nats that count of a difference; null cuts none.")
    reward: float = Field(1.0, ge=0, description="Weight of the advantage that rewards give; 0 leaves the teacher alone.")

    @model_validator(mode="after")
    def _named(self) -> DistillSettings:
        if self.model is None:
            raise ValueError("`model` is missing: give a hub id or folder, or with `url` the name of the model there")
        return self


class CurriculumSettings(Model):
    """The order of blueprints, and how groups of zero variance are replaced (dynamic sampling)."""

    by: Literal["none", "difficulty", "success"] = Field(
        "none",
        description="Order of blueprints: `difficulty` goes from easy to hard in each pass, with `success` those that are "
        "always or never solved come seldom, `none` draws each pass at random.",
    )
    synthesis: str | None = Field(
        None,
        description="Folder of a synthesis of the same blueprints, whose success rates are the measure of `difficulty`.",
    )
    refill: int = Field(
        0, ge=0, description="Most times that a group of zero variance is replaced by one of another blueprint."
    )
    temperature: float | None = Field(
        None,
        gt=0,
        description="For a mixture of worlds: groups go to the parts in which the policy sometimes succeeds and sometimes "
        "fails. A part is drawn by its weight times (4p(1-p))^(1/temperature), with p its success rate. Null draws by the "
        "weights alone.",
    )
    prefix: PrefixSettings | None = Field(
        None, description="Groups that begin within a dialogue that succeeds; null begins all with the user's first words."
    )

    @model_validator(mode="after")
    def _known(self) -> CurriculumSettings:
        if (self.by == "difficulty") != (self.synthesis is not None):
            raise ValueError("`synthesis` goes with `by: difficulty`, and the other way round")
        return self


class RolloutSettings(OptimSettings):
    """How much is played, and which mode credits it."""

    learning_rate: float = Field(1e-6, gt=0, description="Peak learning rate of AdamW.")
    updates: int = Field(500, ge=1, description="Number of batches of rollouts that are trained on.")
    blueprints_per_update: int = Field(32, ge=1, description="Number of blueprints in a batch; each is played by one group.")
    group: int = Field(8, ge=2, description="Number of rollouts of one blueprint, which are compared with one another.")
    iterations: int = Field(1, ge=1, description="Number of optimizer updates on each batch of rollouts.")
    credit: CreditName = Field("step", description="How the rewards of a group become advantages: the credit mode.")


class RatioMask(Model):
    """Rollouts that another program sampled too differently: their tokens have no advantage and no KL term."""

    by: Literal["mean", "product"] = Field(
        "mean", description="The ratio of a rollout: the geometric `mean` over its sampled tokens, or their `product`."
    )
    low: float = Field(0.8, ge=0, le=1, description="Smallest ratio of a rollout that is trained on.")
    high: float = Field(1.25, ge=1, description="Largest ratio of a rollout that is trained on.")


class LossSettings(Model):
    """The loss of rollouts, and the engine that samples them."""

    kl: float = Field(3e-3, ge=0, description="Weight of the KL divergence from the model that training starts from.")
    entropy: float = Field(0.0, ge=0, description="Weight of the entropy bonus.")
    loss: LossName = Field("dapo", description="What an update on rollouts minimises.")
    head: Literal["model", "float32"] = Field(
        "model",
        description="Number format in which the head computes logits, in training and in engines of transformers: that of "
        "the `model`, or `float32`, by which log-probabilities are rounded less.",
    )
    temperature: float = Field(1.0, gt=0, description="Sampling temperature of rollouts.")
    max_tokens: int = Field(1024, ge=1, description="Most tokens that the policy samples in one step.")
    truncated: Literal["counted", "masked"] = Field(
        "counted",
        description="Whether the tokens of a step that was cut at `max_tokens` are trained on (`counted`) or have no loss "
        "(`masked`). The step keeps its reward.",
    )
    max_episode_tokens: int = Field(
        16384,
        ge=1,
        description="Most tokens of an episode before a step, prompt and observations included; at the limit the agent has "
        "failed. The last step may add `max_tokens`.",
    )
    thoughts: Thoughts = Field(
        "kept",
        description="What becomes of the policy's thoughts, such as `<think>...</think>`: `kept` are trained on as all else "
        "that it wrote, `masked` have no loss, and `refused` make a message malformed. They are never spoken.",
    )
    engine: EngineSettings = Field(EngineSettings(), description="What samples the policy.")
    async_rollouts: int = Field(
        0, ge=0, description="Number of updates that rollouts may be ahead of the trainer; 0 is exactly on-policy."
    )
    ratio_cap: float = Field(
        2.0,
        ge=1,
        description="Largest importance ratio of trainer to sampler, where the two may differ; larger ones are cut.",
    )
    ratio_floor: float = Field(
        0.0, ge=0, le=1, description="Smallest importance ratio of trainer to sampler; smaller ones are raised to it."
    )
    ratio_mask: RatioMask | None = Field(
        None, description="Which rollouts are left out for their importance ratio; null is none."
    )
    curriculum: CurriculumSettings = Field(
        CurriculumSettings(), description="Which blueprints come when, and what becomes of a group of zero variance."
    )
    distill: DistillSettings | None = Field(
        None, description="A teacher who judges the tokens that the policy samples; null is none."
    )


PLUGIN_KEYS = keys_of((*losses().values(), *modes().values()), RolloutSettings, LossSettings)


class RLVESettings(LossSettings, *PLUGIN_KEYS, RolloutSettings):  # type: ignore[misc]  # bases of plug-ins
    """Step-wise RLVE (HomeFlow 3.4.2, Table 9), with the keys of all losses and credit modes (`homerl/train/losses`,
    `homerl/train/credit`).
    """

    @property
    def exact(self) -> bool:
        """Whether rollouts are sampled by the trainer's own forward pass with the current weights, but for its dropout."""
        return engine_of(self).exact and self.async_rollouts == 0

    @model_validator(mode="after")
    def _fits(self) -> RLVESettings:
        if self.async_rollouts and engine_of(self).shares_gpu:
            raise ValueError(f"engine {self.engine.kind} shares the trainer's GPU, so `async_rollouts` is 0 with it")
        if self.async_rollouts and self.iterations > 1:
            raise ValueError("`async_rollouts` counts updates of one iteration each")
        if self.distill and self.distill.url and self.temperature != 1:
            raise ValueError("a server judges at temperature 1: set `temperature` to 1, or name the teacher's folder")
        for what in (*losses()[self.loss].refuse(self), *mode_of(self).refuse(self, self.group)):
            raise ValueError(what)
        if self.curriculum.prefix and mode_of(self).forks(self):
            raise ValueError(
                f"`curriculum.prefix` begins groups within a dialogue, and `credit: {self.credit}` forks them there"
            )
        return self


class BlueprintSource(Model):
    """Blueprints by seed: `count` of them from `first_seed` on; by a recipe, or a `file` of one's own (JSON Lines)."""

    recipe: AnyBlueprintSource = Field(
        default_factory=default_recipe,
        description="The world's recipe of the blueprints, a file of them, or a mixture of several worlds.",
    )
    count: int = Field(10000, ge=1, description="Number of blueprints; after the last the first one comes again.")
    first_seed: int = Field(1_000_000, description="Seed of the first blueprint; the others follow it.")


class SentinelSettings(Model):
    """When a run without signal is stopped, with the cause named."""

    patience: int = Field(
        20, ge=1, description="Number of updates in a row for which a cause holds before the run is stopped."
    )
    max_zero_advantage: float = Field(
        0.98,
        ge=0,
        le=1,
        description="Largest share (0 to 1) of sampled tokens whose advantage is zero, and of groups that are dropped.",
    )
    max_logp_gap: float = Field(
        0.1, gt=0, description="Largest mean difference of log-probabilities between sampler and trainer, in nats a token."
    )
    min_entropy: float = Field(1e-4, ge=0, description="Smallest mean entropy of the policy, in nats a token.")


class DeadlineSettings(Model):
    """Seconds after which the watchdog stops the run and says who waits for whom (exit code 4)."""

    rollout: float = Field(7200, gt=0, description="Seconds for the episodes of one update.")
    sync: float = Field(600, gt=0, description="Seconds for sending the weights to the sampler.")
    collective: float = Field(
        7200, gt=0, description="Seconds for an exchange between ranks, in which all wait for the slowest rank's rollouts."
    )
    train: float = Field(7200, gt=0, description="Seconds for one update of the trainer, its checkpoint included.")
    step: float = Field(1800, gt=0, description="Seconds for the passes of one update of SFT, in which ranks wait.")


class EvaluationSettings(Model):
    """A held-out suite, played every so many updates by the policy in training; the best model is kept in `best/`."""

    every: int | None = Field(None, ge=1, description="Number of updates from one evaluation to the next; null is never.")
    count: int = Field(100, ge=1, description="Number of held-out blueprints that are played.")
    first_seed: int = Field(900_000, description="Seed of the first held-out blueprint; the others follow it.")
    recipe: AnyBlueprintSource | None = Field(
        None,
        description="The world's recipe of the blueprints, a file of them, or a mixture; null is that of the training "
        "blueprints.",
    )


class SFTRecipe(Base):
    """Supervised fine-tuning of a model on stored dialogues."""

    run: Literal["sft"] = Field(description="Kind of the run.")
    model: ModelSettings = Field(description="The model that is trained.")
    data: str = Field(
        description="Trajectories to train on: a folder of a synthesis, a file (JSON Lines), or a hub dataset."
    )
    sft: SFTSettings = Field(SFTSettings(), description="Supervised fine-tuning.")
    deadlines: DeadlineSettings = Field(DeadlineSettings(), description="Deadlines after which the watchdog stops the run.")


class RLVESections(Base):
    """The keys of runs that train on rollouts."""

    model: ModelSettings = Field(description="The model that is trained.")
    blueprints: BlueprintSource = Field(BlueprintSource(), description="The blueprints that rollouts play.")
    rlve: RLVESettings = Field(RLVESettings(), description="Step-wise reinforcement learning.")
    rewards: RewardWeights = Field(RewardWeights(), description="Rewards of a step.")
    user: UserSettings = Field(UserSettings(), description="Who speaks.")
    limits: EpisodeLimits = Field(EpisodeLimits(), description="Limits of an episode.")
    sentinel: SentinelSettings = Field(SentinelSettings(), description="When a run that learns nothing is stopped.")
    deadlines: DeadlineSettings = Field(DeadlineSettings(), description="Deadlines after which the watchdog stops the run.")
    evaluation: EvaluationSettings = Field(EvaluationSettings(), description="Evaluation of the policy during training.")

    @model_validator(mode="after")
    def _has_such_users(self) -> RLVESections:
        worlds = worlds_in(self.blueprints.recipe)
        refuse_user(worlds, self.user.kind)
        refuse_behaviours(worlds, self.user.behaviours)
        return self

    @model_validator(mode="after")
    def _has_parts_to_balance(self) -> RLVESections:
        if self.rlve.curriculum.temperature is not None and not isinstance(self.blueprints.recipe, Mixture):
            raise ValueError(
                "`rlve.curriculum.temperature` is for blueprints of several worlds: write `blueprints.recipe.worlds`, or "
                "leave it out"
            )
        return self


class RLVERecipe(RLVESections):
    """Step-wise RLVE of a model on simulated tasks."""

    run: Literal["rlve"] = Field(description="Kind of the run.")


TrainingRecipe = SFTRecipe | RLVESections  # what trains: a flywheel has the sections of RLVE, and `sft` beside them
