"""transformers' first rank writes a checkpoint's last file while other ranks still write theirs.

`Trainer._save_checkpoint` has no barrier between `_save_rng_state`, which every rank does, and `trainer_state.json`, which
the first rank writes. A run that is killed between the two leaves a checkpoint that looks complete and cannot be resumed.

Versions: transformers 5.10 to 5.17.
Upstream: no upstream issue known (https://github.com/huggingface/transformers/issues/28015 was another race of the same
function). To reproduce: let a second rank sleep in `_save_rng_state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import Trainer as Mixed
else:
    Mixed = object


class CompleteCheckpoints(Mixed):
    """A trainer mixin: the last file of a checkpoint, which marks it complete, is written after every rank has written its
    own.
    """

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()
