"""Step-wise RLVE: reinforcement learning on live dialogues with a reward at every step (HomeFlow 3.4.2).

An update reads from top to bottom in `RLVETrainer.training_step`. transformers' Trainer has the rest: the optimizer's step,
the schedule, checkpoints and callbacks. From the rollouts to the new weights an update passes these files, in this order:

1. `update/rlve.py`, this file: `training_step` asks for the rollouts of an update, and returns its loss.
2. `data/rollout_batches.py`: `RolloutPrefetcher.take_batch` lets the engine take the new weights (7), plays groups of
   rollouts, exchanges them between ranks, and hands on a `RolloutBatch`: this rank's rollouts, with an advantage a step.
   `credit_group` there asks the recipe's credit mode for these advantages, group by group.
3. `credit/step.py`, or another mode's file: computes them from the step rewards.
4. `update/objective.py`: `collect_sampled_tokens` turns rollouts and advantages into arrays by token, `SampledTokens`.
   `RolloutObjective` hands on the loss of each pass, and the sums for the metrics.
5. `losses/clipped.py`, or the file of another loss: the loss of each token, and its weight.
6. `packing/packed_updates.py`: `train_on_sequences` packs the sequences into rows, forwards and backwards row by row, and
   leaves the gradients of the update in the model. transformers then makes the optimizer's step.
7. `engines/weight_sync.py`: `sync` sends the new weights to the sampler, before the next rollouts.

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

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch.nn import Module
from torch.utils.data import DataLoader
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.integrations import WandbCallback
from transformers.trainer_callback import ExportableState

from homerl.envs.core.documents import InputError
from homerl.train.data.curriculum import Curriculum
from homerl.train.data.rollout import Rollout, RolloutPlayer
from homerl.train.data.rollout_batches import (
    RankContext,
    RolloutBatch,
    RolloutPrefetcher,
    episode_metrics,
    hash_seed,
    make_rollout_supply,
    reward_metrics,
    world_metrics,
)
from homerl.train.data.stored_rollouts import write_update_rollouts
from homerl.train.engines.contract import chosen_engine
from homerl.train.model_sources import download_hub_weights, read_max_positions
from homerl.train.packing.packed_updates import largest_rounding_gap
from homerl.train.parallel.parallel_trainer import ParallelTrainer
from homerl.train.recipe import RLVERecipe, has_sharded_weights, refuse_untrainable, world_size
from homerl.train.tensor_shapes import TokenLogps
from homerl.train.training_setup import (
    load_chat_tokenizer,
    load_trainable_model,
    make_trainer_updates,
    shared_training_arguments,
    train_and_save_model,
)
from homerl.train.update.distillation import add_teacher_advantages, make_teacher
from homerl.train.update.evaluation import HeldOutEvaluation
from homerl.train.update.objective import RolloutObjective, SampledTokens, collect_sampled_tokens
from homerl.train.update.play_only import play_all_updates
from homerl.train.update.policy_and_reference import ReferenceModel, add_scoring_head, prepare_policy
from homerl.train.update.weights_digest import digest_weights
from homerl.train.watch.lost_signal import Sentinel, refuse_other_sampler, signal_metrics
from homerl.train.watch.metrics_log import PanelsCallback, WandbScalars, log_artifacts, log_transcripts, metric_reporters
from homerl.train.watch.phase_deadlines import PhaseTimer, Watchdog
from homerl.train.watch.throughput import ThroughputMeter
from homerl.train.workarounds import load_unsharded
from homerl.worlds.users import open_user_factory


def train_rlve(recipe: RLVERecipe) -> Path:
    """Train as the recipe says; return the folder of the final model, or of the rollouts if it only plays. Raises
    `InputError` for a recipe that cannot be trained.
    """
    refuse_untrainable(recipe)
    source, settings = str(recipe.model.name), recipe.rlve
    download_hub_weights(source)
    tokenizer = load_chat_tokenizer(source, named=recipe.model.shows_tool_names_only)
    with open_user_factory(recipe.user, recipe.out / "user_server.log") as make_user:
        engine = chosen_engine(settings).make(settings, tokenizer, recipe.seed, in_shards=has_sharded_weights(recipe))
        player = RolloutPlayer(
            engine,
            tokenizer,
            make_user,
            recipe.limits,
            recipe.rewards,
            min(settings.max_episode_tokens, read_max_positions(source) or settings.max_episode_tokens),
            settings.thoughts,
            settings.truncated == "masked",
            recipe.agent,
        )
        arguments = make_rlve_arguments(recipe)
        if settings.play_only:
            return play_all_updates(recipe, player, tokenizer)
        with load_unsharded():
            trainer = RLVETrainer(recipe, player, load_trainable_model(recipe, source), tokenizer, arguments)
        with Watchdog(trainer.phases, dict(recipe.deadlines)):
            model = train_and_save_model(
                trainer, tokenizer, recipe.out, settings.seconds, settings.iterations, recipe.checkpoint_to
            )
        if trainer.accelerator.is_main_process:
            log_artifacts(recipe)
        return model


def make_rlve_arguments(recipe: RLVERecipe) -> TrainingArguments:
    """transformers' arguments: each of its steps is one optimizer update on all of a rank's rollouts, made `iterations`
    times.

    Raises `InputError` if the rollouts do not divide evenly over processes, and for a process that sees several GPUs.
    """
    settings, processes = recipe.rlve, world_size()
    total = settings.blueprints_per_update * settings.group
    if total % processes:
        raise InputError(
            f"{settings.blueprints_per_update} blueprints x group {settings.group} = {total} rollouts do not divide "
            f"over {processes} processes",
            "rlve.blueprints_per_update",
            "change it, rlve.group or the number of processes",
        )
    shared = shared_training_arguments(recipe, settings) | {
        "save_steps": (settings.save_steps or 1) * settings.iterations,  # a resumed run plays new rollouts
        "logging_steps": settings.log_steps * settings.iterations,
        "logging_first_step": settings.iterations == 1,  # else a line would have half an update
    }
    steps = settings.updates * settings.iterations  # a step of transformers' trainer is one optimizer update
    arguments = TrainingArguments(**shared, per_device_train_batch_size=total // processes, max_steps=steps)
    if arguments.n_gpu > 1:  # transformers would copy the model to each of them for every pass
        remedy = "start a process for each (`accelerate launch --num_processes`), or show it one (CUDA_VISIBLE_DEVICES)"
        raise InputError(f"one process sees {arguments.n_gpu} GPUs", "processes", remedy)
    return arguments


class CheckpointedState(TrainerCallback, ExportableState):
    """Stores a part of the run in `trainer_state.json`, which is written last and is read by every rank."""

    def __init__(self, part: Curriculum | Sentinel) -> None:
        self.part = part

    def state(self) -> dict[str, Any]:
        """The part's state, for the checkpoint."""
        return {"args": {}, "attributes": self.part.checkpoint_state()}

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Restore the part of a resumed run."""
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved:
            self.part.restore_state(saved["attributes"])


class CurriculumState(CheckpointedState):
    """The curriculum's. Checkpoints keep it under the name of this class."""


