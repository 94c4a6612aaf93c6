"""TRL merges an adapter into its base in place to send it to vLLM, and unmerges it afterwards.

In half precision this is not exact, so the base model drifts a little with every update. The KL reference drifts with it,
and so does the model that a checkpoint's adapter belongs to.

Versions: trl 1.10 to 1.16, which is why `homerl.train.engines.synced` merges into copies.
Upstream: https://github.com/huggingface/trl/issues/6688; https://github.com/huggingface/trl/pull/6007 would send the
adapter alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def apply(generation: Any, weights: Callable[[Any], Iterator[tuple[str, Any]]]) -> None:
    """Make a `VLLMGeneration` send `weights(model)`, if its model has an adapter."""
    from peft import PeftModel

    if isinstance(generation.model, PeftModel):
        generation._iter_named_params = lambda: weights(generation.model)
