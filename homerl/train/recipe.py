"""Recipes of training: SFT and step-wise RLVE.

Invariants:
- Unknown keys are refused. A recipe that loads has everything that a run needs, seeds included.
- No loss, no credit mode and no engine is named here: the keys of such plug-ins come from their own files, and become fields
  of one model. No two plug-ins define the same key differently. Every key has a default, since recipes that choose another
  plug-in leave it out.
- A recipe that cannot be trained is refused before any work, with its key and what to do instead (`refuse_untrainable`).
- Nothing here imports torch.
"""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, Field, model_validator

from homerl.envs.core.documents import InputError, read_json
from homerl.envs.core.model import READS, Model, field_left_out_at_default
from homerl.host.processes import is_main_process
from homerl.host.recipe_files import BaseRecipe
from homerl.models.endpoint.endpoint_settings import UserSettings
from homerl.models.policy.policy_agent import Thoughts
from homerl.play.episode import EpisodeLimits
from homerl.rewards.composite import RewardWeights
from homerl.train.agents.program_settings import ProgramSettings
from homerl.train.credit.contract import list_credit_modes
from homerl.train.engines.contract import Refusal, chosen_engine, list_engines
from homerl.train.losses.contract import list_losses
from homerl.train.model_settings import AUTO, ModelSettings
from homerl.worlds.registry import refuse_behaviours, refuse_user, source_worlds
from homerl.worlds.sources import AnyBlueprintSource, Mixture, default_recipe


def combine_plugin_keys(plugins: Iterable[Any], *reserved: type[BaseModel]) -> tuple[type[BaseModel], ...]:
    """The `keys` models of plug-ins, as base classes of one model that has all their fields in the order of `plugins`.

    Raises `InputError` if a key has no default, if two plug-ins define it, or if it is a field of a model in `reserved`.
    """
    owners: dict[str, type] = {name: model for model in reserved for name in model.model_fields}
    models = list(dict.fromkeys(plugin.keys for plugin in plugins))
    for model in models:
        for name, field in model.model_fields.items():
            owner = next(base for base in model.__mro__ if name in inspect.get_annotations(base))  # which declares it
            if field.is_required():
                raise InputError(f"the key '{name}' has no default", _file_of(model), "give it one")
            if owners.setdefault(name, owner) is not owner:
                raise InputError(f"the key '{name}' is {owners[name].__name__}'s already", _file_of(model), "rename it")
    leaves = [model for model in models if not any(model is not other and issubclass(other, model) for other in models)]
    return tuple(reversed(leaves))  # pydantic takes fields from the last base first


def _file_of(model: type) -> str:
    return str(sys.modules[model.__module__].__file__)


if TYPE_CHECKING:
    EngineName: TypeAlias = str
    CreditName: TypeAlias = str
    LossName: TypeAlias = str
else:  # those of the plug-ins' files
    EngineName, CreditName, LossName = (Literal[tuple(named())] for named in (list_engines, list_credit_modes, list_losses))


Floored = Literal["cosine_with_min_lr", "cosine_warmup_with_min_lr"]
Schedule = Literal[  # transformers' schedules that need no other settings
    "linear", "cosine", "cosine_with_restarts", "constant", "constant_with_warmup", "inverse_sqrt", Floored
]


