"""The engines that are there, and the one that a recipe chooses.

Invariant: an engine is found by its file being there (see `homerl.train.engines`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import homerl.train.engines
from homerl.train.engines.contract import EngineKind
from homerl.train.found import found

PARTS = ("contract", "registry", "synced")


@cache
def engines() -> Mapping[str, EngineKind]:
    """Every engine by kind."""
    return found(homerl.train.engines, "ENGINE", PARTS)


def engine_of(settings: Any) -> EngineKind:
    """The engine that a recipe's `rlve` chooses."""
    return engines()[settings.engine.kind]
