"""What SFT and RLVE share: arguments from a recipe, models, tokenizers, and training with resume.

Invariants:
- Checkpoints are written under `out/checkpoints`.
- The final model is written to `out/model`, completely or not at all.
- A policy is always loaded in the recipe's dtype.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from accelerate import Accelerator
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from homerl.envs.core.documents import InputError, write_atomic
from homerl.host.monitoring import keep_wandb_run, monitored_name, set_monitoring_variables
from homerl.host.processes import is_main_process
from homerl.host.terminal import say
from homerl.models.policy.chat_template import choose_chat_template
from homerl.models.policy.response_template import set_response_template
from homerl.train.checkpoint_store import store_of_run
from homerl.train.engines.weight_sync import find_adapted_weights
from homerl.train.memory_estimate import (
    estimate_training_memory,
    is_compiler_installed,
    is_liger_installed,
    uses_compiled_layers,
    uses_liger_kernels,
)
from homerl.train.model_settings import (
    GB,
    ModelSettings,
    find_packing_obstacle,
    fuse_liger_kernels,
    list_expert_weights,
    refuse_hidden_decoder,
)
from homerl.train.model_sources import find_adapter_base, is_adapter, load_model_tokenizer, resolve_model_source
from homerl.train.packing.compiled_layers import CompiledLayers
from homerl.train.packing.draws import list_random_settings
from homerl.train.packing.packed_updates import PackedUpdates
from homerl.train.packing.pass_budget import MemoryProfiler, TokenBudget
from homerl.train.packing.router_balance import RouterBalance
from homerl.train.parallel.parallel_trainer import ParallelTrainer, collective_timeout, parallel_arguments
from homerl.train.parallel.sharding import make_empty_model
from homerl.train.recipe import OptimSettings, SFTRecipe, TrainingRecipe, starts_without_weights
from homerl.train.watch.metrics_log import ProgressCallback, TimeLimit, metric_reporters
from homerl.train.watch.stored_checkpoints import StoredCheckpoints
from homerl.train.whole_weights import load_adapter_on, load_whole_model
from homerl.train.workarounds import keep_freed_memory

if TYPE_CHECKING:
    from datasets import Dataset
    from peft import PeftModel


def shared_training_arguments(recipe: TrainingRecipe, settings: OptimSettings) -> dict[str, Any]:
    """The training arguments that SFT and RLVE have in common. It also tells W&B and TensorBoard theirs."""
    set_monitoring_variables(recipe)
    if is_main_process():
        keep_wandb_run(recipe)
    if recipe.model.dtype == "float32" and not recipe.cpu:
        torch.set_float32_matmul_precision("high")  # TF32 is fast enough for models this small
    floor = {}
    if settings.min_lr is not None:  # as a rate: under DeepSpeed, transformers cannot derive it from an absolute `min_lr`
        floor = {"lr_scheduler_kwargs": {"min_lr_rate": settings.min_lr / settings.learning_rate}}
    return (
        {
            "output_dir": str(recipe.out / "checkpoints"),
            "run_name": monitored_name(recipe),
            "gradient_accumulation_steps": 1,  # an update's passes are ours (`packing/packed_updates.py`)
            "learning_rate": settings.learning_rate,
            "lr_scheduler_type": settings.lr_scheduler,
            "warmup_steps": settings.warmup,
            "weight_decay": settings.weight_decay,
            "max_grad_norm": settings.max_grad_norm,
            "adam_beta2": settings.adam_beta2,
            "gradient_checkpointing": False,  # switched on for the passes that need it
            "save_strategy": "steps" if settings.save_steps else "no",
            "save_steps": settings.save_steps or 1,
            "save_total_limit": settings.keep_checkpoints,
            "logging_steps": settings.log_steps,
            "logging_first_step": True,
            "report_to": metric_reporters(recipe),
            "project": recipe.wandb.project,  # trackio's
            "trackio_static_space_id": False,  # publish nothing without being asked to
            "seed": recipe.seed,
            "data_seed": recipe.seed,
            "use_cpu": recipe.cpu,
            "dataloader_pin_memory": not recipe.cpu,
            "logging_nan_inf_filter": False,  # we stop at such a loss, and the filter waits for the GPU in each update
            "disable_tqdm": True,
            "ddp_timeout": int(collective_timeout(recipe).total_seconds()),
            "ddp_find_unused_parameters": False,
        }
        | floor
        | parallel_arguments(recipe)
    )


def make_scratch_model(recipe: SFTRecipe, rows: Dataset) -> str:
    """Return the name or folder to load the model from. The first rank makes a `from_scratch` model before that."""
    if recipe.model.from_scratch is None:
        return str(recipe.model.name)
    from accelerate import PartialState

    from homerl.train.tiny_model import collect_row_tools, make_tiny_model

    folder = recipe.out / "scratch"
    state = PartialState(cpu=recipe.cpu, timeout=collective_timeout(recipe))
    if state.is_main_process and not (folder / "tokenizer_config.json").exists():
        making = folder.with_name("scratch.making")
        make_tiny_model(rows, collect_row_tools(rows), recipe.model.from_scratch, recipe.seed, making)
        shutil.rmtree(folder, ignore_errors=True)
        making.rename(folder)
    state.wait_for_everyone()
    return str(folder)


def replace_best_model(folder: Path, score: Mapping[str, Any], save: Callable[[str], object], first: bool) -> None:
    """Keep a model as the best one: all ranks `save` it, and the first writes its score and gives the folder its name.

    The folder is written completely or not at all.
    """
    making = folder.with_name(f"{folder.name}.making")
    save(str(making / "model"))
    if first:
        write_atomic(making / "score.json", json.dumps(score, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        making.rename(folder)


def load_chat_tokenizer(source: str, own: bool = False, named: bool = False) -> PreTrainedTokenizerBase:
    """Load a tokenizer with the chat template that it is trained with, and with the end of a turn as the end of a text.

    TRL and others read its replies by its response template, if the chat template is homerl's.

    With `own`, it keeps its own template if homerl did not train with it. See `choose_chat_template` for `named`. Raises
    `InputError` if there is no template that it could be trained with.
    """
    tokenizer = load_model_tokenizer(resolve_model_source(source))
    choose_chat_template(tokenizer, source, own, named)
    set_response_template(tokenizer)
    return tokenizer


def load_policy(settings: ModelSettings, source: str, empty: bool = False) -> PreTrainedModel:
    """Load the model in the recipe's dtype (TRL would load a model given by name in float32), or without weights (`empty`).

    If `source` is an adapter, or its base is one, the adapter is merged. Training a second adapter would silently
    replace it. Raises `InputError` for weights that do not fit.
    """
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    source = resolve_model_source(source)
    if not is_adapter(source):
        dtype = getattr(torch, settings.dtype)
        return make_empty_model(source, dtype=dtype) if empty else load_whole_model(source, dtype=dtype)
    base = load_policy(settings, find_adapter_base(source), empty)
    model: PreTrainedModel = base
    if not empty:
        model = load_adapter_on(base, source).merge_and_unload().requires_grad_(True)
    model.name_or_path = source
    return model


def load_trainable_model(recipe: TrainingRecipe, source: str) -> PreTrainedModel:
    """The model as training begins with it: without weights where the first process will send this one its shards.

    It has Liger's kernels for norms, positions and activations, if the recipe and this machine have them. Raises
    `InputError` if the recipe asks for them and they are not installed.
    """
    if recipe.model.kernels == "liger" and not is_liger_installed():
        remedy = "pip install 'homerl[kernels]', or leave it at `auto`"
        raise InputError("Liger's kernels are not installed", "model.kernels", remedy)
    model = load_policy(recipe.model, source, starts_without_weights(recipe))
    refuse_hidden_decoder(model)
    switch_off_router_logits(model)
    if uses_liger_kernels(recipe) and torch.cuda.is_available():
        fuse_liger_kernels(model)
    return model


def switch_off_router_logits(model: PreTrainedModel) -> None:
    """Let a mixture of experts return no scores of its router: the auxiliary loss hears them (`RouterBalance`)."""
    text = model.config.get_text_config()
    if getattr(text, "output_router_logits", False):  # other configurations stay without the key
        text.output_router_logits = False


def make_trainer_updates(trainer: ParallelTrainer, recipe: TrainingRecipe) -> PackedUpdates:
    """What makes a trainer's updates, with the recipe's budget, or that which the memory of this machine allows."""
    state = trainer.accelerator
    if recipe.cpu:
        keep_freed_memory()
        memory = psutil.virtual_memory().total / state.num_processes / GB
    else:
        memory = torch.cuda.get_device_properties(state.device).total_memory / GB
    found = estimate_training_memory(recipe, gpus=state.num_processes, memory=memory)
    profiler = MemoryProfiler(state, found.headroom)
    compiled = make_compiled_layers(trainer.model, recipe)
    updates = make_packed_updates(trainer.model, recipe, state, profiler.budget, profiler, compiled)
    for notice in describe_differences(trainer.model, draws=updates.draws, balanced=bool(updates.balance)):
        updates.log.warning(notice)
    if not found.fits_in_memory(memory):
        updates.log.warning(f"the estimate of the memory says: {found.describe_fit(memory)}")
    return updates


def make_packed_updates(
    model: PreTrainedModel,
    recipe: TrainingRecipe,
    accelerator: Accelerator,
    budget: TokenBudget,
    profiler: MemoryProfiler | None = None,
    compiled: CompiledLayers | None = None,
) -> PackedUpdates:
    """The packed passes of a model with a budget, by the recipe's attention."""
    half, unpackable = recipe.model.dtype != "float32", find_packing_obstacle(model.config.to_dict())
    draws = isinstance(recipe, SFTRecipe)
    factor = recipe.sft.router_aux_loss if isinstance(recipe, SFTRecipe) else None
    balance = RouterBalance(model, factor) if factor else None
    return PackedUpdates(accelerator, budget, recipe.model.attention, half, unpackable, profiler, compiled, draws, balance)


