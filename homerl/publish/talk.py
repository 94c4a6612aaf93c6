"""What a run's folder says about talking with its model, as plain data, which an export can hold.

Invariant: a person meets the homes in which the model was measured, if the run says which, else those in which it was
trained; the same goes for sampling and limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from homerl.publish.stages import beside, own_recipe, played_by


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
    for path in (*beside(stage, "bench.yaml"), *beside(stage, "recipe.yaml")):
        yield own_recipe(path)
