"""AdamW that keeps float32 masters of bfloat16 weights, and what optimizers with such masters share.

A bfloat16 number has 8 bits of precision, so a weight of 1 does not move by less than 0.004. Updates at the usual rates are
far smaller and would be lost. The masters take them, for 2 bytes a weight: a weight holds the upper half of its master, a
16-bit residual the lower half.

Invariants:
- Bits of a master = (bits of the weight << 16) + residual, exactly, for every float32 number.
- A weight is its master, rounded to the nearest bfloat16 number.
- AdamW has at most `BUCKET` masters at a time in float32 (or a row of a weight, if that is longer), Muon one matrix.
- A state that was saved and restored is the same to the bit.
- Weights in bfloat16 move as those of torch's AdamW on the float32 masters would, since torch's own function makes the step;
  all other weights are torch's AdamW's entirely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

BUCKET = 1 << 23  # elements
HALF = 1 << 15  # half of a bfloat16 number's last place, in bits of its master


def has_master(weight: Tensor) -> bool:
    """Whether a weight needs a master, since its own number format loses small updates."""
    return bool(weight.dtype == torch.bfloat16)


@contextmanager
def use_float32_masters(weights: Sequence[Tensor], residuals: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The float32 masters of bfloat16 weights; what the context makes of them is stored in weights and residuals.

    Each residual is an int16 tensor of its weight's shape, at first of zeros.
    """
    uppers = [weight.detach().view(torch.int16) for weight in weights]
    bits = torch.add(flatten_tensors(residuals), flatten_tensors(uppers).to(torch.int32), alpha=1 << 16)
    yield split_like_tensors(bits.view(torch.float32), weights)
    torch._foreach_copy_(list(residuals), split_like_tensors(bits.to(torch.int16), weights))  # the lower 16 bits
    # half of the last place and the shift round to the nearest bfloat16 number; the residual is the signed difference to it
    rounded = bits.add_(HALF).bitwise_right_shift_(16)
    torch._foreach_copy_(uppers, split_like_tensors(rounded.to(torch.int16), weights))


def flatten_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements of some tensors, in one dimension."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def split_like_tensors(elements: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """`elements` in one dimension as tensors of the shapes of `like`; views of it."""
    parts = elements.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def split_into_buckets(rows: Iterable[Sequence[Tensor]]) -> Iterator[list[tuple[Tensor, ...]]]:
    """Cut rows of tensors of one shape along their first dimension, and join the pieces to lists of `BUCKET` elements.

    Of a tensor in shards this rank's shard is taken. The pieces are views.
    """
    held: list[tuple[Tensor, ...]] = []
    size = 0
    for row in rows:
        parts = [part if part.ndim else part[None] for part in map(local_shard, row)]
        total = parts[0].numel()
        length = len(parts[0]) if total <= BUCKET else max(1, BUCKET * len(parts[0]) // total)  # rows of a piece
        for piece in zip(*(part.split(max(1, length)) for part in parts), strict=True):
            if held and size + piece[0].numel() > BUCKET:
                yield held
                held, size = [], 0
            held.append(piece)
            size += piece[0].numel()
    if held:
        yield held


def local_shard(tensor: Tensor) -> Tensor:
    """This rank's shard of a tensor in shards; any other tensor as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class ExactState(torch.optim.Optimizer):
    """An optimizer mixin whose restored state keeps its number formats. torch's would take those of the weights."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore settings and states."""
        saved = [index for group in state_dict["param_groups"] for index in group["params"]]
        weights = [weight for group in self.param_groups for weight in group["params"]]
        # torch casts a restored state to the type of its weight, which would lose the float32 moments of a bfloat16 weight
        own = {index: weight for index, weight in zip(saved, weights, strict=True) if has_master(weight)}
        others = {index: state for index, state in state_dict["state"].items() if index not in own}
        super().load_state_dict(state_dict | {"state": others})
        for index, weight in own.items():
            for name, value in state_dict["state"].get(index, {}).items():
                self.state[weight][name] = value.to("cpu" if name == "step" else weight.device)


class MasteredOptimizer(ExactState):
    """An optimizer mixin: `update_weights` steps the weights that `handles_weight` names, torch's own class all others."""

    def handles_weight(self, weight: Tensor) -> bool:
        """Whether `update_weights` makes the steps of this weight."""
        return has_master(weight)

    def update_weights(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Make a step of some weights of a group."""
        raise NotImplementedError

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make a step of all weights; return the loss of `closure`, if there is one."""
        loss: float | None = super().step(closure)  # of the other weights, see `_init_group`
        with torch.no_grad():
            for group in self.param_groups:
                taken = [p for p in group["params"] if p.grad is not None and self.handles_weight(p)]
                if taken:
                    self.update_weights(taken, group)
        return loss

    def _init_group(self, group: dict[str, Any], *lists: Any) -> bool:
        """Show torch's own step the other weights alone."""
        others = [weight for weight in group["params"] if not self.handles_weight(weight)]
        return bool(super()._init_group(group | {"params": others}, *lists))

    def weight_state(self, weight: Tensor, *moments: str) -> dict[str, Tensor]:
        """The state of a weight: float32 `moments` of its shape, and its residual if it has a master; at first zeros."""
        state: dict[str, Tensor] = self.state[weight]
        if not state:
            state |= {name: torch.zeros_like(weight, dtype=torch.float32) for name in moments}
            if has_master(weight):
                state["residual"] = torch.zeros_like(weight, dtype=torch.int16)
        return state


class AdamW(MasteredOptimizer, torch.optim.AdamW):
    """torch's AdamW, with 10 bytes of state for each bfloat16 weight: two float32 moments and a 16-bit residual."""

    def update_weights(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Make a step of bfloat16 weights."""
        alike = defaultdict(list)  # weights of one device and age, which make their steps together
        for weight in weights:
            state = self.weight_state(weight, "exp_avg", "exp_avg_sq")
            if "step" not in state:
                state["step"] = torch.tensor(0.0)  # on the CPU, where reading it stops no device
            moments = (state[name] for name in ("exp_avg", "exp_avg_sq", "residual"))
            alike[weight.device, state["step"].item()].append((weight, weight.grad, *moments))
        torch._foreach_add_([self.state[weight]["step"] for weight in weights], 1)
        for (device, count), rows in alike.items():
            for bucket in split_into_buckets(rows):
                self._step_bucket([list(column) for column in zip(*bucket, strict=True)], device, count, group)

    def _step_bucket(self, columns: list[list[Tensor]], device: torch.device, count: float, group: dict[str, Any]) -> None:
        weights, grads, means, squares, residuals = columns
        beta1, beta2 = group["betas"]
        counts = list(torch.full((len(weights),), count, device=device if group["fused"] else "cpu").unbind())
        with use_float32_masters(weights, residuals) as exact:
            adamw(
                exact, split_like_tensors(flatten_tensors(grads).float(), grads), means, squares, [], counts,
                fused=group["fused"], amsgrad=False, beta1=beta1, beta2=beta2, lr=group["lr"],
                weight_decay=group["weight_decay"], eps=group["eps"], maximize=False,
            )  # fmt: skip