class SentinelState(CheckpointedState):
    """The sentinel's, in the same way."""


class RLVETrainer(ParallelTrainer):
    """Trains a policy on its own episodes, with the credit of their steps."""

    def __init__(
        self,
        recipe: RLVERecipe,
        player: RolloutPlayer,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        arguments: TrainingArguments,
    ) -> None:
        self.recipe, self.player, self.steps = recipe, player, arguments.max_steps
        self.batch: RolloutBatch | None = None
        self.compared = False  # with the sampler
        self.sentinel = Sentinel(recipe.sentinel, distilled=recipe.rlve.distill is not None)
        self._metrics: defaultdict[str, list[float]] = defaultdict(list)  # since the last log
        self.reference = ReferenceModel(recipe, model)  # before the policy gets an adapter or another head
        set_seed(recipe.seed)  # adapters begin at random
        super().__init__(prepare_policy(model, recipe, tokenizer), arguments, processing_class=tokenizer)
        state, settings = self.accelerator, recipe.rlve
        self.phases = PhaseTimer(
            recipe.out / "ranks", state.process_index, detail=lambda: self.player.waiting, ranks=state.num_processes
        )
        # the sources of rollouts
        ranks = RankContext(state.process_index, state.num_processes, self._gather_rows)
        supply = make_rollout_supply(recipe, player, ranks)
        self.prefetcher = RolloutPrefetcher(supply, settings.async_rollouts, self.steps)
        player.engine.attach(self, self.phases)  # the weights are not yet in shards, as they are once training begins
        # what observes them
        self.evaluation = HeldOutEvaluation(recipe, player, ranks)
        self.add_callback(CurriculumState(supply.curriculum))
        self.add_callback(SentinelState(self.sentinel))
        if "wandb" in (reporters := metric_reporters(recipe)):
            self.pop_callback(WandbCallback)
            self.add_callback(WandbScalars())
        self.add_callback(PanelsCallback(reporters, recipe.out))
        rollouts = arguments.per_device_train_batch_size * state.num_processes
        self.meter = ThroughputMeter(self.model, rollouts / settings.iterations, state.num_processes)
        self.add_callback(self.meter)
        # what trains on them; the head comes after the sampler has made its copy, whose head is its own
        add_scoring_head(self.model, settings, "entropy")
        self.reference.place_on_device(state)
        self.updates = make_trainer_updates(self, recipe)
        self.teacher = make_teacher(recipe, tokenizer, self.updates)

    @property
    def batch_rollouts(self) -> list[Rollout]:
        """This rank's rollouts of the update in training."""
        return [rollout for rollout, _ in self.batch.own_rollouts()] if self.batch else []

    def get_train_dataloader(self) -> DataLoader:
        """The numbers of all steps, the same on every rank: what is trained on is played."""
        return DataLoader(range(self.steps), collate_fn=list)

    def training_step(self, model: Module, inputs: list[int], num_items_in_batch: Any = None) -> torch.Tensor:
        """The gradients of one optimizer step; transformers makes the step. Rollouts are trained on `iterations` times."""
        (step,), settings, ranks, lora = inputs, self.recipe.rlve, self.accelerator, self.recipe.model.lora
        model.train()
        if self.batch is None or step % settings.iterations == 0:
            self.batch = self.play_rollouts(step)  # episodes of all ranks, with the credit of their steps
            # what is scored before the first of several optimizer steps stays the same in all of them
            tokens = collect_sampled_tokens(self.batch.own_rollouts())
            self._compare_with_sampler(tokens, step)
            global_tokens = self._count_tokens(tokens)
            old_logps = reference_logps = None
            if settings.iterations > 1:  # with one, the loss takes those of its own pass
                old_logps = self.updates.score_sequences(self.model, tokens.sequences)
            if settings.kl:
                with self.reference.use_reference(self.model, ranks) as reference:
                    reference_logps = self.updates.score_sequences(reference, tokens.sequences)
            tokens = self._add_teacher(tokens, old_logps)
            self.objective = RolloutObjective(
                tokens,
                settings,
                step,
                global_tokens,
                ranks.num_processes,
                ranks.device,
                old_logps,
                reference_logps,
                dropout=lora is not None and lora.dropout > 0,
            )
            self._report_rollouts(self.batch)
        sequences = self.objective.tokens.sequences
        loss, sums = self.updates.train_on_sequences(model, sequences, self.objective, self.check_loss)  # by passes
        # sums over all ranks, of which metrics are means: a mean of the ranks' means would weigh tokens unequally
        metrics = self.objective.objective_metrics(ranks.reduce(sums).tolist())
        self.sentinel.update_metrics = {
            "sentinel/logp_gap": metrics["sentinel/logp_gap"],
            "sentinel/entropy": metrics["entropy"],
        }
        self._add_metrics({**metrics, **self.updates.take_packing_metrics()})
        return loss

    def play_rollouts(self, update: int) -> RolloutBatch:
        """Play the blueprints that the curriculum chose, with the weights of the update."""
        phases, engine, settings = self.phases, self.player.engine, self.recipe.rlve
        phases.update = update
        if settings.store_tokens or settings.from_rollouts:
            policy = self.accelerator.unwrap_model(self.model_wrapped)
            self.prefetcher.supply.digests[update] = digest_weights(policy)

        def sync() -> None:
            with phases.enter_phase("sync"):
                engine.sync(update)
            self.evaluate_policy()
            # a resumed run samples what an uninterrupted one would, whether or not an evaluation came before
            torch.manual_seed(hash_seed(self.recipe.seed, update, self.accelerator.process_index))

        with phases.enter_phase("rollout", "idle" if self.prefetcher.k else "rollout"), engine.awake():
            batch = self.prefetcher.take_batch(update, sync)
        seconds = self.player.waiting.take_wait_seconds()
        # of rollouts ahead, which take no time of the trainer's own, only the wait counts
        for share in ("user", "world", "reward") if not self.prefetcher.k else ():
            phases.move_seconds("rollout", share, seconds[share])
        phases.begin_training(update)
        return batch

    def _compare_with_sampler(self, tokens: SampledTokens, update: int) -> None:
        """Once in a run, also one that was resumed: compare an episode's log-probabilities with the trainer's own.

        All ranks call it together. Raises `SignalLost` on all of them if the sampler's are others.
        """
        if self.compared:
            return
        self.compared = True
        known = (tokens.versions == update) & np.isfinite(tokens.logps)
        parts = [slice(start, end) for start, end in pairwise(tokens.starts)]
        told = [i for i, part in enumerate(parts) if known[part].any()] or [0]
        shortest = min(told, key=lambda i: len(tokens.sequences[i].ids))
        part = parts[shortest]
        own = self.updates.score_sequences(self.model, tokens.sequences[shortest : shortest + 1]).cpu().numpy()
        gaps = np.abs(own - tokens.logps[part])[known[part]]
        sums = torch.tensor([gaps.sum(), len(gaps)], dtype=torch.float32, device=self.accelerator.device)
        gap, count = self.accelerator.reduce(sums).tolist()
        half = self.updates.half or not chosen_engine(self.recipe.rlve).exact  # another engine has its own number format
        refuse_other_sampler(gap / max(1, count), largest_rounding_gap(half, self.accelerator.device.type))

    def _count_tokens(self, tokens: SampledTokens) -> int:
        """The number of sampled tokens of all ranks."""
        sampled = sum(tokens.rollout_lengths)
        read = sum(ledger.prompt_length for rollout in self.batch_rollouts for ledger in rollout.ledgers)
        counts = torch.tensor([sampled, read], device=self.accelerator.device)
        global_tokens, prompts = map(int, self.accelerator.reduce(counts).tolist())
        self.state.num_input_tokens_seen += global_tokens + prompts  # transformers keeps it in checkpoints
        self._metrics["num_tokens"] = [self.state.num_input_tokens_seen]
        return global_tokens

    def _add_teacher(self, tokens: SampledTokens, old_logps: TokenLogps | None) -> SampledTokens:
        """The tokens with advantages of the teacher, if there is one. All ranks call it together.

        `old_logps` are the policy's own log-probabilities, if they were computed.
        """
        settings = self.recipe.rlve
        if self.teacher is None or settings.distill is None:
            return tokens
        valid = [rollout.trajectory.outcome.is_counted for rollout in self.batch_rollouts for _ in rollout.ledgers]
        teacher_logps = self.teacher.score_targets(tokens.sequences)
        if settings.is_exactly_on_policy and not settings.from_rollouts:  # stored ones may be of other weights
            logps = tokens.logps
        else:
            found = self.updates.score_sequences(self.model, tokens.sequences) if old_logps is None else old_logps
            logps = found.cpu().numpy()
        tokens, sums = add_teacher_advantages(tokens, valid, teacher_logps, logps, settings.distill)
        gap, taught = self.accelerator.reduce(torch.tensor(sums, device=self.accelerator.device).float()).tolist()
        self._add_metrics({"distill/kl": -gap / max(1.0, taught)})
        return tokens

    @property
    def trained_batches(self) -> int:
        """The number of batches of rollouts that were trained on: the recipe's updates."""
        return int(self.state.global_step) // self.recipe.rlve.iterations

    def evaluate_policy(self) -> None:
        """Evaluate the policy if it is due: play the held-out blueprints, log the metrics, and keep the best model."""
        if not self.evaluation.is_evaluation_due(self.trained_batches):
            return
        torch.manual_seed(hash_seed(self.recipe.seed, -1, self.accelerator.process_index))
        with self.phases.enter_phase("rollout"):
            metrics = self.evaluation.play_held_out(self.prefetcher.run)
        super().log(dict(metrics))  # at once: a mean over several policies would be none of them
        with self.phases.enter_phase("train"):
            self.evaluation.keep_best_model(self.trained_batches, metrics, self.save_model)
        self.player.waiting.take_wait_seconds()

    def _gather_rows(self, rows: list[Any]) -> list[Any]:
        with self.phases.enter_phase("collective", "idle", waits=True):
            return list(gather_object(rows))

    def _report_rollouts(self, batch: RolloutBatch) -> None:
        """Log the metrics of the update and let the sentinel check them. They are the same on every rank."""
        rows = batch.rows
        lengths, returns = [row["trained"] for row in rows], [sum(row["played"].rewards) for row in rows]
        valid = [row["played"].counts for row in rows]
        signal = signal_metrics(batch.advantages, lengths, returns, valid, self.recipe.rlve.group)
        parts = world_metrics(rows, self.recipe.blueprints.recipe)
        metrics = reward_metrics(rows) | signal | episode_metrics(rows) | parts | batch.metrics
        self._add_metrics(metrics | self.player.play_metrics())
        self.sentinel.check_update(metrics)

    def _add_metrics(self, metrics: Mapping[str, float]) -> None:
        """Keep metrics for the next log, which has their means."""
        for name, value in metrics.items():
            self._metrics[name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log metrics with the shares of time; the first process writes the update's rollouts and transcripts."""
        at_the_end = "train_runtime" in logs  # the reporters are still open
        if at_the_end and self.evaluation.is_evaluation_due(self.trained_batches):
            self.player.engine.sync(self.state.global_step)
            with self.player.engine.awake():
                self.evaluate_policy()
        if "loss" in logs:
            logs |= (shares := self.phases.take_time_shares())
            logs |= self.meter.measure(self.state, self.accelerator.device, shares["time/train"])
        known = {name: [value for value in values if not math.isnan(value)] for name, values in self._metrics.items()}
        logs |= {name: fmean(values) for name, values in known.items() if values}
        self._metrics.clear()
        super().log(logs, start_time)
        if self.accelerator.is_main_process and self.batch_rollouts and "reward" in logs:
            trajectories = [rollout.trajectory for rollout in self.batch_rollouts]
            write_update_rollouts(self.recipe.out, self.trained_batches, trajectories)
            log_transcripts(self.recipe, trajectories, self.state.global_step)