class OptimSettings(Model):
    """What both trainers share. Names are Hugging Face's."""

    learning_rate: float = Field(gt=0, description="Peak learning rate of AdamW.")
    lr_scheduler: Schedule = Field("cosine", description="Schedule, as transformers names it.")
    min_lr: float | None = Field(None, ge=0, description="Last learning rate of `cosine_with_min_lr`.")
    warmup: float = Field(0.01, ge=0, lt=1, description="Share (0 to 1) of updates in which the learning rate rises.")
    tokens_per_step: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        AUTO, description="Most tokens of a pass; `auto` takes what the memory allows."
    )
    weight_decay: float = Field(0.0, ge=0, description="Weight decay of the optimizer.")
    max_grad_norm: float = Field(1.0, ge=0, description="Norm above which gradients are clipped.")
    adam_beta2: float = Field(0.999, ge=0, lt=1, description="AdamW's second beta (0 to 1).")
    gradient_checkpointing: bool | Literal["auto"] = Field(
        AUTO,
        description="Whether activations are computed again in the backward pass; `auto` does it where a pass"
        " would not fit otherwise.",
    )
    save_steps: int | None = Field(100, ge=1, description="Updates between checkpoints; null writes none.")
    keep_checkpoints: int = Field(2, ge=1, description="Newest checkpoints that are kept.")
    seconds: float | None = Field(
        None, gt=0, description="Seconds after which training stops with the model of then; null is never."
    )
    log_steps: int = Field(10, ge=1, description="Updates between lines of metrics.")

    @model_validator(mode="after")
    def _floor_has_its_schedule(self) -> OptimSettings:
        floored = self.lr_scheduler in get_args(Floored)
        if floored and self.min_lr is None:
            raise ValueError(f"`lr_scheduler: {self.lr_scheduler}` ends at `min_lr`: give both")
        if not floored and self.min_lr is not None:
            raise ValueError("`min_lr` is of `lr_scheduler: cosine_with_min_lr`: give both, or leave `min_lr` null")
        if self.min_lr is not None and self.min_lr > self.learning_rate:
            raise ValueError(f"`min_lr` {self.min_lr:g} is above `learning_rate` {self.learning_rate:g}: lower it")
        return self


class HeldOutSettings(Model):
    """Dialogues that SFT keeps apart, to measure its loss on them; the model with the lowest is kept in `best/`."""

    share: float = Field(0.05, gt=0, le=0.5, description="Share (0 to 1) of the dialogues.")
    every: int = Field(50, ge=1, description="Updates between measurements; the last update is measured too.")


class SFTSettings(OptimSettings):
    """Supervised fine-tuning."""

    learning_rate: float = Field(1e-5, gt=0, description="Peak learning rate of AdamW.")
    dialogues_per_update: int = Field(64, ge=1, description="Dialogues of an update, over all processes.")
    epochs: float = Field(2.0, gt=0, description="Passes over the data.")
    max_steps: Annotated[int, Field(ge=1)] | Literal[-1] = Field(
        -1, description="Updates, in place of `epochs`; -1 leaves it to `epochs`."
    )
    max_length: int = Field(16384, ge=1, description="Most tokens of a dialogue; longer ones are refused, never cut.")
    muon: float | None = Field(
        None, gt=0, description="Learning rate of Muon for hidden matrices; AdamW trains the other weights."
    )
    loss_on: Literal["assistant", "all"] = Field(
        "assistant",
        description="Tokens that are learnt: those of the `assistant`, or `all`, by which names are copied sooner.",
    )
    in_order: bool = Field(False, description="Whether dialogues are taken in the dataset's order.")
    dialogues_per_prompt: int = Field(
        1,
        ge=1,
        description="Most dialogues of one home that an update takes together, so that what their prompts share is "
        "forwarded once.",
    )

    router_aux_loss: float | None = field_left_out_at_default(
        "Factor of a mixture of experts' auxiliary loss, which keeps the load of its experts even, such as "
        "the `router_aux_loss_coef` of its configuration; null has none.",
        gt=0,
    )
    held_out: HeldOutSettings | None = field_left_out_at_default(
        "Dialogues that are kept apart to measure the loss; null is none."
    )

    @model_validator(mode="after")
    def _one_order(self) -> SFTSettings:
        if self.in_order and self.dialogues_per_prompt > 1:
            raise ValueError("`in_order` takes dialogues as they come: leave out `dialogues_per_prompt`")
        return self


class EngineKeys(Model):
    """What every engine has."""

    kind: EngineName = Field("transformers", description="Which engine samples the policy.")


class EngineSettings(*combine_plugin_keys(list_engines().values(), EngineKeys), EngineKeys):  # type: ignore[misc]  # bases of plug-ins
    """What samples the policy (`kind`), and the keys of all engines."""

    @model_validator(mode="after")
    def _satisfy_engines(self) -> EngineSettings:
        for what in (what for engine in list_engines().values() for what in engine.check(self)):
            raise ValueError(what)
        return self


