"""What a recipe says of monitoring, as the environment variables that the services read.

Invariant: nothing here imports a service. W&B reads its variables once, with the first call of it.
"""

from __future__ import annotations

import os

from homerl.host.recipe.base import BaseRecipe


def set_monitoring_variables(recipe: BaseRecipe) -> None:
    """Set the variables that W&B and TensorBoard read."""
    os.environ["WANDB_MODE"] = recipe.wandb.mode
    os.environ["WANDB_PROJECT"] = recipe.wandb.project
    os.environ["WANDB_DIR"] = str(recipe.out)
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(recipe.out / "tensorboard")
    if recipe.wandb.entity:
        os.environ["WANDB_ENTITY"] = recipe.wandb.entity
