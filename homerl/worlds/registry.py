"""The registry of worlds, and the functions that look up the world of a blueprint or a recipe.

Invariants: a world is found by its folder (see `homerl.envs`); data without `world` belongs to the default world; an
unknown name raises an `InputError` that lists the known worlds; only a mixture (`sources.py`) has `worlds`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import homerl.envs
from homerl.envs.core.documents import InputError
from homerl.envs.core.plugins import discover, find_submodules
from homerl.models.endpoint.endpoint_settings import AT_ONCE, Behaviours
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.situation import Situation
from homerl.play.words.grammar import Split
from homerl.worlds.contract import FirstAgent, Suite, WorldAdapter


@cache
def known_worlds() -> Mapping[str, WorldAdapter]:
    """Every world by name, the default world first."""
    known = discover(homerl.envs, "WORLD", WorldAdapter, inside="adapter")
    return dict(sorted(known.items(), key=lambda item: not item[1].is_default))


@cache
def first_agents(world: str) -> Mapping[str, FirstAgent]:
    """The agents that take what they understand before another one is asked, by name."""
    found = [import_module(name).FIRST for name in find_submodules(homerl.envs, "first")]
    return {agent.name: agent for agent in found if agent.world == world}


def default_world() -> WorldAdapter:
    """The world of blueprints and recipes that name none."""
    return next(iter(known_worlds().values()))


def source_parts(source: Any) -> Sequence[Any]:
    """The sources that a source of blueprints consists of: those of the parts of a mixture, else itself alone.

    A source is a model or plain data.
    """
    if isinstance(source, Mapping):
        return [part["recipe"] for part in source["worlds"].values()] if "worlds" in source else [source]
    mixed = getattr(source, "worlds", None)
    return [part.recipe for part in mixed.values()] if mixed else [source]


def source_worlds(source: Any) -> Sequence[WorldAdapter]:
    """The worlds of a source of blueprints, one for each part."""
    return [*map(world_of, source_parts(source))]


def source_for_seed(source: Any, seed: int) -> Any:
    """The source that makes the blueprint of a seed: that of the part of a mixture which the seed draws, else itself."""
    mixed = getattr(source, "worlds", None)
    return mixed[source.part_of(seed)].recipe if mixed else source


def world_of(data: Any) -> WorldAdapter:
    """The world of a blueprint or a recipe, which is a model or plain data. Raises `InputError` for an unknown name."""
    name = data.get("world") if isinstance(data, Mapping) else getattr(data, "world", None)
    if name is None:
        return default_world()
    if not isinstance(name, str) or name not in known_worlds():
        raise InputError(f"there is no world '{name}'", "world", f"known: {', '.join(known_worlds())}")
    return known_worlds()[name]


def read_blueprint(data: Mapping[str, Any]) -> Any:
    """Validate plain data as a blueprint of the world that it names."""
    return world_of(data).blueprint.model_validate(data)


def begin_episode(blueprint: Any, limits: EpisodeLimits = EpisodeLimits()) -> Episode:
    """A new episode of a blueprint."""
    return Episode.from_situation(world_of(blueprint).begin(blueprint), limits)


def restore_situation(data: Mapping[str, Any]) -> Situation:
    """The situation at the start of a blueprint that is plain data, such as the one in a stored trajectory."""
    return world_of(data).begin(read_blueprint(data))


def make_blueprint_of_seed(recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
    """Make the blueprint of a seed, in the recipe's world, or in that of its part. A `BlueprintFile` reads it instead."""
    source = source_for_seed(recipe, seed)
    take = getattr(source, "blueprint_of_seed", None)  # only a `BlueprintFile` has it
    return take(split, seed) if take else world_of(source).make_blueprint(source, split, seed, dropped)


def blueprint_with_behaviours(blueprint: Any, behaviours: Behaviours, recipe: Any = None) -> Any:
    """The blueprint with its wishes told as the behaviours have it; `recipe` is what it was made from.

    Raises `InputError` if the people of its world tell all at once. In a mixture they do so, and others do not.
    """
    source = source_for_seed(recipe, blueprint.seed)
    if behaviours == AT_ONCE:
        return blueprint
    if (tell := world_of(blueprint).tell) is None:
        if source is not recipe:
            return blueprint
        raise InputError(f"in the world '{world_of(blueprint).name}' people tell all at once", "behaviours", "leave it out")
    return tell(blueprint, behaviours, source)


def refuse_behaviours(worlds: Sequence[WorldAdapter], behaviours: Behaviours) -> None:
    """Raise `ValueError` if the people of none of the worlds can behave so."""
    if behaviours != AT_ONCE and not any(world.tell for world in worlds):
        named = " and ".join(f"'{world.name}'" for world in worlds)
        raise ValueError(f"in the world {named} people tell all at once: leave out `behaviours`")


def refuse_user(worlds: Sequence[WorldAdapter], kind: str) -> None:
    """Raise `ValueError` if no user of this kind can speak in one of the worlds."""
    for world in worlds:
        if kind not in world.users:
            known = " or ".join(f"`user: {{kind: {kind}}}`" for kind in world.users)
            raise ValueError(f"in the world '{world.name}' no such user can speak: write {known}")


@cache
def known_suites() -> Mapping[str, tuple[WorldAdapter, Suite]]:
    """Every benchmark by name, as (world, suite)."""
    return {name: (world, suite) for world in known_worlds().values() for name, suite in world.suites.items()}
