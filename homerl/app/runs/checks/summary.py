"""What `homerl check` says of a recipe before it runs.

Invariant: what a person decides by comes first; every key with its value comes last, and only if it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from homerl.app.runs.checks.preflight import check_machine, describe_chat_template
from homerl.app.runs.checks.prompts import measure_prompts
from homerl.app.runs.checks.rehearsal import rehearse_recipe
from homerl.app.runs.recipe import Recipe, recipe_data
from homerl.synth.recipe import SynthRecipe
from homerl.train.memory import estimate_all_stages, find_process_memory


def summarise_recipe(recipe: Recipe, path: str, gpus: int | None, gpu_memory: float, full: bool) -> Iterator[str]:
    """The lines of a summary: memory and disk of each training, an episode of each source, and its prompts.

    With `full`, each part of the memory too. Raises `InputError` for what this machine cannot run.
    """
    yield f"{path}: {recipe.run} in {recipe.out}"
    memory = find_process_memory(recipe, gpu_memory)
    for stage, estimate in estimate_all_stages(recipe, gpus, memory).items():
        yield from (f"{stage}: {line}" for line in (estimate.report_lines if full else estimate.brief_lines)(memory))
        name = recipe.model.name if not isinstance(recipe, SynthRecipe) and recipe.model else None
        if name and (template := describe_chat_template(name)):
            yield f"{stage}: chat template: {template}"
    check_machine(recipe, path)
    yield from (f"rehearsal: {line}" for line in rehearse_recipe(recipe))
    yield from (f"prompts: {'warning: ' * found.warns}{found.line}" for found in measure_prompts(recipe, path))


def recipe_to_yaml(recipe: Recipe) -> str:
    """The complete recipe as YAML."""
    return yaml.safe_dump(recipe_data(recipe), sort_keys=False, allow_unicode=True)
