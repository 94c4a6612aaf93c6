"""AdamW that keeps float32 masters of bfloat16 weights.

Invariants: weights in bfloat16 move as those of torch's AdamW on the float32 masters would, since torch's own function makes
the step; all other weights are torch's AdamW's entirely.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.optimizer import ParamsT

from homerl.train.devices.optimizers.masters import (
    MasteredOptimizer,
    flatten_tensors,
    split_into_buckets,
    split_like_tensors,
    use_float32_masters,
)


class AdamW(MasteredOptimizer, torch.optim.AdamW):
    """torch's AdamW, with 10 bytes of state for each bfloat16 weight: two float32 moments and a 16-bit residual."""

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        betas: tuple[float, float],
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)

    def update_weights(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Make a step of bfloat16 weights."""
        alike = defaultdict(list)
        for weight in weights:
            state = self.weight_state(weight, "exp_avg", "exp_avg_sq")
            if "step" not in state:
                state["step"] = torch.tensor(0.0)  # on the CPU, where reading it stops no device
            alike[weight.device, state["step"].item()].append((weight, weight.grad, *map(state.get, MOMENTS)))
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


MOMENTS = ("exp_avg", "exp_avg_sq", "residual")
