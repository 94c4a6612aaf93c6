"""`rlve.play_only`: the groups of a run, played with the model as it is and stored with their tokens. Nothing is trained.

Invariants:
- The groups are those that a training with the same recipe draws, and the first update's rollouts are equal to its own.
- All rollouts are of version 0, or -1 if a server has played, whose weights are not known. A training on them
  (`rlve.from_rollouts`) weights those of other weights than its own by the importance ratio.
- An engine with weights of its own (a server) samples from what it serves. No model is loaded then.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from math import fsum
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from transformers import PreTrainedTokenizerBase, set_seed

from homerl.host.progress_bar import progress_bar
from homerl.host.terminal import say
from homerl.train.data.rollout import RolloutPlayer
from homerl.train.data.rollout_batches import RankContext, RolloutBatch, hash_seed, make_rollout_supply
from homerl.train.data.stored_rollouts import write_update_rollouts
from homerl.train.engines.contract import ServedEngine, chosen_engine
from homerl.train.recipe import RLVERecipe
from homerl.train.training_setup import load_trainable_model
from homerl.train.update.policy_and_reference import prepare_policy
from homerl.train.update.weights_digest import digest_weights
from homerl.train.watch.phase_deadlines import PhaseTimer, Watchdog


@dataclass
class UntrainedPolicy:
    """What an engine knows of a model that stays as it is. `model` is None if the engine has weights of its own."""

    accelerator: Accelerator
    model: Any
    model_wrapped: Any  # the same: nothing shards it
    processing_class: PreTrainedTokenizerBase


def play_all_updates(recipe: RLVERecipe, player: RolloutPlayer, tokenizer: PreTrainedTokenizerBase) -> Path:
    """Play the groups of all updates. Returns the folder of what was stored."""
    settings = recipe.rlve
    state = Accelerator(cpu=recipe.cpu)
    phases = PhaseTimer(recipe.out / "ranks", state.process_index, detail=lambda: player.waiting, ranks=state.num_processes)
    engine, digests = player.engine, dict[int, str]()
    if chosen_engine(settings).has_own_weights:
        cast(ServedEngine, engine).sample_as_served(UntrainedPolicy(state, None, None, tokenizer))
    else:
        model = load_trainable_model(recipe, str(recipe.model.name))
        set_seed(recipe.seed)  # adapters begin at random, as in a training
        model = prepare_policy(model, recipe, tokenizer).to(state.device).eval()
        digests[0] = digest_weights(model)
        engine.attach(UntrainedPolicy(state, model, model, tokenizer), phases)
        engine.sync(0)
    ranks = RankContext(state.process_index, state.num_processes, lambda rows: list(gather_object(rows)))
    supply = make_rollout_supply(recipe, player, ranks)
    supply.digests |= digests
    bar = progress_bar()
    own = len(ranks.rank_share(settings.blueprints_per_update)) * settings.updates
    group_ended = partial(bar.advance, bar.add_task("groups", total=own, note=""))
    shown = bar if state.is_main_process else nullcontext()
    with Watchdog(phases, dict(recipe.deadlines)), asyncio.Runner() as runner, shown:
        for update in range(settings.updates):
            phases.update = update
            torch.manual_seed(hash_seed(recipe.seed, update, state.process_index))
            with phases.enter_phase("rollout"), engine.awake():
                played = runner.run(supply.play_groups(supply.draw_groups(), group_ended))
            with phases.enter_phase("collective", "idle", waits=True):
                batch = supply.finish_batch(played)
            if state.is_main_process:
                trajectories = [rollout.trajectory for rollout, _ in batch.own_rollouts()]
                write_update_rollouts(recipe.out, update + 1, trajectories)
                say(describe_played(batch, update, settings.updates))
    return recipe.out / "rollouts"


def describe_played(batch: RolloutBatch, update: int, updates: int) -> str:
    """A line about the rollouts of an update."""
    success = fmean(row["success"] for row in batch.rows)
    reward = fmean(fsum(row["played"].rewards) for row in batch.rows)
    teaches = 1 - batch.metrics["curriculum/left_zero_variance"]
    return (
        f"update {update + 1} of {updates}: {len(batch.rows)} rollouts, success {success:.0%}, reward {reward:.2f}, "
        f"{teaches:.0%} of the groups teach something"
    )
