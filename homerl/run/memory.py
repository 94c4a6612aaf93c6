"""Estimates the memory of a recipe on each GPU from sizes alone, before anything is loaded.

Invariants: no torch and no network; every part is listed, so that each can be checked; parts that are never needed at
the same time (a sleeping sampler, the trainer's activations) are not added up. It is an estimate: `OVERHEAD` stands for
fragmentation and the libraries' buffers. Above nine tenths of the GPU it says "tightly".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homerl.recipe.base import Base
from homerl.train.engines.contract import Sizes
from homerl.train.engines.registry import engine_of
from homerl.train.recipe import LoraSettings

GB = 1e9
OVERHEAD = 3.0  # GB: CUDA context, NCCL, fragmentation
PROCESS = 1.0  # GB: Python with its libraries, on a CPU
TILE = 1024  # tokens whose logits exist at a time, in TRL's fused head
TIGHT = 0.9
ADAM = {"float32": 8, "bfloat16": 10, "float16": 4}  # bytes a weight: two moments, and the residual of a float32 master


@dataclass(frozen=True)
class DecoderSizes:
    """The sizes of a dense decoder. The names are Qwen3's."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    head_dim: int = 128
    vocab: int = 151_936
    tied: bool = False

    @property
    def per_layer(self) -> int:
        """The number of parameters of a layer."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def parameters(self) -> float:
        """The number of parameters of the model."""
        return self.layers * self.per_layer + self.vocab * self.hidden * (1 if self.tied else 2)

    def adapter(self, lora: LoraSettings) -> float:
        """The number of parameters of an adapter on all linear layers."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        ends = 2 * (self.hidden + q) + 2 * (self.hidden + kv) + 3 * (self.hidden + self.intermediate)
        return lora.r * self.layers * ends


KNOWN = {
    "Qwen3-0.6B": DecoderSizes(1024, 28, 16, 8, 3072, tied=True),
    "Qwen3-1.7B": DecoderSizes(2048, 28, 16, 8, 6144, tied=True),
    "Qwen3-4B": DecoderSizes(2560, 36, 32, 8, 9728, tied=True),
    "Qwen3-8B": DecoderSizes(4096, 36, 32, 8, 12288),
    "Qwen3-14B": DecoderSizes(5120, 40, 40, 8, 17408),
    "Qwen3-32B": DecoderSizes(5120, 64, 64, 8, 25600),
}


@dataclass(frozen=True)
class Estimate:
    """Memory in GB by part. `peak` is the larger of training and sampling; `lacks` says what does not fit by itself."""

    gpus: int
    always: dict[str, float]
    training: dict[str, float]
    sampling: dict[str, float]
    unit: str = "GPUs"
    lacks: str = ""

    @property
    def peak(self) -> float:
        """GB that the recipe needs at the most."""
        return sum(self.always.values()) + max(sum(self.training.values()), sum(self.sampling.values()))

    def verdict(self, memory: float) -> str:
        """Whether it fits in `memory` GB, in words."""
        if self.peak > memory or self.lacks:
            return f"does not fit in {memory:g} GB" + (f": {self.lacks}" if self.lacks else "")
        return f"fits in {memory:g} GB" + (", tightly" if self.peak > TIGHT * memory else "")

    def lines(self, memory: float) -> list[str]:
        """The estimate as text."""
        head = f"memory of each of {self.gpus} training {self.unit}, estimated: {self.peak:.1f} GB; {self.verdict(memory)}"
        rows = (("always", self.always), ("while training", self.training), ("while sampling", self.sampling))
        return [
            head,
            *(f"  {when}: " + ", ".join(f"{k} {v:.1f}" for k, v in parts.items()) for when, parts in rows if parts),
        ]


def estimates(recipe: Base, gpus: int | None = None, memory: float = 80.0) -> dict[str, Estimate]:
    """An estimate of each stage that trains; a flywheel has two."""
    stages = ("sft", "rlve") if recipe.run == "flywheel" else (recipe.run,)
    return {stage: estimate(recipe, gpus, memory, stage) for stage in stages if stage in ("sft", "rlve")}


