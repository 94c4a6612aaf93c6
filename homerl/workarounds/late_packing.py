"""TRL gathers one weight at a time, but vLLM packs several weights later, when ZeRO-3 has already freed them.

`VLLMClient.update_named_params` lets vLLM pack the weights: views of several weights wait until a buffer is full. Under
ZeRO-3 (and FSDP1) a weight is whole only until the next one is gathered, so these views point to freed memory. An adapter
that was merged for the transfer is also unmerged before the buffer is sent.

Versions: trl 1.16, with vLLM's own server.
Upstream: named in the review of https://github.com/huggingface/trl/pull/6765 (merged as it was); no upstream issue known.
To reproduce: yield a weight, change it after the `yield`, and pack it later, as the test does.
"""

from __future__ import annotations

from typing import Any


def apply(generation: Any) -> None:
    """Make a `VLLMGeneration` send copies, each made while its weight is complete."""
    named = generation._iter_named_params
    generation._iter_named_params = lambda: ((name, weight.clone()) for name, weight in named())
