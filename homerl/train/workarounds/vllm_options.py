"""TRL gives the vLLM beside the trainer a fixed set of options, so that others cannot be set.

Versions: trl 1.16 (`VLLMGeneration._init_vllm` calls `LLM` of its module).
Upstream: no upstream issue known. To reproduce: `VLLMGeneration` has no parameter for `hf_overrides`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def add_vllm_options(options: Mapping[str, Any]) -> Iterator[None]:
    """Within the context TRL makes vLLM with these options besides its own."""
    from trl.generation import vllm_generation

    plain = getattr(vllm_generation, "LLM", None)
    if not (options and plain):  # a server has options of its own, and needs no vLLM here
        yield
        return
    vllm_generation.LLM = partial(plain, **options)
    try:
        yield
    finally:
        vllm_generation.LLM = plain
