"""accelerate writes the shards of a checkpoint while training stands still.

`save_fsdp_model` and `save_fsdp_optimizer` call `torch.distributed.checkpoint.save`, and have no argument for its
`async_save`, which copies the shards to memory and writes them in a thread.

Versions: accelerate 1.10 to 1.15.
Upstream: no upstream issue known. To reproduce: `save_fsdp_model` returns only after its files are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any


@contextmanager
def apply(groups: Sequence[Any]) -> Iterator[list[Future[Any]]]:
    """Let the saves of the context go on in threads. The list that it gives holds a future of each.

    Each save needs a process group of its own, on gloo: its collectives run beside those of training and of other saves.
    """
    from torch.distributed import checkpoint

    plain = checkpoint.save
    begun: list[Future[Any]] = []

    def save(state_dict: dict[str, Any], **settings: Any) -> None:
        begun.append(checkpoint.async_save(state_dict, process_group=groups[len(begun)], **settings))

    checkpoint.save = save
    try:
        yield begun
    finally:
        checkpoint.save = plain
