"""What Weights & Biases and TensorBoard read of a recipe: variables, and the id by which a run goes on as the same run.

Invariants:
- A run's folder is one run of W&B, however often it is started. A new folder is a new run.
- The stages of a flywheel, and runs that differ in their seed, are in one group. Their names tell them apart.
- An id, group or name that somebody else has set, as a sweep's agent does, stays.
- Weights & Biases reads its variables once, when it is first called; so the id is known before it is kept.
"""

from __future__ import annotations

import os
import re
import secrets
from functools import cache
from pathlib import Path

from homerl.envs.core.documents import write_atomic
from homerl.host.recipe_files import RECORD, STAGES, BaseRecipe

ID = "WANDB_RUN_ID"
OWN = "HOMERL_"  # before a variable's name: tells, to processes below too, that the value is ours
SEED = re.compile(r"[-_.]*seed[-_]?\d+$")  # at the end of a folder's name


def set_monitoring_variables(recipe: BaseRecipe) -> None:
    """Set the variables that W&B and TensorBoard read."""
    os.environ["WANDB_MODE"] = recipe.wandb.mode
    os.environ["WANDB_PROJECT"] = recipe.wandb.project
    os.environ["WANDB_DIR"] = str(recipe.out)
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(recipe.out / "tensorboard")
    wandb = recipe.wandb
    given = {"WANDB_ENTITY": wandb.entity, "WANDB_TAGS": ",".join(wandb.tags), "WANDB_NOTES": wandb.notes}
    os.environ.update({name: value for name, value in given.items() if value})
    _set_unless_given("WANDB_RUN_GROUP", monitored_group(recipe))
    if kind := getattr(recipe, "run", None):  # which each kind of recipe has
        _set_unless_given("WANDB_JOB_TYPE", kind)
    if _set_unless_given(ID, wandb_run_id(recipe.out)):
        os.environ["WANDB_RESUME"] = "allow"


def _set_unless_given(name: str, value: str) -> bool:
    """Set a variable that nobody else has set, and return whether it is ours."""
    if os.environ.get(name) not in (None, "", os.environ.get(OWN + name)):
        return False
    os.environ[name] = os.environ[OWN + name] = value
    return True


def monitored_name(recipe: BaseRecipe) -> str:
    """The name of the run: its folder's, or the recipe's own; of a flywheel's stage with the stage, as `quickstart-sft`."""
    folder = _find_run_of_stage(recipe.out)
    name = recipe.wandb.name or folder.resolve().name
    return f"{name}-{recipe.out.name}" if folder != recipe.out else name


def monitored_group(recipe: BaseRecipe) -> str:
    """The group of the run: the name of the flywheel's folder, or of the run's own, without a seed at its end."""
    folder = _find_run_of_stage(recipe.out).resolve()
    return recipe.wandb.group or SEED.sub("", folder.name) or folder.parent.name


def _find_run_of_stage(out: Path) -> Path:
    """The folder of the flywheel to which a stage's folder belongs; the folder itself if it is no stage's."""
    return out.parent if out.name in STAGES and (out.parent / RECORD).is_file() else out


def keep_wandb_run(recipe: BaseRecipe) -> None:
    """Keep the id of a run in its folder, from which the next start takes it. Only the process that writes calls this."""
    if recipe.wandb.mode != "disabled" and "wandb" in recipe.report_to and os.environ.get(ID) == os.environ.get(OWN + ID):
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
