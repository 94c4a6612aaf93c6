"""Step-wise RLVE: GRPO on live dialogues with a reward at every step (HomeFlow 3.4.2), on TRL's GRPOTrainer.

Invariants:
- Only sampled tokens have an advantage: that of their own step. Sampled text is never tokenised again.
- Groups are formed over all ranks.
- Sampling is seeded by update and rank, so a resumed run samples what an uninterrupted run would. A checkpoint holds all
  that the next update depends on.

Differences from GRPO: each step has its own credit (`homerl/train/credit`) instead of one return for a rollout. Where
the sampler and the trainer may differ, truncated importance ratios weight the advantages. Difference from HomeFlow: the
policy does not see the goals Φ, since these would leak the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState
from trl import GRPOConfig, GRPOTrainer

from envs.documents import InputError
from homerl.play.trajectory import to_row, uniform_rows, write_rows
from homerl.train.common import (
    common_arguments,
    fit,
    load_policy,
    load_tokenizer,
    packed_updates,
    peft_config,
    reporters,
    with_kernels,
)  # fmt: skip
from homerl.train.credit.registry import in_groups, kept
from homerl.train.curriculum import Curriculum, difficulties
from homerl.train.distill import distilled, teacher_of
from homerl.train.engines.registry import engine_of
from homerl.train.evaluation import Evaluation
from homerl.train.objective import RolloutObjective
from homerl.train.panels import PanelsCallback
from homerl.train.parallel import ParallelTrainerMixin
from homerl.train.phases import Phases
from homerl.train.prefetch import RolloutPrefetcher
from homerl.train.prefixes import verified_in
from homerl.train.recipe import RLVERecipe
from homerl.train.refusals import in_shards, is_adapter, parallel_mode, refuse_untrainable, world_size
from homerl.train.rollout import Player, Rollout, blueprint_of
from homerl.train.sentinel import Sentinel, UpdateSignal, refuse_not_finite
from homerl.train.supply import Batch, RankContext, Supply, episode_metrics, hash_seed, part_metrics
from homerl.train.tensors import SampledTokens, ledgers, sampled_tokens
from homerl.train.transcripts import log_transcripts
from homerl.train.watchdog import Watchdog
from homerl.users.make import user_factory
from homerl.workarounds.whole_at_first import unsharded
from rewards.composite import PARTS


def train_rlve(recipe: RLVERecipe) -> Path:
    """Train as the recipe says; return the folder of the final model. Raises `InputError` for a recipe that cannot be
    trained.
    """
    from datasets import Dataset

    refuse_untrainable(recipe)
    tokenizer = load_tokenizer(recipe.model.name)
    settings = recipe.rlve
    rows = settings.updates * settings.blueprints_per_update
    with user_factory(recipe.user, recipe.out / "user_server.log") as make_user:
        engine = engine_of(settings).make(settings, tokenizer, recipe.seed, in_shards=in_shards(recipe))
        player = Player(engine, tokenizer, make_user, recipe.limits, recipe.rewards, settings.max_episode_tokens)
        arguments = grpo_arguments(recipe)
        with unsharded():
            trainer = RLVETrainer(
                recipe,
                player,
                model=with_kernels(load_policy(recipe.model, recipe.model.name), recipe),
                args=arguments,
                train_dataset=Dataset.from_dict({"prompt": [""] * rows}),  # the curriculum chooses the blueprints
                processing_class=tokenizer,
                peft_config=peft_config(recipe.model),
            )
        with Watchdog(trainer.phases, dict(recipe.deadlines)):
            return fit(trainer, tokenizer, recipe.out, settings.seconds, settings.iterations)


def grpo_arguments(recipe: RLVERecipe) -> GRPOConfig:
    """TRL's arguments: each of its steps is one optimizer update on all of a rank's rollouts, made `iterations` times.

    Raises `InputError` if the rollouts do not divide evenly over processes.
    """
    settings, processes = recipe.rlve, world_size()
    total = settings.blueprints_per_update * settings.group
    where = {"where": "rlve.blueprints_per_update", "remedy": "change it, rlve.group or the number of processes"}
    if total % processes:
        raise InputError(
            f"{settings.blueprints_per_update} blueprints x group {settings.group} = {total} rollouts do not divide "
            f"over {processes} processes", **where,
        )  # fmt: skip
    shared = common_arguments(recipe, settings) | {
        "save_steps": (settings.save_steps or 1) * settings.iterations,  # a resumed run plays new rollouts
    }
    return GRPOConfig(
        **shared,
        per_device_train_batch_size=total // processes,
        max_steps=settings.updates * settings.iterations,
        num_generations=settings.group,
        num_iterations=settings.iterations,
        steps_per_generation=1,
        max_completion_length=settings.max_episode_tokens,
        temperature=settings.temperature,
        top_p=1.0,
        top_k=0,
        beta=settings.kl,
        entropy_coef=settings.entropy,
        scale_rewards="group",
        mask_truncated_completions=False,
        model_init_kwargs={"device_map": None} if parallel_mode(recipe) == "fsdp2" else None,  # for TRL's reference model
        shuffle_dataset=False,
        vllm_importance_sampling_correction=False,  # `RolloutObjective` corrects, for every engine
        **engine_of(settings).arguments(settings),
    )


def part_rewards() -> list[Any]:
    """One reward function for each reward part, so that TRL logs each. They return what the rollout has computed already."""

    def reader(name: str) -> Any:
        def read(reward_parts: Sequence[Mapping[str, float]], **_: Any) -> list[float]:
            return [parts[name] for parts in reward_parts]

        read.__name__ = name
        return read

    return [reader(name) for name in PARTS]


class StateOf(TrainerCallback, ExportableState):
    """Stores a part of the run in `trainer_state.json`, which is written last and is read by every rank."""

    def __init__(self, part: Curriculum | Sentinel) -> None:
        self.part = part

    def state(self) -> dict[str, Any]:
        """The part's state, for the checkpoint."""
        return {"args": {}, "attributes": self.part.state()}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restore the part of a resumed run."""
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved:
            self.part.load(saved["attributes"])


class CurriculumState(StateOf):
    """The curriculum's, by the name of this class."""


