"""Benchmarks of a model that this process loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from homerl.bench.runner import run_suite
from homerl.progress import progress_bar
from homerl.recipe import BenchRecipe


def run_bench(recipe: BenchRecipe) -> dict[str, Any]:
    """Play every suite of the recipe with its model; results go to `out/bench/<suite>`."""
    import torch

    from homerl.agents.policy import PolicyAgent, TransformersEngine
    from homerl.train.common import load_policy, load_tokenizer

    tokenizer = load_tokenizer(recipe.model.name, keep_template=True)
    model = load_policy(recipe.model, recipe.model.name).to("cpu" if recipe.cpu else "cuda").eval()
    settings, scores = recipe.bench, {}
    torch.manual_seed(recipe.seed)
    engine = TransformersEngine(model, tokenizer, settings.max_tokens, settings.temperature, settings.batch)
    for suite in settings.suites:
        with progress_bar() as bar:
            task = bar.add_task(f"bench {suite.name}", total=suite.count, note=Path(recipe.model.name).parent.name)
            scores[suite.name] = run_suite(
                suite,
                lambda: PolicyAgent(engine, tokenizer),
                settings.limits,
                recipe.out / "bench" / suite.name,
                lambda done, total: bar.update(task, completed=done, total=total),
            )
    return scores