def estimate(recipe: Base, gpus: int | None = None, memory: float = 80.0, stage: str | None = None) -> Estimate:
    """The estimate for a number of training GPUs. The default is what the recipe leaves of a machine with eight."""
    stage = stage or recipe.run
    count = gpus or recipe.processes or (1 if recipe.cpu else max(1, 8 - _served(recipe)))
    shape, lora = sizes_of(recipe.model), recipe.model.lora
    whole, width = shape.parameters, 4 if recipe.model.dtype == "float32" else 2
    trained = shape.adapter(lora) if lora else whole
    always = _states(recipe.parallel, whole, trained, width, count, ADAM[recipe.model.dtype])
    always["overhead"] = PROCESS if recipe.cpu else OVERHEAD
    settings = recipe.rlve if stage == "rlve" else recipe.sft
    length = settings.max_episode_tokens if stage == "rlve" else settings.max_length
    training = _activations(shape, settings.batch * length, settings.gradient_checkpointing, width)
    unit = "processes" if recipe.cpu else "GPUs"
    if stage == "sft":
        return Estimate(count, always, training, {}, unit)
    sharded = recipe.parallel == "zero3" or (recipe.parallel == "fsdp2" and count > 1)
    if settings.kl and lora is None:
        always["reference"] = whole * width / (count if sharded else 1) / GB
    cache = 2 * shape.layers * shape.kv_heads * shape.head_dim * width * settings.max_episode_tokens
    takes = engine_of(settings).takes(settings, Sizes(whole * width / GB, cache / GB, memory, sharded))
    return Estimate(count, always | dict(takes.always), training, dict(takes.sampling), unit, takes.lacks)


def _states(parallel: str, whole: float, trained: float, width: int, count: int, adam: int) -> dict[str, float]:
    """GB of weights, gradients and Adam's states, for each way of distributing them."""
    if parallel in ("none", "ddp") or (parallel == "fsdp2" and count == 1):  # in the model's own type, complete on each GPU
        parts = {"weights": width * whole, "gradients": width * trained, "optimizer": adam * trained}
    elif parallel == "zero2":  # complete 16-bit weights; sharded gradients and 32-bit states
        parts = {"weights": width * whole, "gradients": width * trained / count, "optimizer": 12 * trained / count}
    elif parallel == "zero3":
        parts = {"weights": width * whole / count, "gradients": width * trained / count, "optimizer": 12 * trained / count}
        parts["a layer gathered"] = 2 * width * whole / 30
    else:  # fsdp2 keeps 32-bit shards and gathers in half precision
        parts = {"weights": 4 * whole / count, "gradients": 4 * trained / count, "optimizer": 8 * trained / count}
        parts["a layer gathered"] = 2 * width * whole / 30
    return {name: size / GB for name, size in parts.items()}


def _activations(shape: DecoderSizes, tokens: int, checkpointing: bool, width: int) -> dict[str, float]:
    """GB of one micro-batch. With checkpointing, only each layer's input and one complete layer are kept."""
    inside = (
        tokens * width * (8 * shape.hidden + 2 * shape.head_dim * (shape.heads + shape.kv_heads) + 4 * shape.intermediate)
    )
    kept = shape.layers * tokens * width * shape.hidden + inside if checkpointing else shape.layers * inside
    return {"activations": kept / GB, "logits": min(tokens, TILE) * shape.vocab * 10 / GB}


def _served(recipe: Any) -> int:
    user = getattr(recipe, "user", None)
    return len(user.serve.gpus) if user and user.serve else 0


def sizes_of(model: Any) -> DecoderSizes:
    """The sizes of a model: from its files, else by its name, else those of the known model of similar size."""
    if model.from_scratch is not None:
        sizes = model.from_scratch
        return DecoderSizes(
            sizes.hidden_size, sizes.layers, sizes.heads, sizes.kv_heads, sizes.intermediate_size, sizes.head_dim,
            sizes.vocab_size, True,
        )  # fmt: skip
    if sizes := _of_files(Path(model.name)):
        return sizes
    if (name := model.name.split("/")[-1]) in KNOWN:
        return KNOWN[name]
    size = (model.parameters or 8.2) * GB
    return min(KNOWN.values(), key=lambda shape: abs(shape.parameters - size))


def _of_files(folder: Path) -> DecoderSizes | None:
    if (folder / "adapter_config.json").is_file():
        base = json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]
        return KNOWN.get(base.split("/")[-1]) or _of_files(Path(base))
    if not (folder / "config.json").is_file():
        return None
    config = json.loads((folder / "config.json").read_text())
    heads = config["num_attention_heads"]
    return DecoderSizes(
        config["hidden_size"], config["num_hidden_layers"], heads, config.get("num_key_value_heads", heads),
        config["intermediate_size"], config.get("head_dim", config["hidden_size"] // heads), config["vocab_size"],
        config.get("tie_word_embeddings", False),
    )  # fmt: skip