class SentinelState(StateOf):
    """The sentinel's."""


class RLVETrainer(ParallelTrainerMixin, GRPOTrainer):
    """A GRPOTrainer whose rollouts are episodes, and whose advantages are those of steps."""

    def __init__(self, recipe: RLVERecipe, player: Player, **kwargs: Any) -> None:
        self.recipe, self.player = recipe, player
        self.batch: Batch | None = None
        self.tokens: SampledTokens
        self.sentinel = Sentinel(recipe.sentinel, taught=recipe.rlve.distill is not None)
        super().__init__(reward_funcs=part_rewards(), rollout_func=RLVETrainer.roll, **kwargs)
        if self.ref_model is not None and is_adapter(recipe.model.name):  # TRL has loaded the adapter's base
            start = self.accelerator.unwrap_model(self.model).state_dict()
            self.accelerator.unwrap_model(self.ref_model).load_state_dict(start)
        self.updates = packed_updates(self, recipe)
        self.teacher = teacher_of(recipe, self)
        self._supply()

    def _supply(self) -> None:
        """Create the sources of rollouts, and the evaluation and callbacks that observe them."""
        recipe, state = self.recipe, self.accelerator
        self.phases = Phases(recipe.out / "ranks", state.process_index, detail=lambda: self.player.waiting)
        ranks = RankContext(state.process_index, state.num_processes, self._gather)
        curriculum = Curriculum(
            recipe.rlve.curriculum, recipe.blueprints, recipe.seed, difficulties(recipe.rlve.curriculum, recipe.blueprints)
        )
        blueprint = blueprint_of(recipe.blueprints.recipe, recipe.user.behaviours)
        verified = verified_in(recipe.rlve.curriculum.prefix, recipe.blueprints, blueprint)
        supply = Supply(recipe.rlve, recipe.seed, self.player, blueprint, curriculum, ranks, verified)
        self.prefetcher = RolloutPrefetcher(supply, recipe.rlve.async_rollouts, self.args.max_steps)
        self.player.engine.attach(self, self.phases)
        self.evaluation = Evaluation(recipe, self.player, ranks)
        self.add_callback(CurriculumState(curriculum))
        self.add_callback(SentinelState(self.sentinel))
        self.add_callback(PanelsCallback(reporters(recipe), recipe.out))

    @property
    def rollouts(self) -> list[Rollout]:
        """This rank's rollouts of the update in training."""
        return [rollout for rollout, _ in self.batch.mine()] if self.batch else []

    @property
    def batches(self) -> int:
        """The number of batches of rollouts that were trained on: the recipe's updates."""
        return self.state.global_step // self.num_iterations

    def _gather(self, rows: list[Any]) -> list[Any]:
        with self.phases.phase("collective", "idle", waits=True):
            return gather_object(rows)

    @staticmethod
    def roll(prompts: list[str], trainer: RLVETrainer) -> dict[str, list]:
        """TRL's rollout function: play the blueprints that the curriculum chose, and return their tokens."""
        update, rank, phases = trainer.state.global_step, trainer.accelerator.process_index, trainer.phases
        phases.update = update

        def sync() -> None:
            with phases.phase("sync"):
                trainer.player.engine.sync(update)
            trainer.evaluate_policy()
            torch.manual_seed(hash_seed(trainer.recipe.seed, update, rank))

        with phases.phase("rollout", "idle" if trainer.prefetcher.k else "rollout"), trainer.player.engine.awake():
            trainer.batch = trainer.prefetcher.take(update, sync)
        trainer._settle_time()
        phases.training(update)
        trainer.tokens = sampled_tokens(trainer.batch.mine())
        return ledgers(trainer.rollouts) | {"reward_parts": [part_totals(rollout) for rollout in trainer.rollouts]}

    def _evaluate_last(self) -> None:
        """Evaluate the final weights, if an evaluation is due."""
        if self.evaluation.due(self.batches):
            self.player.engine.sync(self.state.global_step)
            with self.player.engine.awake():
                self.evaluate_policy()

    def evaluate_policy(self) -> None:
        """Evaluate the policy if it is due: play the held-out blueprints, log the metrics, and keep the best model."""
        if not self.evaluation.due(self.batches):
            return
        torch.manual_seed(hash_seed(self.recipe.seed, -1, self.accelerator.process_index))
        with self.phases.phase("rollout"):
            figures = self.evaluation.play(self.prefetcher.run)
        for name, value in figures.items():
            self._metrics["train"][name].append(value)
        with self.phases.phase("train"):
            self.evaluation.keep(self.batches, figures, self.save_model)
        self.player.waiting.take()

    def _settle_time(self) -> None:
        """Divide the time of the rollouts: the policy, waiting for users, the world, and rewards."""
        seconds = self.player.waiting.take()
        for share in ("user", "world", "reward") if not self.prefetcher.k else ():
            self.phases.move("rollout", share, seconds[share])

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Play the rollouts of an update, if its last iteration is over, and make one optimizer update's gradients."""
        model.train()  # TRL keeps metrics by mode
        if self._step % self.num_iterations == 0 or self._buffered_inputs is None:
            self._buffered_inputs = self._generate_and_score_completions(inputs)
        stored, state = self._buffered_inputs, self.accelerator
        objective = RolloutObjective(
            self.tokens, self.recipe.rlve, self.state.global_step, int(stored["num_items_in_batch"]), state.num_processes,
            state.device, stored.get("old_per_token_logps"), stored.get("ref_per_token_logps"),
        )  # fmt: skip
        self._step += 1
        loss, sums = self.updates.train(model, self.tokens.sequences, objective, self._check)
        self._record(objective.figures(self.accelerator.reduce(sums).tolist()))
        return loss

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        self._distill(output.get("old_per_token_logps"))
        self._report(self.batch)
        return output

    def _distill(self, known: torch.Tensor | None) -> None:
        """Let the teacher, if there is one, judge this rank's tokens. All ranks call it together.

        `known` are the policy's own log-probabilities, of shape (tokens,), if they were computed.
        """
        if self.teacher is None:
            return
        settings, counts = self.recipe.rlve, [rollout.trajectory.outcome.counts for rollout in self.rollouts]
        judged = self.teacher.logps(self.tokens.sequences)
        if settings.exact:
            own = self.tokens.logps
        else:
            own = (self.updates.scores(self.model, self.tokens.sequences) if known is None else known).cpu().numpy()
        self.tokens, sums = distilled(self.tokens, counts, judged, own, settings.distill)
        gap, tokens = self.accelerator.reduce(torch.tensor(sums, device=self.accelerator.device).float()).tolist()
        self._metrics["train"]["distill/kl"].append(-gap / max(1.0, tokens))

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> tuple:
        """The log-probabilities of the update's sampled tokens, of shape (tokens,). TRL hands them on as they are."""
        return self.updates.scores(model, self.tokens.sequences), None, None

    def _check(self, loss: torch.Tensor) -> None:
        """Stop all ranks if the loss of one is not finite, before weights are changed."""
        refuse_not_finite(self.accelerator.reduce(loss, reduction="mean").item())

    def _record(self, figures: dict[str, float]) -> None:
        """Log the metrics of an optimizer update, and keep what the sentinel watches."""
        self.sentinel.trained = {
            "sentinel/logp_gap": figures["sentinel/logp_gap"], "sentinel/entropy": figures["entropy"],
        }  # fmt: skip
        for name, value in (figures | self.updates.take()).items():
            self._metrics["train"][name].append(value)

    def _report(self, batch: Batch) -> None:
        """Log the metrics of the update and let the sentinel check them. It is the same on every rank."""
        played = [row["played"] for row in batch.rows]
        returns = [sum(p.rewards) for p in played]
        compared = [one for group in in_groups(played, self.recipe.rlve.group) for one in kept(group)]
        lengths = [row["lengths"] for row in batch.rows]
        signal = UpdateSignal(batch.credit, lengths, returns, compared, self.recipe.rlve.group)
        parts = part_metrics(batch.rows, self.recipe.blueprints.recipe)
        metrics = signal.metrics() | episode_metrics(batch.rows) | parts | batch.shares
        for name, value in (metrics | self.player.metrics()).items():
            self._metrics["train"][name].append(value)
        self.sentinel.watch(metrics)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log metrics with the shares of time; the first process writes the update's rollouts and transcripts."""
        if "train_runtime" in logs:  # the end of training, while the reporters are still open
            self._evaluate_last()
        if "loss" in logs:
            logs |= self.phases.take()
        super().log(logs, start_time)
        if self.accelerator.is_main_process and self.rollouts and "reward" in logs:
            folder = self.recipe.out / "rollouts"
            folder.mkdir(parents=True, exist_ok=True)
            trajectories = [rollout.trajectory for rollout in self.rollouts]
            rows = uniform_rows(lambda: map(to_row, trajectories))
            write_rows(folder / f"update_{self.state.global_step:06d}.jsonl", rows)
            log_transcripts(self.recipe, trajectories, self.state.global_step)


def part_totals(rollout: Rollout) -> dict[str, float]:
    """The sum of each reward part over the policy's own steps of a rollout."""
    return {name: sum(parts[name] for parts in rollout.trajectory.rewards[rollout.made :]) for name in PARTS}
