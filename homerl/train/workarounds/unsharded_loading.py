"""transformers loads a model in shards as soon as ZeRO-3 is configured anywhere in the process.

Then every process reads all weights, and all must load together. The frequencies of the position embedding may be in half
precision, unlike those of the model that is saved and served, and no adapter can be merged. So the first process loads a
complete model, which `homerl/train/devices/sharding.py` shards. There is no argument that asks for a complete model.

Versions: transformers 5.10 to 5.17.
Upstream: https://github.com/huggingface/transformers/issues/28596 and https://github.com/deepspeedai/DeepSpeed/issues/4932
(the frequencies; both are closed, and there is still no such argument).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def load_unsharded() -> Iterator[None]:
    """Load models unsharded within the context, though ZeRO-3 is configured."""
    from transformers.integrations import deepspeed as integration

    held, integration._hf_deepspeed_config_weak_ref = integration._hf_deepspeed_config_weak_ref, None
    try:
        yield
    finally:
        integration._hf_deepspeed_config_weak_ref = held


def forget_zero3_config() -> None:
    """Load models unsharded from now on, and let each rank generate by itself."""
    from transformers.integrations import deepspeed as integration

    integration.unset_hf_deepspeed_config()