def describe_differences(model: PreTrainedModel | PeftModel, draws: bool, balanced: bool = False) -> Iterator[str]:
    """What is trained otherwise than a model's own configuration says, or than a person may expect; a sentence each.

    `draws` tells whether the model draws at random in training what it is made to draw, `balanced` whether the loss has the
    routers' part.
    """
    text = model.config.get_text_config().to_dict()
    if not draws and (settings := list_random_settings(text)):
        yield f"the model's own {', '.join(settings)} is off: rollouts are compared with what was sampled without it"
    if not balanced and text.get("router_aux_loss_coef") and list_expert_weights(model):
        yield (
            "the router's auxiliary loss (router_aux_loss_coef in the model's configuration) is no part of this training, "
            "so nothing keeps the load of the experts even; in SFT sft.router_aux_loss adds it"
        )
    if hasattr(model, "peft_config"):
        adapted = find_adapted_weights(model)
        experts = [name for name, weight in list_expert_weights(model) if id(weight) not in adapted]
        if experts:
            yield f"the experts have no adapters, for peft knows none for them ({experts[0]} and {len(experts) - 1} more)"


def make_compiled_layers(model: PreTrainedModel, recipe: TrainingRecipe) -> CompiledLayers | None:
    """The layers of a model, compiled if the recipe and this machine do so; `auto` leaves models that transformers does not
    compile. Raises `InputError` if the recipe asks for it and there is no compiler.
    """
    asked = recipe.model.compile
    if asked is True and not is_compiler_installed():
        what = "there is no C compiler for compiled layers"
        raise InputError(what, "model.compile", "install gcc, or leave it at `auto`")
    able = next((part._can_compile_fullgraph for part in model.modules() if isinstance(part, PreTrainedModel)), False)
    return CompiledLayers(model) if uses_compiled_layers(recipe) and (asked is True or able) else None


