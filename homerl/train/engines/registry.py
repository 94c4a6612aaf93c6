"""The available engines, and the one that a recipe chooses.

Invariant: an engine is discovered by its file (see `homerl.train.engines`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import homerl.train.engines
from homerl.envs.core.plugins import discover, sort_plugins
from homerl.train.engines.contract import EngineKind, SamplerSettings

NOT_ENGINES = ("contract", "registry", "weight_sync")


@cache
def list_engines() -> Mapping[str, EngineKind]:
    """Every engine by kind."""
    return sort_plugins(discover(homerl.train.engines, "ENGINE", EngineKind, NOT_ENGINES))


def chosen_engine(settings: SamplerSettings) -> EngineKind:
    """The engine that a recipe's `rlve` chooses."""
    return list_engines()[settings.engine.kind]
