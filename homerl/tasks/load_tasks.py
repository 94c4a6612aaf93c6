"""Where tasks come from: a suite by its name or file, or blueprints by a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.bench.runner import episode_of_instance
from homerl.bench.suites import parse_instance, read_suite_lines, resolve_setting, resolve_suite, spread_evenly
from homerl.envs.core.documents import Document, InputError
from homerl.envs.core.documents.validation import validate_document
from homerl.host.recipe_files import load_recipe_document
from homerl.models.endpoint.endpoint_settings import Behaviours
from homerl.play.episode import EpisodeLimits
from homerl.play.words.grammar import Split
from homerl.rewards.composite import RewardWeights
from homerl.tasks.task_env import Task, TaskList
from homerl.train.recipe import BlueprintSource
from homerl.worlds.registry import blueprint_with_behaviours, known_suites, known_worlds, make_blueprint_of_seed


def load_suite(name: str, setting: str | None = None, count: int | None = None) -> TaskList:
    """The tasks of a benchmark.

    Args:
        name: The name of a shipped suite, as `homerl bench run` takes it, or a file that `homerl bench build` wrote.
        setting: One of the suite's settings, which decides on tools and prompt; None is the suite's first.
        count: The number of tasks, evenly spread over the suite; None is all.

    Returns:
        The tasks, in the suite's order. Their limits are the suite's.

    Raises:
        InputError: There is no such suite, file or setting.
    """
    _, suite = resolve_suite(name)
    path, lines = read_suite_lines(name)
    places = [*range(len(lines))] if count is None else spread_evenly(range(len(lines)), count)
    played_in = resolve_setting(suite, setting, "setting")

    def make(index: int) -> Task:
        at = places[index]
        spec = episode_of_instance(parse_instance(lines[at], f"{path}:{at + 1}"), played_in)
        return Task(spec.blueprint.id, spec.blueprint, spec.limits, labels=spec.labels)

    return TaskList(len(places), make)


def load_tasks(
    source: str | Path | Mapping[str, Any], count: int = 10_000, first_seed: int | None = None, split: Split = "train"
) -> TaskList:
    """Tasks that are made: one for each seed.

    Args:
        source: A recipe of RLVE or of a flywheel, by path or name, such as "recipes/rlve_full.yaml": its blueprints, limits,
            rewards and the user's behaviours hold. Or the name of a world. Or what a recipe has as
            `blueprints: {recipe: ...}`, as plain data, such as `{"toolset": "assist", "intents": [1, 1]}`.
        count: The number of tasks. None is made before it is asked for.
        first_seed: The seed of the first task; the others follow it. None is the recipe's.
        split: "train", or "heldout" for homes and sentences that no training has.

    Returns:
        The tasks. The same source, seed and split always make the same task.

    Raises:
        InputError: The source cannot be read, or its keys are wrong.

    Example:
        tasks = homerl.load_tasks({"intents": [1, 2]}, count=100)
        env = tasks[0].start()
    """
    if isinstance(source, str) and source in known_worlds():
        source = {"world": source}
    data: Mapping[str, Any]
    if isinstance(source, Mapping):
        data, document = {"blueprints": {"recipe": source}}, Document("source", {}, {}, {})
    else:
        data, document = load_recipe_document(source)
        if not isinstance(data, Mapping) or "blueprints" not in data:
            what = "the recipe has no `blueprints`, so it makes no tasks"
            raise InputError(what, str(source), "give one of `run: rlve` or `run: flywheel`, or what stands below its key")
    blueprints = validate_document(BlueprintSource, document, data["blueprints"] or {})
    limits = validate_document(EpisodeLimits, document, data.get("limits") or {})
    weights = validate_document(RewardWeights, document, data.get("rewards") or {})
    behaviours = validate_document(Behaviours, document, (data.get("user") or {}).get("behaviours") or {})
    first = blueprints.first_seed if first_seed is None else first_seed

    def make(index: int) -> Task:
        blueprint = make_blueprint_of_seed(blueprints.recipe, split, first + index)
        told = blueprint_with_behaviours(blueprint, behaviours, blueprints.recipe)
        return Task(told.id, told, limits, weights=weights)

    return TaskList(count, make)


def load_splits(source: str) -> dict[str, TaskList]:
    """All tasks of a source by split, for a server or a library that asks for them by split and index.

    Args:
        source: What `load_suite` or `load_tasks` takes as text: a suite's name or file, a recipe's name or path, or the name
            of a world.

    Returns:
        "train" and "heldout" for a recipe or a world, and "test" for a suite; all three for a name that is both.

    Raises:
        InputError: There is no such source, or it cannot be read.
    """
    splits: dict[str, TaskList] = {}
    if source in known_worlds() or source.endswith((".yaml", ".yml")):
        splits = {"train": load_tasks(source), "heldout": load_tasks(source, split="heldout")}
    if source in known_suites() or not splits:
        splits["test"] = load_suite(source)
    return splits
