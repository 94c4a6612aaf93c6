"""Writes checkpoints of FSDP2's shards while training goes on. Only the copy of the shards to memory stops it.

Invariants:
- A checkpoint gets its name when it is complete. Until then it is in `checkpoints/.writing`, which the next start deletes.
- Older checkpoints are deleted only after that.
- At most one checkpoint is being written. A run ends after its last one is complete.
- A save that failed stops the run at the next save, or at the end.
"""

from __future__ import annotations

import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch.distributed as dist
from transformers import Trainer

from homerl.train.workarounds import background_shards

WRITING = ".writing"
FILES = 2  # saves of a checkpoint: the model and the optimizer


class BackgroundSaves(Trainer):
    """A trainer that writes the shards of a checkpoint in threads, if the weights are FSDP2's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._groups: list[dist.ProcessGroup] = []
        self._begun: list[Future[None]] = []
        self._namer = ThreadPoolExecutor(1)  # Python waits for it at exit
        super().__init__(*args, **kwargs)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; return when the last checkpoint is complete."""
        result = super().train(*args, **kwargs)
        self.settle_checkpoint()
        return result

    def settle_checkpoint(self) -> None:
        """Wait until the checkpoint that is being written is complete. Raises what a failed save raised."""
        begun, self._begun = self._begun, []
        for future in begun:
            future.result()

    def _get_output_dir(self, *args: Any, **kwargs: Any) -> str:
        folder: str = super()._get_output_dir(*args, **kwargs)
        if not self.accelerator.is_fsdp2:
            return folder
        self.settle_checkpoint()  # whoever asks lists what is there, and would meet a checkpoint that is just being moved
        return str(Path(folder) / WRITING)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        super()._save_checkpoint(*args, **kwargs)
        if self.accelerator.is_fsdp2 and self.args.should_save:  # its saves end when those of all ranks have
            written = Path(self.args.output_dir) / WRITING / f"checkpoint-{self.state.global_step}"
            self._begun = [self._namer.submit(name_complete, written, self._begun, self.args.save_total_limit)]

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not self.accelerator.is_fsdp2:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        self._groups = self._groups or [dist.new_group(backend="gloo") for _ in range(FILES)]
        with background_shards.apply(self._groups) as self._begun:
            super()._save_optimizer_and_scheduler(output_dir)


def name_complete(written: Path, saves: list[Future[None]], keep: int | None) -> None:
    """Wait for the saves of a checkpoint, move it to its place, and delete all but the `keep` newest."""
    for save in saves:
        save.result()
    folder = written.parent.parent
    shutil.rmtree(folder / written.name, ignore_errors=True)
    written.rename(folder / written.name)
    complete = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for old in complete[:-keep] if keep else ():
        shutil.rmtree(old, ignore_errors=True)
