"""Recipes: one YAML file a run, checked whole before any work.

Invariants: unknown keys are refused; a recipe that loads says everything a run needs, seeds included; nothing
here imports torch. `run:` says which kind it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from envs.documents import InputError, validate
from envs.model import Model
from homerl import config
from homerl.blueprints.author import BlueprintRecipe
from homerl.episode import EpisodeLimits
from homerl.flow.config import SynthesisConfig
from homerl.settings import EndpointSettings, UserSettings
from homerl.train.tiny import TinyConfig
from homerl.worlds import AnyBlueprintRecipe, AnyBlueprintSource, is_simuhome
from rewards.composite import RewardWeights

Parallel = Literal["none", "ddp", "zero2", "zero3", "fsdp2"]


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


class WandbSettings(Model):
    """Where runs are monitored. `offline` writes beside the run; `wandb sync` uploads it later."""

    mode: Literal["online", "offline", "disabled"] = "online"
    project: str = "homerl"
    entity: str | None = None
    transcripts: bool = Field(True, description="log dialogues; turn off where they may hold personal text")


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


class BranchSettings(Model):
    """`credit: branch`: of a group's rollouts, `roots` begin at the start and the others at a fork of a root, which then
    has `siblings` members, the root among them. `group` is the budget."""

    roots: int = Field(2, ge=2)
    siblings: int = Field(3, ge=2)
    horizon: int = Field(4, ge=1, description="forks lie at steps 1 to this, counted from 0")


class EngineSettings(Model):
    """What samples the policy: transformers' `generate` (anywhere), its continuous batching (one GPU, no vLLM), vLLM beside
    the trainer on the same GPUs, or a vLLM server on others."""

    kind: Literal["transformers", "continuous", "vllm", "server"] = "transformers"
    batch: int = Field(64, ge=1, description="of `transformers`: prompts at a time")
    gpu_memory: float = Field(0.35, gt=0, lt=1, description="of `vllm` and `continuous`: share of each GPU's memory")
    sleep: bool = Field(True, description="of `vllm`: give the memory back while the trainer works")
    url: str | None = Field(None, pattern=r"^https?://.*[^/]$", description="of `server`, as http://host:8000")
    group_port: int = Field(51216, description="of `server`: port by which weights go there")
    timeout: float = Field(300.0, gt=0, description="of `server`: seconds for one request")
    deadline: float = Field(900.0, gt=0, description="of `server`: seconds for all of its tries")
    retries: int = Field(3, ge=0, description="of `server`: further tries after the first")

    @model_validator(mode="after")
    def _reachable(self) -> EngineSettings:
        if (self.kind == "server") != (self.url is not None):
            raise ValueError("`url` goes with `kind: server`, and the other way round")
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


class RLVESettings(OptimSettings):
    """Step-wise RLVE (HomeFlow 3.4.2, Table 9)."""

    learning_rate: float = 1e-6
    updates: int = Field(500, ge=1)
    blueprints_per_update: int = Field(32, ge=1)
    group: int = Field(8, ge=2)
    iterations: int = Field(1, ge=1)
    credit: Literal["trajectory", "step", "anchor", "branch"] = "step"
    baseline: Literal["pooled", "index"] = Field("pooled", description="of `step`")
    anchor_weight: float = Field(1.0, ge=0, description="of `anchor`: ω, the state's advantage beside the trajectory's")
    branch: BranchSettings = BranchSettings()
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

    @property
    def exact(self) -> bool:
        """Whether what is sampled is sampled by the trainer's own forward pass, with the weights being trained."""
        return self.engine.kind == "transformers" and self.async_rollouts == 0

    @model_validator(mode="after")
    def _fits(self) -> RLVESettings:
        if self.async_rollouts and self.engine.kind not in ("transformers", "server"):
            raise ValueError(f"engine {self.engine.kind} shares the trainer's GPU, so `async_rollouts` is 0 with it")
        if self.async_rollouts and self.iterations > 1:
            raise ValueError("`async_rollouts` counts updates of one iteration each")
        if self.credit == "branch" and self.group <= self.branch.roots:
            raise ValueError(f"a group of {self.group} with {self.branch.roots} roots leaves nothing to branch")
        return self


