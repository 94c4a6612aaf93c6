"""TRL names weights one by one while they are whole, and vLLM packs many of them at a time, when they no longer are.

`VLLMClient.update_named_params` has vLLM pack them: views of several weights wait for a full buffer. Under ZeRO-3
(and FSDP1) each weight is gathered for the time in which it is named alone, so that the views are of memory that was let
go of; and an adapter that is merged for the time of a walk is out again.

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
