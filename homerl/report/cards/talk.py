"""What a run's folder says about talking with its model, as plain data, which an export can hold.

Invariant: a person meets the homes in which the model was measured, if the run says which, else those in which it was
trained; the same goes for sampling and limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from homerl.host.recipe.folders import own_recipe, stage_files
from homerl.host.recipe.place import OF_TASKS, RECIPE, refuse_unloaded_of
from homerl.report.cards.stages import played_by
from homerl.train.named import facts_of, model_source


def terms_of(folder: Path) -> dict[str, Any]:
    """The terms of a talk with the model of a folder: those of its stage, see `talk_terms`, or those that its export holds.

    Exports of earlier versions hold only the recipe of their homes, or nothing. Raises `InputError` if plug-ins of the
    stage's run are not loaded.
    """
    if folder.name == "model" and stage_files(folder.parent, RECIPE):
        refuse_unloaded_of(folder.parent, OF_TASKS)
        return talk_terms(folder.parent)
    card = facts_of(folder)
    return card.get("talk") or {"recipe": card.get("played")}


def parts_of(recipe: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The parts of a mixture of blueprints by name, or the recipe alone."""
    if "worlds" in recipe:
        return {name: part.get("recipe") or {} for name, part in recipe["worlds"].items()}
    return {"": recipe}


def trained_on(model: str) -> list[Mapping[str, Any]]:
    """The recipes of the blueprints of a model, a folder or a name, the one for a talk first; empty if nothing is known."""
    recipe = terms_of(Path(model_source(model))).get("recipe")
    return [*parts_of(recipe).values()] if recipe else []


def talk_terms(stage: Path) -> dict[str, Any]:
    """The `recipe` of the homes, `temperature`, `max_tokens`, `steps` (most messages for a sentence) and `turns` of a talk.

    A key is left out if neither the recipes beside the stage's model nor those of its flywheel say it.
    """
    data = [*_recipes(stage)]
    bench: Mapping[str, Any] = next((found for one in data if (found := one.get("bench"))), {})
    suites = [suite for suite in bench.get("suites") or () if not suite.get("benchmark")]
    recipe = suites[0].get("recipe") if suites else None
    limits: Mapping[str, Any] = bench.get("limits") or next((found for one in data if (found := one.get("limits"))), {})
    told = {
        "recipe": recipe or played_by(stage) or None,
        "temperature": bench.get("temperature"),
        "max_tokens": bench.get("max_tokens"),
        "steps": limits.get("steps_per_turn"),
        "turns": limits.get("turns"),
    }
    return {key: value for key, value in told.items() if value is not None}


def _recipes(stage: Path) -> Iterator[Mapping[str, Any]]:
    """The recipe by which a stage's model was measured, that of the stage, and that of its flywheel."""
    for path in (*stage_files(stage, "bench.yaml"), *stage_files(stage, RECIPE)):
        yield own_recipe(path)
