"""Plays one episode of each source of blueprints that a recipe names, before the run begins its work.

A source is a blueprint recipe or a file of blueprints: of the synthesis, the training, the evaluation and each suite.

Invariant: a plug-in with a bug (a query type, a toolset, a reward, a world) fails here, and not after a model was loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from envs.documents import InputError
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.scripted_user import ScriptedUser
from homerl.recipe.base import Base
from homerl.worlds.contract import ExpertConfig, Split
from homerl.worlds.registry import begin, make_blueprint, world_of
from rewards.composite import RewardWeights, step_rewards

SEEDS = 5  # seeds of which one must give a blueprint


def rehearse(recipe: Base) -> list[str]:
    """Play the first blueprint of each source with the scripted expert and user, and compute the rewards of its steps.

    Returns a line for each source that says how its episode ended. Raises `InputError` if no seed gives a blueprint, and
    the error of any part that has a bug.
    """
    weights = getattr(recipe, "rewards", RewardWeights())
    lines = []
    for key, source, split, first in _parts(recipe):
        blueprint = _first_blueprint(key, source, split, first)
        episode = begin(blueprint, EpisodeLimits())
        world = world_of(blueprint)
        if ScriptedUser.name not in world.users:
            lines.append(f"{key}: {blueprint.id} begins, and only an LLM user can play it")
            continue
        if beyond := sorted(set(world.out_of_reach(source))):
            lines.append(f"{key}: the agent's tools do nothing with {', '.join(beyond)}")
        expert = world.expert(ExpertConfig(mistakes=0.0), 0)
        trajectory = asyncio.run(play(episode, expert, ScriptedUser(0)))
        total = sum(sum(step_rewards(step.facts, weights).values()) for step in trajectory.steps)
        ended = f"{len(trajectory.steps)} steps, {trajectory.outcome}, reward {total:.2f}"
        lines.append(f"{key}: the scripted expert played {blueprint.id}: {ended}")
    return lines


def _parts(recipe: Base) -> Iterator[tuple[str, Any, Split, int]]:
    """The sources with each part of a mixture by itself."""
    for key, source, split, first in _sources(recipe):
        mixed = getattr(source, "worlds", None)
        if mixed is None:
            yield key, source, split, first
        else:
            for name, part in mixed.items():
                yield f"{key}.worlds.{name}", part.recipe, split, first


def _sources(recipe: Base) -> Iterator[tuple[str, Any, Split, int]]:
    """(key, source, split, first seed) of each source of blueprints. An LLM author's blueprints cannot be made here."""
    synth, training, evaluation, bench = (
        getattr(recipe, part, None) for part in ("synth", "blueprints", "evaluation", "bench")
    )
    if synth and not synth.author:
        for number, stage in enumerate(synth.curriculum):
            yield f"synth.curriculum.{number}", stage, synth.split, synth.first_seed
        yield "synth.recipe", synth.recipe, synth.split, synth.first_seed
    if training:
        yield "blueprints.recipe", training.recipe, "train", training.first_seed
    if evaluation and evaluation.every:
        yield "evaluation.recipe", evaluation.recipe or training.recipe, "heldout", evaluation.first_seed
    for number, suite in enumerate(bench.suites if bench else ()):
        if suite.benchmark is None:
            yield f"bench.suites.{number}.recipe", suite.recipe, "heldout", suite.first_seed


def _first_blueprint(key: str, source: Any, split: Split, first: int) -> Any:
    failures = []
    for seed in range(first, first + SEEDS):
        try:
            return make_blueprint(source, split, seed)
        except InputError as error:  # the world drew too many candidates that it had to drop
            failures.append(error)
    if len(set(map(str, failures))) == 1:  # not the seeds' fault: a file that cannot be used, or lacks the split
        raise InputError(failures[0].what, ": ".join(filter(None, (key, failures[0].where))), failures[0].remedy)
    raise InputError(f"none of {SEEDS} seeds gives a blueprint: {failures[0].what}", key, failures[0].remedy)