def find_last_checkpoint(out: Path) -> str | None:
    """The newest complete checkpoint of an interrupted run, or None. Incomplete checkpoints are deleted."""
    from transformers.trainer_utils import get_last_checkpoint

    folder = out / "checkpoints"
    for checkpoint in folder.glob("checkpoint-*"):
        try:  # the last file of a checkpoint, whose save can be interrupted too
            json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            shutil.rmtree(checkpoint, ignore_errors=True)
    return get_last_checkpoint(str(folder)) if folder.is_dir() else None


def train_and_save_model(
    trainer: ParallelTrainer,
    tokenizer: PreTrainedTokenizerBase,
    out: Path,
    seconds: float | None = None,
    iterations: int = 1,
    checkpoint_to: str | None = None,
) -> Path:
    """Train, and write the final model to `out/model` in one step. Returns that folder.

    Training resumes from the last checkpoint, if there is one. It stops after `seconds`, if given, when the trainer's steps
    are a multiple of `iterations`. Checkpoints are sent to `checkpoint_to` too, if given.
    """
    from transformers.trainer_callback import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    progress = ProgressCallback(out)
    trainer.add_callback(progress)
    if seconds:
        trainer.add_callback(TimeLimit(seconds, iterations))
    state = trainer.accelerator
    if checkpoint_to:
        store = store_of_run(checkpoint_to, out)
        trainer.add_callback(StoredCheckpoints(store, state, trainer.args.save_total_limit or 1))
    checkpoint = find_last_checkpoint(out) if state.is_main_process else None
    state.wait_for_everyone()
    checkpoint = checkpoint or find_last_checkpoint(out)
    if checkpoint and state.is_main_process:
        say(f"{out}: kept from an earlier start: {Path(checkpoint).name}, from which it goes on")
    if checkpoint:
        args = trainer.args
        stored = json.loads((Path(checkpoint) / "trainer_state.json").read_text(encoding="utf-8"))
        done, asked = ("global_step", args.max_steps) if args.max_steps > 0 else ("epoch", args.num_train_epochs)
        if stored[done] >= asked:  # only the final model is missing, and the trainer would make one more update
            args.max_steps, args.num_train_epochs = -1, 0
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    finally:
        progress.release_terminal()
    making = out / "model.making"
    trainer.save_model(str(making))
    if state.is_main_process:
        tokenizer.save_pretrained(making)
        shutil.rmtree(out / "model", ignore_errors=True)
        making.rename(out / "model")
    state.wait_for_everyone()
    return out / "model"
