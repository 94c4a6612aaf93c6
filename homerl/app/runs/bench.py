"""Benchmarks of a model that this process loads, or of an agent that needs none."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from homerl.app.runs.recipe import recipe_data
from homerl.app.runs.record import describe_environment
from homerl.bench.instances import SuiteInstances
from homerl.bench.player import PlayerRecord, claim_results, model_file_stamps
from homerl.bench.recipe import BenchRecipe, SuiteSettings
from homerl.bench.runner import WAVE, EpisodePace, HeldoutSuite, ParticipantFactories, run_suite
from homerl.host.terminal.progress import progress_bar
from homerl.play.episode import EpisodeLimits
from homerl.train.model import ModelSettings


def run_bench(recipe: BenchRecipe) -> dict[str, Any]:
    """Play every suite of the recipe; write results to `out/bench/<suite>` and return the scores."""
    players, scores, made = make_suite_players(recipe), {}, describe_environment(recipe)
    for suite in recipe.bench.suites:
        factories, pace = players(suite)
        episodes, folder = suite_episodes(suite, recipe.bench.limits), recipe.out / "bench" / suite.name
        claim_results(folder, make_player_record(recipe, len(episodes), made))
        with progress_bar() as bar:
            task = bar.add_task(f"bench {suite.name}", total=suite.count, note=_shown(recipe))
            scores[suite.name] = run_suite(
                episodes,
                factories,
                folder,
                pace,
                partial(_advance, bar, task),
            )
    return scores


def _advance(bar: Progress, task: TaskID, done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


def _model(recipe: BenchRecipe) -> tuple[ModelSettings, str]:
    """The model that the recipe evaluates, and its name."""
    assert recipe.model and recipe.model.name
    return recipe.model, recipe.model.name


Players = Callable[[SuiteSettings], tuple[ParticipantFactories, EpisodePace]]


def make_suite_players(recipe: BenchRecipe) -> Players:
    """The recipe's agent for each suite. A model is loaded once."""
    return _of_model(recipe) if recipe.model else _baseline(recipe)


def _of_model(recipe: BenchRecipe) -> Players:
    """The recipe's model as agent, loaded once."""
    import torch

    from homerl.models.policy.guest import agent_factory_for
    from homerl.models.policy.transformers_engine import TransformersEngine
    from homerl.train.common import load_chat_tokenizer, load_policy

    (played, name), settings = _model(recipe), recipe.bench
    tokenizer = load_chat_tokenizer(name, own=True)
    model = load_policy(played, name).to("cpu" if recipe.cpu else "cuda").eval()
    engine = TransformersEngine(model, tokenizer, settings.max_tokens, settings.temperature, settings.batch)
    factories = ParticipantFactories(
        agent_factory_for(engine, tokenizer, engine.context_length), identity=bench_identity(recipe)
    )
    pace = EpisodePace(max(WAVE, settings.batch), begin=lambda first: torch.manual_seed(recipe.seed + first))
    return lambda suite: (factories, pace)


def _baseline(recipe: BenchRecipe) -> Players:
    """The agent that the recipe names, of each suite's world."""
    agent = str(recipe.agent)
    if (config := recipe.expert) is None:
        return lambda suite: (ParticipantFactories(suite.world.baselines[agent], identity=agent), EpisodePace())
    who = f"{agent} {config.model_dump_json()} {recipe.seed}"
    return lambda suite: (ParticipantFactories(lambda: suite.world.expert(config, recipe.seed), identity=who), EpisodePace())


def _shown(recipe: BenchRecipe) -> str:
    return Path(_model(recipe)[1]).parent.name if recipe.model else str(recipe.agent)


def suite_episodes(suite: SuiteSettings, limits: EpisodeLimits) -> HeldoutSuite | SuiteInstances:
    """The episodes of a suite: held-out blueprints by seed, or the instances of a benchmark with their own limits."""
    if suite.benchmark is None:
        return HeldoutSuite(suite, limits)
    from homerl.bench.suites import read_suite, resolve_setting, resolve_suite, spread_evenly

    instances, benchmark = read_suite(suite.benchmark), resolve_suite(suite.benchmark)[1]
    played = benchmark.easier_half(instances) if suite.easier_half else instances
    return SuiteInstances(
        spread_evenly(played or (), suite.count), resolve_setting(benchmark, suite.setting), 1, suite.user.behaviours
    )


def bench_identity(recipe: BenchRecipe) -> str:
    """A text of what results depend on besides suite and limits: the model, the state of its files, and its sampling."""
    model, name = _model(recipe)
    stamps = model_file_stamps(name)
    sampling = recipe.bench.model_dump(mode="json", include={"temperature", "max_tokens"})
    told = model.model_dump(mode="json", exclude={"name"} if stamps else None)  # a folder may be moved
    return json.dumps([told, stamps, sampling, recipe.seed])


def make_player_record(recipe: BenchRecipe, episodes: int, made: dict[str, Any]) -> PlayerRecord:
    """What is written of who plays a suite of so many episodes."""
    model, beside = Path(_model(recipe)[1]) if recipe.model else None, recipe.out / "model"
    own = model is not None and model.is_dir() and beside.is_dir() and beside.samefile(model)
    files = tuple(model_file_stamps(_model(recipe)[1])) if recipe.model else ()
    return PlayerRecord(recipe=recipe_data(recipe), own=own, files=files, episodes=episodes, made=made)
