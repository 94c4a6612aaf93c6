"""The available losses, and the one that a recipe chooses.

Invariant: a loss is discovered by its file (see `homerl.train.losses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import homerl.train.losses
from envs.plugins import discover, in_order
from homerl.train.losses.contract import Loss

if TYPE_CHECKING:
    from homerl.train.recipe import RLVESettings

NOT_LOSSES = ("clipped", "contract", "registry")


@cache
def losses() -> Mapping[str, Loss[Any]]:
    """Every loss by name."""
    return in_order(discover(homerl.train.losses, "LOSS", Loss, NOT_LOSSES))


def loss_of(settings: RLVESettings) -> Loss[Any]:
    """The loss that a recipe's `rlve` chooses."""
    return losses()[settings.loss]