class PrefixSettings(Model):
    """Groups that begin within a dialogue that succeeds."""

    share: float = Field(0.5, ge=0, le=1, description="Share (0 to 1) of such groups.")
    synthesis: str | None = Field(
        None,
        description="Synthesis of the same blueprints, in whose search trees groups begin; null takes "
        "dialogues of the expert.",
    )
    at: Literal["any", "last"] = Field("any", description="Where they begin: at `any` step between, or at the `last` turn.")
    fade: bool = Field(True, description="Whether the share falls to 0 by the end.")


class DistillSettings(Model):
    """Distillation on the policy's own tokens, from a teacher with the same tokenizer."""

    model: str | None = Field(None, description="Hub id or folder of the teacher; with `url`, its name there.")
    url: str | None = Field(
        None,
        pattern=r"^https?://[^?#@]*[^/?#@]$",
        description="Server of the teacher, as http://host:8000/v1, which echoes prompts with log-probabilities.",
    )
    weight: float = Field(1.0, gt=0, description="Advantage for each nat by which the teacher finds a token likelier.")
    bound: float | None = Field(None, gt=0, description="Most nats that count of a difference; null cuts none.")
    reward: float = Field(1.0, ge=0, description="Weight of the rewards' advantage.")

    @model_validator(mode="after")
    def _require_model_name(self) -> DistillSettings:
        if self.model is None:
            raise ValueError("`model` is missing: give a hub id or folder, or with `url` the name of the model there")
        return self


class CurriculumSettings(Model):
    """The order of blueprints, and how groups of zero variance are replaced (dynamic sampling)."""

    by: Literal["none", "difficulty", "success"] = Field(
        "none",
        description="Order of blueprints: `difficulty` is from easy to hard, with `success` those always or "
        "never solved come seldom, `none` is at random.",
    )
    synthesis: str | None = Field(
        None, description="Synthesis of the same blueprints, whose success rates measure `difficulty`."
    )
    refill: int = Field(0, ge=0, description="Most times that a group of zero variance is replaced.")
    temperature: float | None = Field(
        None,
        gt=0,
        description="Of a mixture: a part is drawn by its weight times (4p(1-p))^(1/temperature), with p its "
        "success rate; null by its weight.",
    )
    prefix: PrefixSettings | None = Field(None, description="Groups that begin within a dialogue; null is none.")

    @model_validator(mode="after")
    def _require_synthesis(self) -> CurriculumSettings:
        if (self.by == "difficulty") != (self.synthesis is not None):
            raise ValueError("`synthesis` goes with `by: difficulty`, and the other way round")
        return self


class RolloutSettings(OptimSettings):
    """How much is played, and which mode credits it."""

    learning_rate: float = Field(1e-6, gt=0, description="Peak learning rate of AdamW.")
    updates: int = Field(500, ge=1, description="Batches of rollouts that are trained on.")
    blueprints_per_update: int = Field(32, ge=1, description="Blueprints of a batch, each played by one group.")
    group: int = Field(8, ge=2, description="Rollouts of a blueprint, which are compared.")
    iterations: int = Field(1, ge=1, description="Optimizer updates on each batch.")
    credit: CreditName = Field("step", description="How rewards become advantages.")
    play_only: bool = field_left_out_at_default(
        "Whether the groups of all updates are only played and stored with their tokens; nothing is trained.", False
    )
    store_tokens: bool = field_left_out_at_default(
        "Whether rollouts are stored with their tokens, for `from_rollouts` of another run.", False
    )
    from_rollouts: Annotated[str | None, READS] = field_left_out_at_default(
        "Folder of a run with `store_tokens`, whose rollouts are trained on; null plays new ones."
    )


