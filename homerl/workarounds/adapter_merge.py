"""TRL merges an adapter into its base in place to send it to vLLM, and takes it out again.

Half precision does not undo that: the base, and with it the KL reference and what a checkpoint's adapter is added to,
wanders with every update.

Versions: trl 1.10 to 1.16, which is why `homerl.train.engines.synced` merges into copies.
Upstream: https://github.com/huggingface/trl/issues/6688; https://github.com/huggingface/trl/pull/6007 would send the
adapter alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def apply(generation: Any, weights: Callable[[Any], Iterator[tuple[str, Any]]]) -> None:
    """Let a `VLLMGeneration` send `weights(model)`, where its model is an adapted one."""
    from peft import PeftModel

    if isinstance(generation.model, PeftModel):
        generation._iter_named_params = lambda: weights(generation.model)
