"""Stages that need no model of ours."""

from __future__ import annotations

from pathlib import Path

from homerl.flow.collect import synthesise
from homerl.progress import progress_bar
from homerl.recipe import SynthRecipe


def run_synth(recipe: SynthRecipe) -> Path:
    """Synthesise with a progress bar; finished shards are kept."""
    with progress_bar() as bar:
        task = bar.add_task("synth", total=None, note=recipe.synth.strategy)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return synthesise(recipe.synth, recipe.out, recipe.processes, progress, recipe.ray)
