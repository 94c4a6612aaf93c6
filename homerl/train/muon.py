"""Muon for hidden matrices, AdamW for the rest: from scratch, matching and copying form several times sooner.

Invariants: the schedule scales both rates alike; the state round-trips, so a resumed run goes on exactly.
Both optimizers are torch's; this only joins them (Muon takes matrices alone).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class MuonWithAdamW(torch.optim.Optimizer):
    """Two optimizers behind one interface. `lr` is Muon's, `adam_lr` is for embeddings, norms and heads."""

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
        """Share the parts' groups, so that a scheduler reaches them."""
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Any:
        loss = closure() if closure else None
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self._link()


def is_hidden_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
    """Whether a parameter is a matrix inside the layers (embeddings and heads are not)."""
    return parameter.dim() == 2 and "embed" not in name and "lm_head" not in name
