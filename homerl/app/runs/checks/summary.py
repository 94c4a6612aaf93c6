"""What `homerl check` says of a recipe before it runs.

Invariant: what a person decides by comes first; every key with its value comes last, and only if it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from homerl.app.runs.checks.preflight import check_machine, template_of
from homerl.app.runs.checks.prompts import measure
from homerl.app.runs.checks.rehearsal import rehearse
from homerl.app.runs.recipe import Recipe, recipe_data
from homerl.synth.recipe import SynthRecipe
from homerl.train.memory import estimates, memory_of


def summary(recipe: Recipe, path: str, gpus: int | None, gpu_memory: float, full: bool) -> Iterator[str]:
    """The lines of a summary: memory and disk of each training, an episode of each source, and its prompts.

    With `full`, each part of the memory too. Raises `InputError` for what this machine cannot run.
    """
    yield f"{path}: {recipe.run} in {recipe.out}"
    memory = memory_of(recipe, gpu_memory)
    for stage, estimate in estimates(recipe, gpus, memory).items():
        yield from (f"{stage}: {line}" for line in (estimate.lines if full else estimate.brief)(memory))
        name = recipe.model.name if not isinstance(recipe, SynthRecipe) and recipe.model else None
        if name and (template := template_of(name)):
            yield f"{stage}: chat template: {template}"
    check_machine(recipe, path)
    yield from (f"rehearsal: {line}" for line in rehearse(recipe))
    yield from (f"prompts: {'warning: ' * found.warns}{found.line}" for found in measure(recipe, path))


def all_keys(recipe: Recipe) -> str:
    """The complete recipe as YAML."""
    return yaml.safe_dump(recipe_data(recipe), sort_keys=False, allow_unicode=True)
