"""What Weights & Biases and TensorBoard read of a recipe: variables, and the id by which a run goes on as the same run.

Invariants:
- A run's folder is one run of W&B, however often it is started. A new folder is a new run.
- An id that somebody else has set, as a sweep's agent does, stays.
- Weights & Biases reads its variables once, when it is first called; so the id is known before it is kept.
"""

from __future__ import annotations

import os
import secrets
from functools import cache
from pathlib import Path

from homerl.envs.core.documents import write_atomic
from homerl.host.recipe_files import BaseRecipe

ID, OWN_ID = "WANDB_RUN_ID", "HOMERL_WANDB_RUN_ID"  # the second tells, to processes below too, that the first is ours


def set_monitoring_variables(recipe: BaseRecipe) -> None:
    """Set the variables that W&B and TensorBoard read."""
    os.environ["WANDB_MODE"] = recipe.wandb.mode
    os.environ["WANDB_PROJECT"] = recipe.wandb.project
    os.environ["WANDB_DIR"] = str(recipe.out)
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(recipe.out / "tensorboard")
    if recipe.wandb.entity:
        os.environ["WANDB_ENTITY"] = recipe.wandb.entity
    if os.environ.get(ID) in (None, "", os.environ.get(OWN_ID)):
        os.environ[ID] = os.environ[OWN_ID] = wandb_run_id(recipe.out)
        os.environ["WANDB_RESUME"] = "allow"


def keep_wandb_run(recipe: BaseRecipe) -> None:
    """Keep the id of a run in its folder, from which the next start takes it. Only the process that writes calls this."""
    if recipe.wandb.mode != "disabled" and "wandb" in recipe.report_to and os.environ.get(ID) == os.environ.get(OWN_ID):
        write_atomic(_id_file(recipe.out), f"{wandb_run_id(recipe.out)}\n")


@cache
def wandb_run_id(out: Path) -> str:
    """The id of the run in a folder: the one that was kept there, or a new one."""
    try:
        kept = _id_file(out).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        kept = ""
    return kept or secrets.token_hex(4)


def _id_file(out: Path) -> Path:
    return out / "wandb" / "run_id.txt"