class RatioMask(Model):
    """Rollouts whose sampler differs too much have no advantage and no KL term."""

    by: Literal["mean", "product"] = Field(
        "mean", description="The ratio of a rollout: the geometric `mean` over its tokens, or their `product`."
    )
    low: float = Field(0.8, ge=0, le=1, description="Smallest ratio that is trained on.")
    high: float = Field(1.25, ge=1, description="Largest ratio that is trained on.")


class LossSettings(Model):
    """The loss of rollouts, and the engine that samples them."""

    kl: float = Field(3e-3, ge=0, description="Weight of the KL divergence from the first model.")
    entropy: float = Field(0.0, ge=0, description="Weight of the entropy bonus.")
    loss: LossName = Field("dapo", description="What an update on rollouts minimises.")
    head: Literal["model", "float32"] = Field(
        "model", description="Number format of logits: `float32`, or that of the `model`."
    )
    temperature: float = Field(1.0, gt=0, description="Sampling temperature of rollouts.")
    max_tokens: int = Field(1024, ge=1, description="Most tokens of a message.")
    truncated: Literal["counted", "masked"] = Field(
        "counted", description="Whether cut messages are trained on (`counted`) or have no loss (`masked`)."
    )
    max_episode_tokens: int = Field(
        16384, ge=1, description="Most tokens of an episode before a step; at the limit the agent has failed."
    )
    thoughts: Thoughts = Field(
        "kept", description="Thoughts: `kept` are trained on, `masked` have no loss, `refused` make a message malformed."
    )
    engine: EngineSettings = Field(EngineSettings(), description="What samples the policy.")
    async_rollouts: int = Field(0, ge=0, description="Updates that rollouts may be ahead; 0 is exactly on-policy.")
    ratio_cap: float = Field(2.0, ge=1, description="Importance ratio of trainer to sampler to which larger ones are cut.")
    ratio_floor: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Importance ratio to which smaller ones are raised, so that tokens of old rollouts still count.",
    )
    ratio_mask: RatioMask | None = Field(None, description="Which rollouts are left out for their ratio; null is none.")
    curriculum: CurriculumSettings = Field(
        CurriculumSettings(), description="Which blueprints come when, and what becomes of a group of zero variance."
    )
    distill: DistillSettings | None = Field(None, description="A teacher that judges the policy's tokens; null is none.")


PLUGIN_KEYS = combine_plugin_keys((*list_losses().values(), *list_credit_modes().values()), RolloutSettings, LossSettings)


class RLVESettings(LossSettings, *PLUGIN_KEYS, RolloutSettings):  # type: ignore[misc]  # bases of plug-ins
    """Step-wise RLVE, with the keys of all losses and credit modes."""

    @property
    def is_exactly_on_policy(self) -> bool:
        """Whether rollouts are sampled by the trainer's own forward pass with the current weights, but for its dropout."""
        return chosen_engine(self).exact and self.async_rollouts == 0

    @model_validator(mode="after")
    def _refuse_conflicts(self) -> RLVESettings:
        if self.async_rollouts and chosen_engine(self).shares_gpu:
            raise ValueError(f"engine {self.engine.kind} shares the trainer's GPU, so `async_rollouts` is 0 with it")
        if self.async_rollouts and self.iterations > 1:
            raise ValueError("`async_rollouts` counts updates of one iteration each")
        if self.distill and self.distill.url and self.temperature != 1:
            raise ValueError("a server judges at temperature 1: set `temperature` to 1, or name the teacher's folder")
        for what in (*list_losses()[self.loss].refuse(self), *list_credit_modes()[self.credit].refuse(self, self.group)):
            raise ValueError(what)
        return self


class BlueprintSource(Model):
    """Blueprints: `count` of them from `first_seed` on."""

    recipe: AnyBlueprintSource = Field(default_factory=default_recipe, description="The recipe of the blueprints.")
    count: int = Field(10000, ge=1, description="Blueprints; after the last comes the first again.")
    first_seed: int = Field(1_000_000, description="Seed of the first blueprint; the others follow it.")


class SentinelSettings(Model):
    """When a run without signal is stopped, with the cause named."""

    patience: int = Field(20, ge=1, description="Updates in a row for which a cause holds before the run is stopped.")


