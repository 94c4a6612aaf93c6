"""TRL wakes the vLLM beside the trainer, and puts it to sleep, only inside its own `generate`.

Other callers have no public method to do so. They must also update TRL's private flag for freed weights.

Versions: trl 1.16 (`VLLMGeneration._llm_weights_sleeping`).
Upstream: no upstream issue known. To reproduce: `VLLMGeneration` has no public method but `generate` and `sync_weights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def wake_vllm(generation: Any) -> Iterator[None]:
    """Wake vLLM's cache, and its weights if they were freed since the last sync; free all of it afterwards."""
    if generation._llm_weights_sleeping:
        generation.sync_weights()
    generation.llm.wake_up(tags=["kv_cache"])
    try:
        yield
    finally:
        generation.llm.sleep(level=2)
        generation._llm_weights_sleeping = True
