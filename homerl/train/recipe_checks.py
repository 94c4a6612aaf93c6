"""Refuses recipes that cannot be trained, before any work. `homerl check` and training both call it.

Invariants: it imports no torch; every refusal names the key and what to do instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from homerl.envs.core.documents import InputError, read_json
from homerl.host.processes import is_main_process
from homerl.host.recipe_files import BaseRecipe
from homerl.train.engines.contract import Refusal
from homerl.train.engines.registry import chosen_engine
from homerl.train.model_settings import AUTO, ModelSettings
from homerl.train.recipe import RLVERecipe, RLVESections, SFTSettings, TrainingRecipe


def world_size() -> int:
    """The number of processes that train together, as the launcher says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def parallel_mode(recipe: BaseRecipe) -> str:
    """The recipe's `parallel`, or the mode of an accelerate configuration given on the command line, which takes
    precedence.
    """
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return "fsdp2"
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true":
        return recipe.parallel
    file = os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
    if file == "none":
        return f"zero{int(os.environ.get('ACCELERATE_DEEPSPEED_ZERO_STAGE', '2'))}"
    return f"zero{int(read_json(file).data.get('zero_optimization', {}).get('stage', 0))}"  # DeepSpeed's own configuration


def has_sharded_weights(recipe: BaseRecipe) -> bool:
    """Whether the policy's weights will be sharded. ZeRO-3 shards even with one process."""
    how = parallel_mode(recipe)
    return how == "zero3" or (how == "fsdp2" and world_size() > 1)


def starts_without_weights(recipe: BaseRecipe) -> bool:
    """Whether this process gets its shards of the weights from the first one, which alone reads them."""
    return has_sharded_weights(recipe) and not is_main_process()


def refuse_untrainable(recipe: BaseRecipe) -> None:
    """Raise `InputError` for the first combination in the recipe that cannot be trained."""
    for what, where, remedy in _find_refusals(recipe):
        raise InputError(what, where=where, remedy=remedy)


def _find_refusals(recipe: BaseRecipe) -> Iterator[Refusal]:
    model: ModelSettings | None = getattr(recipe, "model", None)
    how = parallel_mode(recipe)
    if model and model.dtype == "float16" and isinstance(recipe, TrainingRecipe):
        remedy = "use bfloat16, or float32 on a GPU without it"  # float16 would need float32 masters and loss scaling
        yield "models are trained in bfloat16 or float32, and this one is to be float16", "model.dtype", remedy
    if model and model.attention not in (AUTO, "sdpa") and (recipe.cpu or model.dtype == "float32"):
        what = f"{model.attention} needs a GPU and a 16-bit number format"
        yield what, "model.attention", "use `auto`, or `sdpa`"
    if model and model.compile is True and how not in ("none", "ddp"):
        what = f"{how} hooks into the parts of a layer, so that it cannot be compiled whole"
        yield what, "model.compile", "use `auto`, or `parallel: ddp`"
    settings: SFTSettings | None = getattr(recipe, "sft", None)
    if settings and settings.muon and how.startswith("zero"):
        yield f"Muon needs matrices, and {how} flattens them", "sft.muon", "leave it out, or use `parallel: fsdp2` or `ddp`"
    yield from _find_rlve_refusals(recipe)


def _find_rlve_refusals(recipe: BaseRecipe) -> Iterator[Refusal]:
    if isinstance(recipe, RLVERecipe) and recipe.model.name is None:
        yield "RLVE starts from a trained model", "model.from_scratch", "give `model.name`"
    if isinstance(recipe, RLVESections):
        yield from chosen_engine(recipe.rlve).refuse(recipe, parallel_mode(recipe))
