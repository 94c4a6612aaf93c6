"""Estimates the memory of a recipe on each GPU, and the disk of its checkpoints and models, before anything is loaded.

A pass of the trainer takes what weights, gradients, the optimizer and the engine leave, so its budget of tokens
(`homerl/train/packing/pass_budget.py`) is found here too.

Invariants:
- No network, and torch only where activations are counted.
- Every part is listed, so that each can be checked.
- Parts that are never needed at the same time (a sleeping sampler, the trainer's activations) are not added up. It is an
  estimate: `OVERHEAD` stands for fragmentation and the libraries' buffers. Above nine tenths of the GPU it says "tightly".
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from homerl.host.recipe_files import BaseRecipe
from homerl.train import TRAININGS
from homerl.train.engines.contract import MemorySizes, MemoryUse, chosen_engine
from homerl.train.model_settings import AUTO, GB, ModelSettings, estimate_decoder_sizes, find_model_config
from homerl.train.packing.pass_budget import MemoryHeadroom, TokenBudget
from homerl.train.recipe import OptimSettings, RLVESections, RLVESettings, SFTSettings, TrainingRecipe, parallel_mode

if TYPE_CHECKING:
    from homerl.train.activation_memory import ModelCount


WRITTEN = ("checkpoints", "model", "best")  # folders of a run, which an interrupted one already has


@dataclass(frozen=True)
class DiskEstimate:
    """GB by part, and GB that are free for a run in folder `out`."""

    parts: Mapping[str, float]
    free: float
    out: Path

    @property
    def needed(self) -> float:
        """GB of all parts."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        if self.needed < 0.1:
            return "less than 0.1 GB"
        return f"{self.needed:.1f} GB: {', '.join(f'{size:.1f} for {name}' for name, size in self.parts.items())}"

    def describe_shortage(self) -> str | None:
        """What this machine's disk lacks, in words; None if there is enough."""
        if self.needed <= self.free:
            return None
        enough = "lower keep_checkpoints, or choose another `out`"
        return f"{self.out} has {self.free:.1f} GB free, and {self.needed:.1f} GB are written: {enough}"


def estimate_disk(out: Path, settings: OptimSettings, best: bool, model: float, states: float) -> DiskEstimate:
    """The disk of a training in folder `out`.

    `model` are the bytes of a saved model or adapter, and `states` those that a checkpoint has besides. A new checkpoint is
    complete before the oldest is deleted. `best` tells whether evaluations keep the best model.
    """
    checkpoints = settings.keep_checkpoints + 1 if settings.save_steps else 0
    kept = f"{checkpoints} checkpoints (one while it is written)"
    parts = {kept: checkpoints * (model + states), "the model": model, "the best model": best * model}
    return DiskEstimate({name: size / GB for name, size in parts.items() if size}, count_free_bytes(out) / GB, out)


def count_free_bytes(out: Path) -> int:
    """Bytes that are free for a run in folder `out`: what it has written itself is written over."""
    there = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    own = (path for name in WRITTEN for path in (out / name).rglob("*"))
    return shutil.disk_usage(there).free + sum(path.stat().st_size for path in own if path.is_file())


# 12 bytes a weight, below, are a float32 master and two moments
OVERHEAD = 3.0  # GB: CUDA context, NCCL, fragmentation
PROCESS = 1.0  # GB: Python with its libraries, on a CPU
TIGHT = 0.9
ADAM = {"float32": 8, "bfloat16": 10, "float16": 4}  # bytes a weight: two moments, and the residual of a float32 master


