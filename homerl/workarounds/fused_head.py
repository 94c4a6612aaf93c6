"""TRL stores a `forward` on the model object. A deep copy keeps it, and it still runs the original model.

`trl.trainer.utils.add_fused_lm_head` binds the model's old `forward` in a closure. So the copy samples with the weights in
training, not with its own.

Versions: trl 1.16.
Upstream: no upstream issue known. To reproduce: `add_fused_lm_head(model)`, `copy.deepcopy(model)`, change the model's
weights, and run the copy.
"""

from __future__ import annotations

from typing import Any


def apply(copied: Any) -> None:
    """Restore the `forward` method of its class on a copied model."""
    for module in copied.modules():
        vars(module).pop("forward", None)
