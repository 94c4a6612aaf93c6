"""The loss of SFT on dialogues that are kept apart, and the model with the lowest.

Invariants:
- Which dialogues are kept apart follows from the recipe's seed and their number. No update trains on them.
- The loss is the mean over all learnt tokens of these dialogues, as in training, without dropout. All ranks agree on it.
- An evaluation changes nothing that training depends on. `best/` is written completely or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from homerl.envs.core.documents import InputError
from homerl.train.packing.packed_updates import PackedUpdates, TokenSequence
from homerl.train.parallel.parallel_trainer import ParallelTrainer
from homerl.train.recipe import HeldOutSettings, SFTRecipe, world_size
from homerl.train.training_setup import replace_best_model
from homerl.train.watch.phase_deadlines import PhaseTimer

LOSS = "eval/loss"


def split_held_out(count: int, settings: HeldOutSettings | None, seed: int, each: int) -> tuple[list[int], list[int]]:
    """(dialogues that are trained on, dialogues that are kept apart), by number and in order.

    Raises `InputError` if fewer would be left than an update takes (`each`).
    """
    if settings is None:
        return list(range(count)), []
    apart = max(world_size(), round(settings.share * count))
    if count - apart < each:
        what = f"{apart} of {count} dialogues are kept apart, and the {count - apart} that are left make no update of {each}"
        raise InputError(what, "sft.held_out.share", "give a smaller share, or more data")
    chosen = set(np.random.default_rng(seed).permutation(count)[:apart].tolist())
    return [at for at in range(count) if at not in chosen], sorted(chosen)


class HeldOutLoss(TrainerCallback):
    """Measures the loss every few updates and after the last, and keeps the best model in `best/`."""

    def __init__(
        self,
        trainer: ParallelTrainer,
        updates: PackedUpdates,
        phases: PhaseTimer,
        recipe: SFTRecipe,
        sequences: Sequence[TokenSequence],
    ) -> None:
        assert recipe.sft.held_out is not None
        self.updates, self.phases = updates, phases
        self.trainer, self.every, self.folder = trainer, recipe.sft.held_out.every, recipe.out / "best"
        state = trainer.accelerator
        self.mine = list(sequences)[state.process_index :: state.num_processes]
        score, best = self.folder / "score.json", float("inf")
        if state.is_main_process and score.is_file():
            best = float(json.loads(score.read_text(encoding="utf-8"))["loss"])
        self.best = float(broadcast(torch.tensor(best, device=state.device)).item())  # other machines may lack the folder

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Measure, if it is due."""
        if state.global_step % self.every and not control.should_training_stop:
            return
        with self.phases.enter_phase("train"):
            loss, asked = self.measure_loss(), control.should_log
            self.trainer.log({LOSS: loss})
            control.should_log = asked  # what was logged is not the update's own line
            if loss < self.best:
                self.best = loss
                first = self.trainer.accelerator.is_main_process
                replace_best_model(self.folder, {"update": state.global_step, "loss": loss}, self._save_model, first)

    def measure_loss(self) -> float:
        """The mean loss of the learnt tokens, over all ranks."""
        trainer, training = self.trainer, self.trainer.model.training
        logps = self.updates.score_sequences(trainer.model, self.mine)
        trainer.model.train(training)
        sums = torch.tensor([-float(logps.double().sum()), float(logps.numel())], device=trainer.accelerator.device)
        total, tokens = trainer.accelerator.reduce(sums).tolist()
        return float(total / max(1.0, tokens))

    def _save_model(self, folder: str) -> None:
        self.trainer.save_model(folder)
        if self.trainer.accelerator.is_main_process:
            self.trainer.processing_class.save_pretrained(folder)