_SHARDS = "more GPUs, where weights are sharded (`parallel: zero3` or `fsdp2`), or {less}"
LOWERED = {  # what lowers a part of the memory, by the beginning of its name
    **dict.fromkeys(("weights", "gradients", "optimizer"), _SHARDS),
    "activations": "lower `tokens_per_step` (`auto` fills nine tenths of what is free)",
    "reference": "`kl: 0`, which needs no reference model",
    "teacher": "a teacher on a server (`distill.url`)",
    "vLLM": "lower `engine.gpu_memory`",
}


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory in GB by part. `peak` is the larger of training and sampling.

    `lacks` says what does not fit by itself, `headroom` what the budget of a pass is made from, `disk` what is written, and
    `unpackable` why each sequence has a row of its own, if so. `lora` says that adapters are trained, and `too_small` names
    a part that holds too little.
    """

    gpus: int
    always: dict[str, float]
    training: dict[str, float]
    sampling: dict[str, float]
    unit: str
    lacks: str
    headroom: MemoryHeadroom
    disk: DiskEstimate
    unpackable: str | None = None
    lora: bool = False
    too_small: str | None = None

    @property
    def pass_budget(self) -> TokenBudget:
        """The most tokens of a pass."""
        return self.headroom.make_budget()

    @property
    def peak_memory(self) -> float:
        """GB that the recipe needs at the most."""
        return sum(self.always.values()) + max(sum(self.training.values()), sum(self.sampling.values()))

    def fits_in_memory(self, memory: float) -> bool:
        """Whether it fits in `memory` GB."""
        return self.peak_memory <= memory and not self.lacks

    def describe_fit(self, memory: float) -> str:
        """Whether it fits in `memory` GB, in words."""
        if not self.fits_in_memory(memory):
            return f"does not fit in {memory:g} GB" + (f": {self.lacks}" if self.lacks else "")
        return f"fits in {memory:g} GB" + (", tightly" if self.peak_memory > TIGHT * memory else "")

    def brief_lines(self, memory: float) -> list[str]:
        """The estimate as text, without its parts."""
        need = f"{self.peak_memory:.1f} GB; {self.describe_fit(memory)}"
        head = f"memory of each training {self.unit} ({self.gpus} in all), estimated: {need}"
        less = [] if self.fits_in_memory(memory) and self.peak_memory <= TIGHT * memory else [self._describe_savings()]
        alone = [f"  each row has one sequence, and no prompt is shared: {self.unpackable}"] if self.unpackable else []
        return [head, *less, f"  disk: {self.disk}", *alone]

    def _describe_savings(self) -> str:
        """What needs less memory, for the largest parts of the peak."""
        peak = self.always | max(self.training, self.sampling, key=lambda parts: sum(parts.values()))
        large = sorted((name for name in peak if name != self.too_small), key=lambda name: -peak[name])
        ways = dict.fromkeys(way for name in large for part, way in LOWERED.items() if name.startswith(part))
        less = "a smaller model" if self.lora else "`model.lora`"
        return f"  to need less, the largest part first: {'; '.join([*ways][:3]).format(less=less)}"

    def report_lines(self, memory: float) -> list[str]:
        """The estimate as text, with its parts."""
        rows = (("always", self.always), ("while training", self.training), ("while sampling", self.sampling))
        parts = [f"  {when}: " + ", ".join(f"{k} {v:.1f}" for k, v in parts.items()) for when, parts in rows if parts]
        head, *rest = self.brief_lines(memory)
        return [head, *parts, f"  tokens of a pass: up to {self.pass_budget}", *rest]


def find_process_memory(recipe: BaseRecipe, of_gpu: float = 80.0) -> float:
    """GB of each training process: those of a GPU, or without GPUs its share of this machine's memory."""
    if not recipe.cpu:
        return of_gpu
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB / (recipe.processes or 1), 1)


def estimate_all_stages(recipe: BaseRecipe, gpus: int | None = None, memory: float = 80.0) -> dict[str, MemoryEstimate]:
    """An estimate of each stage that trains; a flywheel has two."""
    if not isinstance(recipe, TrainingRecipe):
        return {}
    return {stage: estimate_training_memory(recipe, gpus, memory, stage) for stage in training_stages(recipe)}


def training_stages(recipe: TrainingRecipe) -> list[str]:
    """The stages of a recipe that train: one, or both of a flywheel."""
    return [stage for stage in TRAININGS if hasattr(recipe, stage)]


def estimate_training_memory(
    recipe: TrainingRecipe, gpus: int | None = None, memory: float = 80.0, stage: str | None = None
) -> MemoryEstimate:
    """The estimate for a number of training GPUs. The default is what the recipe leaves of a machine with eight."""
    stages = training_stages(recipe)
    stage = stage or stages[0]
    alone = recipe.cpu or parallel_mode(recipe) == "none"
    served = len(recipe.user.serve.gpus) if isinstance(recipe, RLVESections) and recipe.user.serve else 0
    count = gpus or recipe.processes or (1 if alone else max(1, 8 - served))
    settings: SFTSettings | RLVESettings = getattr(recipe, stage)
    shape, found = estimate_decoder_sizes(recipe.model), count_recipe_model(recipe, longest_sequence(settings))
    whole, trained, width = found.parameters, found.trained, 4 if recipe.model.dtype == "float32" else 2
    parallel = parallel_mode(recipe)
    adam = ADAM[recipe.model.dtype]
    always = _estimate_states(parallel, whole, trained, width, count, adam)
    always["overhead"] = PROCESS if recipe.cpu else OVERHEAD
    use, evaluates = MemoryUse(), False
    if isinstance(recipe, RLVESections) and isinstance(settings, RLVESettings):
        evaluates = recipe.evaluation.every is not None
        sharded = parallel == "zero3" or (parallel == "fsdp2" and count > 1)
        if settings.kl and recipe.model.lora is None:
            always["reference"] = whole * width / (count if sharded else 1) / GB
        if settings.distill and not settings.distill.url:
            teacher = estimate_decoder_sizes(teacher_model_settings(recipe.model, settings.distill.model))
            always["teacher"] = teacher.parameters * width / (count if sharded else 1) / GB
        # keys and values (2) of one episode, in all layers
        cache = 2 * shape.layers * shape.kv_heads * shape.head_dim * width * settings.max_episode_tokens
        use = chosen_engine(settings).memory(settings, MemorySizes(whole * width / GB, cache / GB, memory, sharded))
        always |= use.always
    logits = shape.logits_bytes() / GB
    headroom = MemoryHeadroom(settings, found.token, (memory - sum(always.values()) - logits) * GB, recipe.cpu)
    budget, longest = headroom.make_budget(), longest_sequence(settings)
    activations = headroom.expected_bytes(budget.plain, False)
    if budget.most > budget.plain:
        activations = max(activations, headroom.expected_bytes(budget.most, True))
    alone_bytes = headroom.expected_bytes(longest, budget.plain < budget.most)
    lacks = f"the longest sequence ({longest} tokens) needs {alone_bytes / GB:.1f} GB for its activations"

    # a checkpoint has the optimizer's states besides a model; ZeRO-1 and -2 save 16-bit weights twice
    states = {"zero3": 12, "fsdp2": 12 - width if count > 1 else adam, "none": adam, "ddp": adam}.get(parallel, 12 + width)
    out = recipe.out / (stage if len(stages) > 1 else "")
    return MemoryEstimate(
        gpus=count,
        always=always,
        training={"activations": activations / GB, "logits": logits},
        sampling=dict(use.sampling),
        unit="process" if recipe.cpu else "GPU",
        lacks=use.lacks or (lacks if alone_bytes > headroom.free else ""),
        headroom=headroom,
        disk=estimate_disk(out, settings, evaluates, model=width * trained, states=states * trained),
        unpackable=shape.unpackable,
        lora=recipe.model.lora is not None,
        too_small=use.too_small,
    )


