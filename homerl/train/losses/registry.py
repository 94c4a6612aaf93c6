"""The available losses, of which a recipe chooses one by name.

Invariant: a loss is discovered by its file (see `homerl.train.losses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import homerl.train.losses
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.train.losses.contract import Loss

NOT_LOSSES = ("clipped", "contract", "registry")


@cache
def list_losses() -> Mapping[str, Loss[Any]]:
    """Every loss by name."""
    return sort_plugins(discover(homerl.train.losses, "LOSS", Loss, NOT_LOSSES))
