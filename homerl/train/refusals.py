"""What cannot be trained as a recipe asks, said before any work: by `homerl check`, and by whoever trains.

Invariants: no torch; a combination that is known to fail, or to go wrong in silence, is refused with what to do instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from envs.documents import InputError, read_json
from homerl.recipe.base import Base
from homerl.train.engines.contract import Refusal
from homerl.train.engines.registry import engine_of
from homerl.train.recipe import ModelSettings, RLVESettings, SFTSettings


def world_size() -> int:
    """How many processes train together, as the launcher says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def parallel_mode(recipe: Base) -> str:
    """The recipe's `parallel`, or what an accelerate configuration given on the command line says in its place."""
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return "fsdp2"
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        return f"zero{_stage_outside()}"
    return recipe.parallel


def _stage_outside() -> int:
    """ZeRO's stage, from DeepSpeed's own configuration where accelerate's names one."""
    file = os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
    if file == "none":
        return int(os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2"))
    return int(read_json(file).data.get("zero_optimization", {}).get("stage", 0))


def in_shards(recipe: Base) -> bool:
    """Whether the weights will be: ZeRO-3 keeps those of one process so, too."""
    how = parallel_mode(recipe)
    return how == "zero3" or (how == "fsdp2" and world_size() > 1)


def is_adapter(source: str) -> bool:
    """Whether a folder holds a low-rank adapter in place of whole weights."""
    return (Path(source) / "adapter_config.json").exists()


def refuse_untrainable(recipe: Base) -> None:
    """Raise `InputError` for the first that is found."""
    for what, where, remedy in (*_of_precision(recipe), *_of_sft(recipe), *_of_rlve(recipe)):
        raise InputError(what, where=where, remedy=remedy)


def _of_precision(recipe: Base) -> Iterator[Refusal]:
    model: ModelSettings | None = getattr(recipe, "model", None)
    how = parallel_mode(recipe)
    if model and model.dtype == "float16" and how.startswith("zero"):
        yield f"{how} trains in bfloat16 or float32, and the model is to be float16", "model.dtype", "use bfloat16"


def _of_sft(recipe: Base) -> Iterator[Refusal]:
    settings: SFTSettings | None = getattr(recipe, "sft", None)
    how = parallel_mode(recipe)
    if settings and settings.muon and how not in ("none", "ddp"):
        yield f"Muon needs whole matrices, and {how} shards them", "sft.muon", "leave it out, or use `parallel: ddp`"


def _of_rlve(recipe: Base) -> Iterator[Refusal]:
    settings: RLVESettings | None = getattr(recipe, "rlve", None)
    if settings is None:
        return
    model: ModelSettings = recipe.model
    if recipe.run == "rlve" and model.name is None:
        yield "RLVE starts from a trained model", "model.from_scratch", "give `model.name`"
    how = parallel_mode(recipe)
    yield from engine_of(settings).refuse(recipe, how)
    merged = model.name and is_adapter(model.name) and model.lora is None
    if how in ("zero3", "fsdp2") and merged and settings.kl:
        yield (
            f"a merged adapter cannot be the KL reference under {how}", "parallel",
            "train with `parallel: zero2` or `model.lora`, or start from an export, which is merged",
        )  # fmt: skip
