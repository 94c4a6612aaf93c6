"""`homerl diversity`: how many ways of speaking there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import ensure_writable, write_atomic
from homerl.host.terminal import Command, Seed, console


def diversity(
    context: typer.Context,
    recipe: Annotated[str | None, typer.Argument(help="a recipe whose families, homes and wordings are used")] = None,
    homes: Annotated[int, typer.Option(min=1, help="number of homes")] = 1000,
    each: Annotated[int, typer.Option(min=1, help="utterances in each home")] = 400,
    language: Annotated[str, typer.Option(help="of the people; only without a recipe")] = "en",
    temperature: Annotated[float, typer.Option(help="variety of the wording; only without a recipe")] = 1.0,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="a JSON file for the figures")] = None,
) -> None:
    """Measure the diversity of utterances: distinct utterances and n-grams, self-BLEU, over homes and families."""
    from homerl.envs.homeenv.diversity import blueprint_recipe, diversity_table, measure_diversity, mixed_recipe
    from homerl.host.progress_bar import progress_bar

    made = mixed_recipe(language, temperature)
    if recipe:
        made = blueprint_recipe(context.obj.load_recipe(recipe, context.args), recipe)
    if out:
        ensure_writable(out)
    with progress_bar() as bar:
        task = bar.add_task("diversity", total=homes, note=made.home.language)
        report = measure_diversity(made, homes, each, seed, lambda done, _: bar.update(task, completed=done))
    console.print(diversity_table(report))
    if out:
        write_atomic(out, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")


COMMAND = Command("diversity", "research", diversity, "homerl diversity quickstart --homes 200", overrides=True)
