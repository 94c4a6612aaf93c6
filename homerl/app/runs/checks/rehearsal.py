"""Plays one episode of each source of blueprints that a recipe names, before the run begins its work.

A source is a blueprint recipe or a file of blueprints: of the synthesis, the training, the evaluation and each suite.

Invariant: a plug-in with a bug (a query type, a toolset, a reward, a world) fails here, and not after a model was loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.host.recipe_keys import BaseRecipe
from homerl.host.terminal import count_with_noun
from homerl.models.endpoint.endpoint_settings import AT_ONCE, Behaviours
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.metrics.registry import METRICS, count_metrics
from homerl.play.words.splits import Split
from homerl.rewards.composite import RewardWeights, step_rewards
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser

SEEDS = 5  # seeds of which one must give a blueprint
FLAWLESS = ExpertConfig(mistakes=0.0)


@dataclass(frozen=True)
class RehearsalSource:
    """A source of blueprints under a recipe's `key`: `count` of them, from the seed `first` on, and how they are played.

    `own_dialogues` says that the expert's dialogues are what is trained on.
    """

    key: str
    recipe: Any
    split: Split
    first: int
    count: int
    limits: EpisodeLimits
    behaviours: Behaviours = AT_ONCE
    expert: ExpertConfig = FLAWLESS
    own_dialogues: bool = False

    @property
    def recipe_section(self) -> str:
        """The section of the recipe that names it."""
        return self.key.partition(".")[0]


def rehearse_recipe(recipe: BaseRecipe) -> list[str]:
    """Play the first blueprint of each source with the scripted expert and user; compute its steps' rewards and its metrics.

    Returns a line for each source that says how its episode ended. Raises `InputError` if no seed gives a blueprint, and
    the error of any part that has a bug.
    """
    weights = getattr(recipe, "rewards", RewardWeights())
    lines = []
    for named in find_blueprint_sources(recipe):
        key, source = named.key, named.recipe
        blueprint = _first_blueprint(key, source, named.split, named.first)
        episode = begin_episode(blueprint, EpisodeLimits())
        world = world_of(blueprint)
        if ScriptedUser.name not in world.users:
            lines.append(f"{key}: {blueprint.id} begins, and only an LLM user can play it")
            continue
        if beyond := sorted(set(world.out_of_reach(source))):
            lines.append(f"{key}: the agent's tools do nothing with {', '.join(beyond)}")
        expert = world.expert(FLAWLESS, 0)
        trajectory = asyncio.run(play(episode, expert, ScriptedUser(0)))
        for kind in {type(metric) for metric in METRICS.values()}:
            count_metrics(kind, trajectory, world, {})
        total = sum(sum(step_rewards(step.facts, weights).values()) for step in trajectory.steps)
        ended = f"{count_with_noun(len(trajectory.steps), 'step')}, {trajectory.outcome}, reward {total:.2f}"
        lines.append(f"{key}: the scripted expert played {blueprint.id}: {ended}")
    return lines


def find_blueprint_sources(recipe: BaseRecipe) -> Iterator[RehearsalSource]:
    """The sources of blueprints, each part of a mixture by itself. An LLM author's blueprints cannot be made here."""
    for source in _list_named_sources(recipe):
        mixed = getattr(source.recipe, "worlds", None)
        if mixed is None:
            yield source
        else:
            for name, part in mixed.items():
                yield replace(source, key=f"{source.key}.worlds.{name}", recipe=part.recipe)


def _list_named_sources(recipe: Any) -> Iterator[RehearsalSource]:
    parts: Iterator[Any] = (getattr(recipe, part, None) for part in ("synth", "blueprints", "evaluation", "bench"))
    synth, training, evaluation, bench = parts
    if synth and not synth.author:
        stages = {f"synth.curriculum.{number}": stage for number, stage in enumerate(synth.curriculum)}
        of, expert = (synth.split, synth.first_seed), FLAWLESS if synth.agent else synth.expert
        count, played = -(-synth.blueprints // (len(stages) + 1)), (synth.limits, synth.user.behaviours)
        for key, stage in (stages | {"synth.recipe": synth.recipe}).items():
            yield RehearsalSource(key, stage, *of, count, *played, expert, own_dialogues=synth.agent is None)
    if training:
        played = recipe.limits, recipe.user.behaviours
        yield RehearsalSource("blueprints.recipe", training.recipe, "train", training.first_seed, training.count, *played)
        if evaluation.every:
            held = evaluation.recipe or training.recipe
            yield RehearsalSource("evaluation.recipe", held, "heldout", evaluation.first_seed, evaluation.count, *played)
    for number, suite in enumerate(bench.suites if bench else ()):
        if suite.benchmark is None:
            played, key = (bench.limits, suite.user.behaviours), f"bench.suites.{number}.recipe"
            yield RehearsalSource(key, suite.recipe, "heldout", suite.first_seed, suite.count, *played)


def _first_blueprint(key: str, source: Any, split: Split, first: int) -> Any:
    failures = []
    for seed in range(first, first + SEEDS):
        try:
            return make_blueprint_of_seed(source, split, seed)
        except InputError as error:  # the world drew too many candidates that it had to drop
            failures.append(error)
    if len(set(map(str, failures))) == 1:  # not the seeds' fault: a file that cannot be used, or lacks the split
        raise InputError(failures[0].what, ": ".join(filter(None, (key, failures[0].where))), failures[0].remedy)
    raise InputError(f"none of {SEEDS} seeds gives a blueprint: {failures[0].what}", key, failures[0].remedy)
