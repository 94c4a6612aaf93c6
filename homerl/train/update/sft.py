"""Supervised fine-tuning on verified trajectories (HomeFlow 3.4.1), with TRL's SFTTrainer.

Invariants: `data/sft_dialogues.py` says which tokens have a loss. A killed run resumes from its last checkpoint, and ends as
an uninterrupted one does. Difference from eq. 5: the policy does not see the goals Φ, since these would leak the answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import Module
from torch.utils.data import DataLoader
from trl import SFTConfig, SFTTrainer

from homerl.envs.core.documents import InputError
from homerl.train.data.sft_dialogues import (
    RankBatches,
    RankBatchSampler,
    list_system_prompts,
    load_dialogues,
    number_homes,
    refuse_unfit_dialogues,
    tokenize_dialogues,
    trajectories_file,
)
from homerl.train.model_settings import make_lora_config
from homerl.train.model_sources import download_hub_weights
from homerl.train.packing.packed_updates import IGNORE_INDEX, LossAndSums, TargetScores, TokenSequence
from homerl.train.parallel.parallel_trainer import ParallelTrainer
from homerl.train.recipe import SFTRecipe, refuse_untrainable, world_size
from homerl.train.training_setup import (
    load_chat_tokenizer,
    load_trainable_model,
    make_scratch_model,
    make_trainer_updates,
    shared_training_arguments,
    switch_off_router_logits,
    train_and_save_model,
)
from homerl.train.update.held_out_loss import HeldOutLoss, split_held_out
from homerl.train.watch.metrics_log import log_artifacts
from homerl.train.watch.phase_deadlines import TRAIN, PhaseTimer, Watchdog
from homerl.train.watch.throughput import ThroughputMeter
from homerl.train.workarounds import load_unsharded


def train_sft(recipe: SFTRecipe) -> Path:
    """Train as the recipe says; return the folder of the final model. Raises `InputError` for data that is too long."""
    refuse_untrainable(recipe)
    out, settings = recipe.out, recipe.sft
    if settings.dialogues_per_update % world_size():
        raise InputError(
            f"{settings.dialogues_per_update} dialogues do not divide over {world_size()} processes",
            where="sft.dialogues_per_update",
            remedy="change it, or the number of processes",
        )
    rows = load_dialogues(recipe.data)
    source = make_scratch_model(recipe, rows)
    download_hub_weights(source)
    tokenizer = load_chat_tokenizer(source, named=recipe.model.shows_tool_names_only)
    arguments = SFTConfig(
        **shared_training_arguments(recipe, settings),
        per_device_train_batch_size=settings.dialogues_per_update // world_size(),
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps,
        packing=False,  # an update's passes are packed, not the data
        dataset_kwargs={"skip_prepare_dataset": True},  # they have tokens and labels
    )
    # after the arguments, which let ranks meet
    dialogues = tokenize_dialogues(rows, tokenizer, settings.loss_on, recipe.data)
    refuse_unfit_dialogues(dialogues, settings.max_length, str(trajectories_file(recipe.data)))
    together = settings.dialogues_per_prompt
    homes = number_homes(list_system_prompts(rows)) if together > 1 else ()
    each = settings.dialogues_per_update
    kept, apart = split_held_out(len(dialogues), settings.held_out, recipe.seed, each)
    held_out = [make_token_sequence(dialogue) for dialogue in dialogues.with_format("numpy").select(apart)] if apart else []
    if apart:
        dialogues, homes = dialogues.select(kept), [homes[at] for at in kept] if homes else homes
    lengths = list(dialogues["length"])
    with load_unsharded():
        model = load_trainable_model(recipe, source)
        trainer = PackedSFTTrainer(
            recipe,
            RankBatches(lengths, each, world_size(), recipe.seed, settings.in_order, homes, together),
            model=model,
            args=arguments,
            train_dataset=dialogues.with_format("numpy"),
            processing_class=tokenizer,
            peft_config=make_lora_config(recipe.model, model),
        )
    trainer.muon = settings.muon
    if held_out:
        trainer.add_callback(HeldOutLoss(trainer, trainer.updates, trainer.phases, recipe, held_out))
    with Watchdog(trainer.phases, dict(recipe.deadlines)):
        folder = train_and_save_model(trainer, tokenizer, out, settings.seconds, checkpoint_to=recipe.checkpoint_to)
    if trainer.accelerator.is_main_process:
        log_artifacts(recipe)
    return folder


class PackedSFTTrainer(ParallelTrainer, SFTTrainer):
    """An SFTTrainer whose update is packed passes over whole dialogues.

    It reports each rank's phase: `train` while it fetches data, `step` while ranks wait for each other. So the watchdog can
    name the rank that the others wait for.
    """

    def __init__(self, recipe: SFTRecipe, rank_batches: RankBatches, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        switch_off_router_logits(self.model)  # which TRL switches on for its own loss
        self.rank_batches = rank_batches
        self.phases = PhaseTimer(recipe.out / "ranks", self.accelerator.process_index, ranks=self.accelerator.num_processes)
        self.updates = make_trainer_updates(self, recipe)
        self.seen: list[torch.Tensor] = []
        self.meter = ThroughputMeter(self.model, recipe.sft.dialogues_per_update, self.accelerator.num_processes)
        self.add_callback(self.meter)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Fetch data in the phase `train`."""
        self.phases.begin_training(self.state.global_step)
        return super().get_batch_samples(*args, **kwargs)

    def get_train_dataloader(self) -> DataLoader:
        """This rank's dialogues of each update, as lists. accelerate would fill up the last update with dialogues that were
        learnt, and forgets the epoch of a resumed run.
        """
        updates = RankBatchSampler(self.rank_batches, self.accelerator.process_index, lambda: self.state.global_step)
        return DataLoader(self.train_dataset, batch_sampler=updates, collate_fn=list)

    def training_step(self, model: Module, inputs: list[dict[str, Any]], num_items_in_batch: Any = None) -> torch.Tensor:
        """Make an update's gradients: the mean loss of the learnt tokens of all ranks."""
        with self.phases.enter_phase("step", TRAIN, waits=True):
            sequences = [make_token_sequence(dialogue) for dialogue in inputs]
            counts = [sum(len(part.ids) for part in sequences), sum(len(part.targets) for part in sequences)]
            if self.accelerator.num_processes > 1:  # one rank alone does not wait for its GPU, which may still be at work
                counts = self.accelerator.reduce(torch.tensor(counts, device=self.accelerator.device)).tolist()
            tokens, targets = counts
            # gradients are averaged over ranks, so the mean over all tokens has this factor
            weight = self.accelerator.num_processes / max(1, targets)

            def objective(members: list[int], scored: TargetScores) -> LossAndSums:
                assert scored.entropy is not None and scored.top is not None, "TRL's head of SFT gives them"
                return -weight * scored.logps.sum(), torch.stack([scored.entropy.sum(), scored.top.sum()]).detach()

            loss, sums = self.updates.train_on_sequences(model, sequences, objective, self.check_loss)
        self.state.num_input_tokens_seen += tokens  # transformers keeps it in checkpoints
        self.seen.append(sums * weight)
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the seconds since the last log, and the means over the tokens of the updates since then."""
        if "loss" in logs:
            logs["time/seconds"] = self.phases.take_time_shares()["time/seconds"]
            entropy, right = self.accelerator.reduce(torch.stack(self.seen).mean(0), reduction="mean").tolist()
            logs |= {"entropy": entropy, "mean_token_accuracy": right, "num_tokens": self.state.num_input_tokens_seen}
            logs |= self.updates.take_packing_metrics()
            logs |= self.meter.measure(self.state, self.accelerator.device)
            self.seen.clear()
        super().log(logs, start_time)


def make_token_sequence(dialogue: dict[str, Any]) -> TokenSequence:
    """The tokens of a dialogue up to the last that is learnt; those with a label, but the first, are its targets."""
    targets = np.flatnonzero(np.asarray(dialogue["labels"]) != IGNORE_INDEX)
    end = int(targets[-1]) + 1 if len(targets) else 0
    return TokenSequence.from_ids(dialogue["input_ids"][:end], targets[targets > 0])
