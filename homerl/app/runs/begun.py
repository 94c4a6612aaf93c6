"""A training that goes on is the one that began in its folder.

Invariants: a checkpoint, or a model from scratch, is gone on from only by the recipe that made it. That recipe may differ in
how and how long it runs, and until the model is finished in how fast it learns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from homerl.app.runs.products import join_paths, stage_identity
from homerl.app.runs.recipe import recipe_data
from homerl.envs.core.documents import InputError, read_yaml
from homerl.host.recipe.base import BaseRecipe
from homerl.host.recipe.place import RECIPE, flatten_recipe
from homerl.train import TRAININGS

LEFT = ("checkpoints", "scratch", "model")  # what a training leaves in its folder
HOW = (
    "out", "processes", "parallel", "cpu", "deadlines", "wandb", "report_to", "evaluation", "sentinel", "user.url",
    "user.serve", "user.timeout", "user.deadline", "user.retries", "user.in_flight", "model.attention", "model.compile",
    "model.kernels",
)  # fmt: skip
HOW_OF_STAGE = (
    "tokens_per_step", "gradient_checkpointing", "save_steps", "keep_checkpoints", "log_steps", "seconds", "engine",
    "distill.url", "updates", "epochs", "max_steps",
)  # fmt: skip
HOW_FAST = ("learning_rate", "lr_scheduler", "warmup", "max_grad_norm")  # what a run that failed is told to change


def refuse_another_training(recipe: BaseRecipe) -> None:
    """Raise `InputError` if the recipe's folder holds what another recipe has begun to train."""
    stored, left = recipe.out / RECIPE, [recipe.out / name for name in LEFT if (recipe.out / name).exists()]
    if recipe.run not in TRAININGS or not stored.is_file() or not left:
        return
    was = read_yaml(stored).data
    if was.get("run") != recipe.run or not (keys := [*_other_keys(recipe, was)]):
        return
    what = f"another recipe began this training: {', '.join(keys[:4])}" + (", .." if len(keys) > 4 else "")
    remedy = f"choose another --out, or delete {join_paths(left)} to train anew"
    raise InputError(what, str(stored), remedy)


def _other_keys(recipe: BaseRecipe, was: Mapping[str, Any]) -> Iterator[str]:
    """The keys that decide what is learnt, and that have other values in the recipe `was`."""
    fast = () if (recipe.out / "model").exists() else HOW_FAST
    free = (*HOW, *(f"{recipe.run}.{key}" for key in (*HOW_OF_STAGE, *fast)))
    yield from (key for key in differing_keys(was, recipe_data(recipe)) if not _within(key, free))


def _within(key: str, sections: tuple[str, ...]) -> bool:
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def differing_keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The keys in which two recipes of a stage differ, by path."""
    ours, theirs = (dict(flatten_recipe(json.loads(stage_identity(dict(data))))) for data in (one, other))
    return [key for key in dict.fromkeys([*ours, *theirs]) if ours.get(key) != theirs.get(key)]