class DeadlineSettings(Model):
    """Seconds after which the watchdog stops the run (exit code 4)."""

    rollout: float = Field(7200, gt=0, description="Seconds for the episodes of one update.")
    sync: float = Field(600, gt=0, description="Seconds for sending the weights to the sampler.")
    collective: float = Field(7200, gt=0, description="Seconds for an exchange between ranks, which waits for the slowest.")
    train: float = Field(7200, gt=0, description="Seconds for an update of the trainer, with its checkpoint.")
    step: float = Field(1800, gt=0, description="Seconds for the passes of an update of SFT.")


class EvaluationSettings(Model):
    """A held-out suite that the policy plays in training; the best model is kept in `best/`."""

    every: int | None = Field(None, ge=1, description="Updates between evaluations; null is never.")
    count: int = Field(100, ge=1, description="Number of held-out blueprints that are played.")
    first_seed: int = Field(900_000, description="Seed of the first blueprint; the others follow it.")
    recipe: AnyBlueprintSource | None = Field(None, description="The recipe of the blueprints; null is that of training.")


CHECKPOINT_TO = field_left_out_at_default(
    "Where checkpoints are sent too: a folder, or a bucket such as `s3://name/folder`; a run whose machine was lost goes on "
    "from there."
)


class SFTRecipe(BaseRecipe):
    """Supervised fine-tuning of a model on stored dialogues."""

    run: Literal["sft"] = Field(description="Kind of the run.")
    model: ModelSettings = Field(description="The model that is trained.")
    data: str = Field(description="Trajectories: a folder of a synthesis, a file (JSON Lines), or a hub dataset.")
    sft: SFTSettings = Field(SFTSettings(), description="Supervised fine-tuning.")
    deadlines: DeadlineSettings = Field(DeadlineSettings(), description="Deadlines after which the watchdog stops the run.")
    checkpoint_to: str | None = CHECKPOINT_TO


class RLVESections(BaseRecipe):
    """The keys of runs that train on rollouts."""

    model: ModelSettings = Field(description="The model that is trained.")
    blueprints: BlueprintSource = Field(BlueprintSource(), description="The blueprints that rollouts play.")
    rlve: RLVESettings = Field(RLVESettings(), description="Step-wise reinforcement learning.")
    rewards: RewardWeights = Field(RewardWeights(), description="Rewards of a step.")
    user: UserSettings = Field(UserSettings(), description="Who speaks.")
    limits: EpisodeLimits = Field(EpisodeLimits(), description="Limits of an episode.")
    agent: ProgramSettings | None = Field(
        None,
        exclude_if=lambda program: program is None,  # bytes that depend on a recipe are older than this key
        description="A program that plays, for which the policy is a model behind an endpoint; null is homerl's own loop.",
    )
    sentinel: SentinelSettings = Field(SentinelSettings(), description="When a run that learns nothing is stopped.")
    deadlines: DeadlineSettings = Field(DeadlineSettings(), description="Deadlines after which the watchdog stops the run.")
    evaluation: EvaluationSettings = Field(EvaluationSettings(), description="Evaluation of the policy during training.")
    checkpoint_to: str | None = CHECKPOINT_TO

    @model_validator(mode="after")
    def _has_such_users(self) -> RLVESections:
        worlds = source_worlds(self.blueprints.recipe)
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


def world_size() -> int:
    """The number of processes that train together, as the launcher says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def parallel_mode(recipe: BaseRecipe) -> str:
    """The recipe's `parallel`, or the mode of an accelerate configuration given on the command line, which takes
    precedence.
    """
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return "fsdp2"
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true":
        return recipe.parallel
    file = os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
    if file == "none":
        return f"zero{int(os.environ.get('ACCELERATE_DEEPSPEED_ZERO_STAGE', '2'))}"
    return f"zero{int(read_json(file).data.get('zero_optimization', {}).get('stage', 0))}"  # DeepSpeed's own configuration


def has_sharded_weights(recipe: BaseRecipe) -> bool:
    """Whether the policy's weights will be sharded. ZeRO-3 shards even with one process."""
    how = parallel_mode(recipe)
    return how == "zero3" or (how == "fsdp2" and world_size() > 1)