class BlueprintSource(Model):
    """Blueprints by seed: `count` of them from `first_seed` on; by a recipe, or a `file` of one's own (JSON Lines)."""

    recipe: AnyBlueprintSource = BlueprintRecipe()
    count: int = Field(10000, ge=1)
    first_seed: int = 1_000_000


class SuiteSettings(Model):
    """A held-out suite: other seeds, users and sentences than training's, by construction. With `benchmark`, `count`
    instances of a shipped one, spread evenly over it, with its own limits; or over its easier half."""

    name: str = "heldout"
    recipe: AnyBlueprintRecipe = BlueprintRecipe()
    count: int = Field(500, ge=1)
    first_seed: int = 0
    benchmark: Literal["smarthome-bench", "smh-bench"] | None = None
    easier_half: bool = Field(False, description="of `benchmark`: the instances in simple homes")

    @model_validator(mode="after")
    def _of_one_kind(self) -> SuiteSettings:
        if self.benchmark and (self.recipe != BlueprintRecipe() or self.first_seed):
            raise ValueError("a benchmark has its own tasks: leave out `recipe` and `first_seed`")
        if self.easier_half and not self.benchmark:
            raise ValueError("`easier_half` is of a `benchmark`")
        return self


class BenchSettings(Model):
    """How a model is evaluated."""

    suites: tuple[SuiteSettings, ...] = (SuiteSettings(),)
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = 1024
    batch: int = Field(64, ge=1)
    limits: EpisodeLimits = EpisodeLimits()


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


class Base(Model):
    """What every recipe says."""

    homerl: Literal[1]
    seed: int = 0
    out: Path = Path("runs/run")
    parallel: Parallel = "ddp"
    processes: int | None = Field(None, description="processes that `flywheel` starts a stage with; workers of `synth`")
    cpu: bool = False
    wandb: WandbSettings = WandbSettings()
    report_to: tuple[Literal["wandb", "trackio", "tensorboard"], ...] = ("wandb",)


class SynthRecipe(Base):
    run: Literal["synth"]
    synth: SynthesisConfig = SynthesisConfig()
    ray: str | None = Field(None, description="address of a Ray cluster to spread over; `local` starts one here")


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
        if is_simuhome(self.blueprints.recipe) and self.user.kind != "scripted":
            raise ValueError("SimuHome's user speaks once, from the blueprint: write `user: {kind: scripted}`")
        return self


class RLVERecipe(RLVESections):
    run: Literal["rlve"]


class BenchRecipe(Base):
    run: Literal["bench"]
    model: ModelSettings
    bench: BenchSettings = BenchSettings()


class FlywheelRecipe(RLVESections):
    """All stages in order: synthesis, SFT, RLVE, and a benchmark of each model on the way."""

    run: Literal["flywheel"]
    synth: SynthesisConfig = SynthesisConfig()
    sft: SFTSettings = SFTSettings()
    bench: BenchSettings = BenchSettings()


Recipe = SynthRecipe | SFTRecipe | RLVERecipe | BenchRecipe | FlywheelRecipe
PARTS = ("user", "agent", "author")  # that `serve-user` serves
KINDS: dict[str, type[Base]] = {
    "synth": SynthRecipe, "sft": SFTRecipe, "rlve": RLVERecipe, "bench": BenchRecipe, "flywheel": FlywheelRecipe,
}  # fmt: skip


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Find, extend, override and check a recipe, or raise `InputError` naming file, line and key."""
    data, document = config.load(path, overrides)
    kind = data.get("run")
    if kind not in KINDS:
        raise InputError(
            f"run: {kind!r} is not a kind of run", where=str(path), remedy=f"write `run:` with one of {', '.join(KINDS)}"
        )
    return validate(KINDS[kind], document)


def resolved(recipe: Recipe) -> dict[str, Any]:
    """The whole recipe as plain data, defaults included."""
    return recipe.model_dump(mode="json")


def party(recipe: Base, part: str, path: str) -> tuple[str, EndpointSettings]:
    """The key and settings of the model that plays a part, or `InputError` where the recipe has none."""
    if part == "user" and isinstance(recipe, RLVESections):
        return "user", recipe.user
    settings = getattr(getattr(recipe, "synth", None), part, None)
    if settings is None:
        raise InputError(
            f"a recipe of `run: {recipe.run}` without a model as its {part}", path, "name another recipe or part"
        )
    return f"synth.{part}", settings
