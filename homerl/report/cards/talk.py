"""What a run's folder says about talking with its model, as plain data, which an export can hold.

Invariant: a person meets the homes in which the model was measured, if the run says which, else those in which it was
trained; the same goes for sampling and limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from homerl.host.recipe.folders import read_own_recipe, stage_files
from homerl.host.recipe.place import OF_TASKS, RECIPE, refuse_unloaded_run_plugins
from homerl.report.cards.stages import last_blueprint_recipe
from homerl.train.named import read_export_facts, resolve_model_source


def read_talk_terms(folder: Path) -> dict[str, Any]:
    """The terms of a talk with the model of a folder: those of its stage, see `talk_terms`, or those that its export holds.

    Exports of earlier versions hold only the recipe of their homes, or nothing. Raises `InputError` if plug-ins of the
    stage's run are not loaded.
    """
    if folder.name == "model" and stage_files(folder.parent, RECIPE):
        refuse_unloaded_run_plugins(folder.parent, OF_TASKS)
        return talk_terms_of_stage(folder.parent)
    card = read_export_facts(folder)
    return card.get("talk") or {"recipe": card.get("played")}


def mixture_parts(recipe: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The parts of a mixture of blueprints by name, or the recipe alone."""
    if "worlds" in recipe:
        return {name: part.get("recipe") or {} for name, part in recipe["worlds"].items()}
    return {"": recipe}


def trained_blueprint_recipes(model: str) -> list[Mapping[str, Any]]:
    """The recipes of the blueprints of a model, a folder or a name, the one for a talk first; empty if nothing is known."""
    recipe = read_talk_terms(Path(resolve_model_source(model))).get("recipe")
    return [*mixture_parts(recipe).values()] if recipe else []


def talk_terms_of_stage(stage: Path) -> dict[str, Any]:
    """The `recipe` of the homes, `temperature`, `max_tokens`, `steps` (most messages for a sentence) and `turns` of a talk.

    A key is left out if neither the recipes beside the stage's model nor those of its flywheel say it.
    """
    data = [*_recipes(stage)]
    bench: Mapping[str, Any] = next((found for one in data if (found := one.get("bench"))), {})
    suites = [suite for suite in bench.get("suites") or () if not suite.get("benchmark")]
    recipe = suites[0].get("recipe") if suites else None
    limits: Mapping[str, Any] = bench.get("limits") or next((found for one in data if (found := one.get("limits"))), {})
    told = {
        "recipe": recipe or last_blueprint_recipe(stage) or None,
        "temperature": bench.get("temperature"),
        "max_tokens": bench.get("max_tokens"),
        "steps": limits.get("steps_per_turn"),
        "turns": limits.get("turns"),
    }
    return {key: value for key, value in told.items() if value is not None}


def _recipes(stage: Path) -> Iterator[Mapping[str, Any]]:
    """The recipe by which a stage's model was measured, that of the stage, and that of its flywheel."""
    for path in (*stage_files(stage, "bench.yaml"), *stage_files(stage, RECIPE)):
        yield read_own_recipe(path)