def starts_without_weights(recipe: BaseRecipe) -> bool:
    """Whether this process gets its shards of the weights from the first one, which alone reads them."""
    return has_sharded_weights(recipe) and not is_main_process()


def refuse_untrainable(recipe: BaseRecipe) -> None:
    """Raise `InputError` for the first combination in the recipe that cannot be trained."""
    for what, where, remedy in _find_refusals(recipe):
        raise InputError(what, where=where, remedy=remedy)


def _find_refusals(recipe: BaseRecipe) -> Iterator[Refusal]:
    model: ModelSettings | None = getattr(recipe, "model", None)
    how = parallel_mode(recipe)
    if model and model.dtype == "float16" and isinstance(recipe, TrainingRecipe):
        remedy = "use bfloat16, or float32 on a GPU without it"  # float16 would need float32 masters and loss scaling
        yield "models are trained in bfloat16 or float32, and this one is to be float16", "model.dtype", remedy
    if model and model.attention not in (AUTO, "sdpa") and (recipe.cpu or model.dtype == "float32"):
        what = f"{model.attention} needs a GPU and a 16-bit number format"
        yield what, "model.attention", "use `auto`, or `sdpa`"
    if model and model.compile is True and how not in ("none", "ddp"):
        what = f"{how} hooks into the parts of a layer, so that it cannot be compiled whole"
        yield what, "model.compile", "use `auto`, or `parallel: ddp`"
    settings: SFTSettings | None = getattr(recipe, "sft", None)
    if settings and settings.muon and how.startswith("zero"):
        yield f"Muon needs matrices, and {how} flattens them", "sft.muon", "leave it out, or use `parallel: fsdp2` or `ddp`"
    yield from _find_rlve_refusals(recipe)


def _find_rlve_refusals(recipe: BaseRecipe) -> Iterator[Refusal]:
    if isinstance(recipe, RLVERecipe) and recipe.model.name is None:
        yield "RLVE starts from a trained model", "model.from_scratch", "give `model.name`"
    if not isinstance(recipe, RLVESections):
        return
    if folder := recipe.rlve.from_rollouts:
        if not (Path(folder) / "rollouts/tokens").is_dir():
            yield "no rollouts with tokens are there", folder, "play them first, with `rlve.store_tokens: true`"
        if recipe.rlve.async_rollouts:
            yield (
                "stored rollouts are not played ahead",
                "rlve.async_rollouts",
                "set it to 0 with `from_rollouts`",
            )
    if recipe.rlve.play_only:
        if recipe.run != "rlve":
            yield "a flywheel needs the model that `play_only` does not train", "rlve.play_only", "take `run: rlve`"
        if recipe.rlve.from_rollouts:
            yield "stored rollouts are not played again", "rlve.play_only", "leave out it, or `rlve.from_rollouts`"
        if has_sharded_weights(recipe) and not chosen_engine(recipe.rlve).has_own_weights:
            yield "a model that only plays is whole on each GPU", "parallel", "take `ddp`, or `kind: server` as the engine"
    if program := recipe.agent:
        if shutil.which(program.command[0], path=program.env.get("PATH")) is None:
            yield f"there is no program {program.command[0]}", "agent.command", "install it, or name its path"
        if unset := [name for name in program.pass_env if name not in os.environ]:
            yield f"the environment has no {unset[0]}", "agent.pass_env", f"set it (export {unset[0]}=...), or leave it out"
        if find_spec("mcp") is None:
            yield "a program reaches the world by MCP, whose package is not installed", "agent", "pip install 'homerl[mcp]'"
        if recipe.rlve.curriculum.prefix:
            yield (
                "a program has not had the dialogue in which `prefix` begins",
                "rlve.curriculum.prefix",
                "leave it out with `agent`",
            )
    yield from chosen_engine(recipe.rlve).refuse(recipe, parallel_mode(recipe))