def teacher_model_settings(policy: ModelSettings, name: str | None) -> ModelSettings:
    """A teacher as it is loaded: with the policy's settings, but those that are the policy's alone."""
    return policy.model_copy(update={"name": name, "from_scratch": None, "lora": None, "parameters": None})


def longest_sequence(settings: RLVESettings | SFTSettings) -> int:
    """The most tokens that one sequence may have. An episode's limit holds before a step is sampled."""
    return settings.max_episode_tokens + settings.max_tokens if isinstance(settings, RLVESettings) else settings.max_length


def count_recipe_model(recipe: TrainingRecipe, longest: int, model: ModelSettings | None = None) -> ModelCount:
    """The weights of a recipe's model (or of another one beside it) and the activations of its tokens, counted.

    Compiled layers keep about what Liger's do, so they are counted as these, or as plain layers if Liger is not installed.
    """
    from homerl.train.activation_memory import count_model_memory

    model = model or recipe.model
    fused = uses_liger_kernels(recipe) or (is_liger_installed() and uses_compiled_layers(recipe))
    return count_model_memory(find_model_config(model), model, fused, "cpu" if recipe.cpu else "cuda", longest)


def uses_liger_kernels(recipe: TrainingRecipe) -> bool:
    """Whether the recipe trains with Liger's kernels on this machine: compiled layers do without."""
    if recipe.model.kernels == AUTO and (recipe.cpu or uses_compiled_layers(recipe)):
        return False
    return is_liger_installed() and recipe.model.kernels != "none"


def uses_compiled_layers(recipe: TrainingRecipe) -> bool:
    """Whether the recipe trains with compiled layers on this machine."""
    if isinstance(recipe.model.compile, bool):
        return recipe.model.compile
    whole = parallel_mode(recipe) in ("none", "ddp")
    return whole and not recipe.cpu and find_spec("triton") is not None and is_compiler_installed()


def is_compiler_installed() -> bool:
    """Whether there is a compiler for what torch.compile writes."""
    return any(map(which, (os.environ.get("CC", "cc"), "gcc", "clang")))


def is_liger_installed() -> bool:
    """Whether Liger's kernels can be imported."""
    return find_spec("liger_kernel") is not None


def _estimate_states(parallel: str, whole: float, trained: float, width: int, count: int, adam: int) -> dict[str, float]:
    """GB of weights, gradients and Adam's states, for each way of distributing them."""
    if parallel in ("none", "ddp") or (parallel == "fsdp2" and count == 1):  # in the model's own type, complete on each GPU
        buckets = width * trained if parallel == "ddp" and count > 1 else 0  # DDP exchanges copies of the gradients
        parts = {"weights": width * whole, "gradients": width * trained + buckets, "optimizer": adam * trained}
    elif parallel in ("zero0", "zero1", "zero2"):  # complete 16-bit weights; sharded from 1 on: 32-bit states, 2: gradients
        states, gradients = (count if parallel >= least else 1 for least in ("zero1", "zero2"))
        parts = {"weights": width * whole, "gradients": width * trained / gradients, "optimizer": 12 * trained / states}
    elif parallel == "zero3":
        parts = {"weights": width * whole / count, "gradients": width * trained / count, "optimizer": 12 * trained / count}
        parts["a layer gathered"] = 2 * width * whole / 30  # two of some 30 layers
    else:  # fsdp2 keeps 32-bit shards and gathers in half precision
        parts = {"weights": 4 * whole / count, "gradients": 4 * trained / count, "optimizer": 8 * trained / count}
        parts["a layer gathered"] = 2 * width * whole / 30
    return {name: size / GB for name, size in parts.items()}
