"""Sends each checkpoint of a training to where the recipe's `checkpoint_to` says, when it has been saved.

Invariant: training goes on if that fails, after a message; the next checkpoint is sent as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from homerl.host.terminal import print_error
from homerl.train.checkpoint_store import CheckpointStore


class StoredCheckpoints(TrainerCallback):
    """Each machine sends its files; then the first process says that the checkpoint is whole."""

    def __init__(self, store: CheckpointStore, accelerator: Accelerator, keep: int) -> None:
        self.store, self.accelerator, self.keep = store, accelerator, keep

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Send what was saved."""
        ranks = self.accelerator
        ranks.wait_for_everyone()  # until all ranks have written theirs
        sent = not ranks.is_local_main_process or self._try(self.store.send_files, state.global_step)
        all_sent = ranks.gather(torch.tensor([int(sent)], device=ranks.device)).min().item()
        if all_sent and ranks.is_main_process:
            self._try(self.store.finish_checkpoint, state.global_step, self.keep)

    def _try(self, send: Callable[..., None], *given: int) -> bool:
        try:
            send(*given)
        except Exception as error:  # each kind of place has errors of its own, and none may end a training
            why = " ".join(f"{type(error).__name__}: {error}".split())
            print_error(f"warning: checkpoint {given[0]} was not sent to {self.store.url} ({why}); the next one may be")
            return False
        return True
