"""Work on whole matrices of which each rank keeps a shard of rows, as FSDP2 does.

Invariants: each matrix is whole on one rank alone, and the ranks take turns, so as many matrices are in work as there are
ranks; all ranks call with the same matrices in the same order; a rank's shard may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor


def map_whole_matrices(
    weights: Sequence[DTensor], shard_of: Callable[[DTensor], Tensor], function: Callable[[Tensor], Tensor]
) -> Iterator[tuple[DTensor, Tensor]]:
    """Yield each weight with this rank's shard of `function` of the whole matrix.

    The shards of the matrix on which `function` works come from `shard_of(weight)`; all have one dtype. `function` keeps
    the shape and returns float32. The weights are matrices, sharded by rows over the same ranks.
    """
    if not weights:
        return
    [dim] = [dim for dim, placement in enumerate(weights[0].placements) if placement.is_shard(0)]
    group = weights[0].device_mesh.get_group(dim)
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    for start in range(0, len(weights), count):
        turn = weights[start : start + count]
        shards = [shard_of(weight) for weight in turn]
        sent = [shard.numel() for shard in shards] + [0] * (count - len(turn))
        mine = count_shard_rows(turn[rank].shape[0], count) if rank < len(turn) else []
        got = [rows * turn[rank].shape[1] for rows in mine] or [0] * count
        whole = exchange_values(torch.cat([shard.flatten() for shard in shards]), sent, got, group)
        made = function(whole.view(turn[rank].shape)).flatten() if mine else whole.float()
        back = exchange_values(made, got, sent, group).split(sent[: len(turn)])
        yield from ((weight, part.view(shard.shape)) for weight, part, shard in zip(turn, back, shards, strict=True))


def exchange_values(values: Tensor, sent: list[int], got: list[int], group: dist.ProcessGroup) -> Tensor:
    """Send `sent[i]` of the values to rank i; return `got[i]` values of each rank i, joined."""
    received = values.new_empty(sum(got))
    dist.all_to_all_single(received, values, got, sent, group=group)
    return received


def count_shard_rows(rows: int, count: int) -> list[int]:
    """How many of a matrix's rows each rank keeps: those of `torch.chunk`."""
    size = -(-rows // count)
    return [min(size, max(0, rows - rank * size)) for rank in range(count)]
