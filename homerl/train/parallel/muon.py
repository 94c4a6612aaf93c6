"""Muon for hidden matrices, AdamW for all other weights. From scratch, matching and copying are learned several times
sooner.

Invariants:
- The schedule scales both learning rates alike.
- The state can be saved and restored, so a resumed run continues exactly.
- torch's own routine makes a matrix orthogonal: a whole one, also where ranks keep shards of it.
- Weights in bfloat16 have float32 masters; float32 weights that are whole are torch's optimizers' entirely.
- Of matrices in shards of rows, as FSDP2 keeps them, each is whole on one rank alone, and the ranks take turns, so as many
  matrices are in work as there are ranks. All ranks call with the same matrices in the same order; a shard may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from homerl.train.parallel.adamw import (
    AdamW,
    ExactState,
    MasteredOptimizer,
    has_master,
    local_shard,
    use_float32_masters,
)


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
    for start in range(0, len(weights), count):  # in each turn every rank gets one whole matrix, if there is one left
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


SETTINGS = ("lr", "weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps", "adjust_lr_fn")


class Muon(MasteredOptimizer, torch.optim.Muon):
    """torch's Muon, also for matrices in bfloat16 and for those in shards (`DTensor`)."""

    def handles_weight(self, weight: Tensor) -> bool:
        """Whether a matrix has a master or is in shards."""
        return has_master(weight) or isinstance(weight, DTensor)

    def update_weights(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Make a step of matrices that have masters or are in shards."""
        settings = {name: group[name] for name in SETTINGS}
        for weight in weights:
            if not isinstance(weight, DTensor):
                state = self.weight_state(weight, "momentum_buffer")
                with use_float32_masters([weight], [state["residual"]]) as (exact,):
                    step_torch_muon(exact, weight.grad.float(), state["momentum_buffer"], settings)
        self._update_shards([weight for weight in weights if isinstance(weight, DTensor)], settings)

    def _update_shards(self, weights: list[DTensor], settings: dict[str, Any]) -> None:
        """Let each matrix be made orthogonal by one rank; everything else is done on shards."""
        alone, share = settings | {"weight_decay": 0.0, "momentum": 0.0, "nesterov": False}, settings["momentum"]

        def add_momentum(weight: DTensor) -> Tensor:
            """This rank's shard of the update of a matrix, in bfloat16, with which torch's routine begins."""
            grad = local_shard(weight.grad).float()
            mean = local_shard(self.weight_state(weight, "momentum_buffer")["momentum_buffer"])
            mean.lerp_(grad, 1 - share)
            return (grad.lerp(mean, share) if settings["nesterov"] else mean).bfloat16()

        def make_orthogonal(update: Tensor) -> Tensor:
            """The change that torch's Muon makes of a whole update: that of a weight of zeros without momentum."""
            change = torch.zeros_like(update, dtype=torch.float32)
            step_torch_muon(change, update.float(), torch.zeros_like(change), alone)
            return change

        for weight, change in map_whole_matrices(weights, add_momentum, make_orthogonal):
            shard, state = local_shard(weight.detach()), self.weight_state(weight, "momentum_buffer")
            kept = 1 - settings["lr"] * settings["weight_decay"]  # decoupled decay, which torch makes before the step
            if not has_master(weight):
                shard.mul_(kept).add_(change)
                continue
            with use_float32_masters([shard], [local_shard(state["residual"])]) as (exact,):
                exact.mul_(kept).add_(change)


def step_torch_muon(weight: Tensor, grad: Tensor, momentum: Tensor, settings: dict[str, Any]) -> None:
    """Make a step of torch's Muon on one matrix, in place."""
    parameter = torch.nn.Parameter(weight)
    parameter.grad = grad
    optimizer = torch.optim.Muon([parameter], **settings)
    optimizer.state[parameter]["momentum_buffer"] = momentum
    optimizer.step()


class MuonWithAdamW(ExactState):
    """Two optimizers with one interface. `lr` is Muon's learning rate, `adam_lr` that of embeddings, norms and heads."""

    def __init__(self, model: torch.nn.Module, lr: float, adam_lr: float, adam_beta2: float, weight_decay: float) -> None:
        hidden, rest = list[Tensor](), list[Tensor]()
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                (hidden if is_hidden_matrix(name, weight) else rest).append(weight)
        self.parts = [
            Muon([{"params": hidden}], lr=lr, weight_decay=weight_decay),
            AdamW([{"params": rest}], lr=adam_lr, betas=(0.9, adam_beta2), weight_decay=0.0),
        ]
        super().__init__([part.param_groups[0] for part in self.parts], {})
        self._share_state()

    def _share_state(self) -> None:
        """Let both optimizers have their groups and states here, so that a schedule and a checkpoint reach both."""
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one step of both optimizers; return the loss of `closure`, if there is one."""
        loss = closure() if closure else None
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore both optimizers."""
        super().load_state_dict(state_dict)
        self._share_state()


def is_hidden_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
    """Whether a parameter is a matrix inside the layers. Embeddings and heads are not."""
    return parameter.dim() == 2 and "embed" not in name and "lm_head" not in name
