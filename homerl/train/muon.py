"""Muon for hidden matrices, AdamW for all other weights. From scratch, matching and copying are learned several times
sooner.

Invariants: the schedule scales both learning rates alike; the state can be saved and restored, so a resumed run
continues exactly. Both optimizers are torch's. This module joins them, since torch's Muon accepts matrices only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class MuonWithAdamW(torch.optim.Optimizer):
    """Two optimizers with one interface. `lr` is Muon's learning rate, `adam_lr` that of embeddings, norms and heads."""

    def __init__(self, model: torch.nn.Module, lr: float, adam_lr: float, adam_beta2: float, weight_decay: float) -> None:
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        hidden = [p for name, p in named if is_hidden_matrix(name, p)]
        rest = [p for name, p in named if not is_hidden_matrix(name, p)]
        self.parts = [
            torch.optim.Muon(hidden, lr=lr, weight_decay=weight_decay),
            torch.optim.AdamW(rest, lr=adam_lr, betas=(0.9, adam_beta2), weight_decay=0.0),
        ]
        super().__init__([{"params": [p for _, p in named]}], {})
        self._link()

    def _link(self) -> None:
        """Expose the parameter groups of both optimizers, so that a scheduler changes both."""
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        """Make one step of both optimizers; return the loss of `closure`, if there is one."""
        loss = closure() if closure else None
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The states of both optimizers."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore both optimizers."""
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self._link()


def is_hidden_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
    """Whether a parameter is a matrix inside the layers. Embeddings and heads are not."""
    return parameter.dim() == 2 and "embed" not in name and "lm_head" not in name
