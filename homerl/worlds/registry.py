"""The worlds that are there, and which one a blueprint or a recipe is of.

Invariants: a world is found by its folder being there (see `homerl.worlds`); what names no world is of the default one;
a world that is not there is refused with the names of those that are.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import homerl.worlds
from envs.documents import InputError
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.situation import Situation
from homerl.worlds.contract import Split, Suite, WorldAdapter


@cache
def worlds() -> Mapping[str, WorldAdapter]:
    """Every world by name, the default one first."""
    packages = sorted(module.name for module in pkgutil.iter_modules(homerl.worlds.__path__) if module.ispkg)
    loaded = [importlib.import_module(f"homerl.worlds.{name}").WORLD for name in packages]
    return {world.name: world for world in sorted(loaded, key=lambda world: not world.is_default)}


def default_world() -> WorldAdapter:
    """The world of what names none."""
    return next(iter(worlds().values()))


def world_of(data: Any) -> WorldAdapter:
    """The world that a blueprint or a recipe is of: models, or plain data."""
    name = data.get("world") if isinstance(data, Mapping) else getattr(data, "world", None)
    if name is None:
        return default_world()
    if name not in worlds():
        raise InputError(f"there is no world '{name}'", "world", f"known: {', '.join(worlds())}")
    return worlds()[name]


def read_blueprint(data: Mapping[str, Any]) -> Any:
    """A blueprint from plain data."""
    return world_of(data).blueprint.model_validate(data)


def begin(blueprint: Any, limits: EpisodeLimits = EpisodeLimits()) -> Episode:
    """An episode of a blueprint at its start."""
    return Episode.begin(world_of(blueprint).begin(blueprint), limits)


def restored(data: Mapping[str, Any]) -> Situation:
    """The situation at the start of a blueprint that is plain data, as a stored trajectory holds it."""
    return world_of(data).begin(read_blueprint(data))


def make_blueprint(recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
    """The blueprint of a seed, of whichever world the recipe is of."""
    take = getattr(recipe, "take", None)  # a file of blueprints has them ready
    return take(split, seed) if take else world_of(recipe).make_blueprint(recipe, split, seed, dropped)


@cache
def suites() -> Mapping[str, tuple[WorldAdapter, Suite]]:
    """Every benchmark by name, with its world."""
    return {name: (world, suite) for world in worlds().values() for name, suite in world.suites.items()}
