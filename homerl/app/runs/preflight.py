"""Checks before any work whether this machine can run a recipe, and what `homerl check` says of it.

Invariants: a run that would only fail later is refused now, with everything that is missing in one message. In the summary,
what a person decides by comes first; every key with its value comes last, and only if it is asked for.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from homerl.app.runs.recipe import Recipe
from homerl.app.runs.rehearsal import BLUEPRINTS, measure_prompts, rehearse_recipe
from homerl.envs.core.documents import InputError
from homerl.host.monitoring import set_monitoring_variables
from homerl.host.processes import is_main_process
from homerl.host.recipe_files import BaseRecipe
from homerl.host.terminal import count_with_noun, waiting_spinner
from homerl.models.endpoint.endpoint_settings import NO_KEY, EndpointSettings
from homerl.models.endpoint.vllm_server import describe_server_trouble, find_vllm
from homerl.models.policy.chat_template import choose_chat_template, describe_trained_template
from homerl.synth.recipe import SynthRecipe
from homerl.train import TRAININGS
from homerl.train.engines.contract import chosen_engine
from homerl.train.memory_estimate import estimate_all_stages, find_process_memory, is_liger_installed
from homerl.train.model_settings import ModelSettings
from homerl.train.model_sources import (
    explain_base_download,
    is_local_model_name,
    is_model_folder,
    is_on_hub,
    load_model_tokenizer,
    resolve_model_source,
)
from homerl.train.offline_bases import BASES
from homerl.train.recipe import DistillSettings, RLVESections, parallel_mode, refuse_untrainable, world_size
from homerl.worlds.registry import source_parts

OFFLINE = "`--wandb.mode offline` keeps metrics beside the run, for `wandb sync`"
GPU, KERNELS = "pip install 'homerl[gpu]'", "pip install 'homerl[kernels]'"


def check_machine(recipe: BaseRecipe, path: str) -> None:
    """Raise `InputError` for a recipe that cannot be trained, or with all that is missing: a GPU, packages, weights, data,
    endpoints, the login of Weights & Biases.
    """
    refuse_untrainable(recipe)
    if missing := find_missing_parts(recipe):
        raise _cannot_run(missing, path)


def _cannot_run(missing: Sequence[str], path: str) -> InputError:
    remedy = "run it where these are, or begin with recipes/quickstart.yaml, which needs none of them"
    return InputError(f"this machine cannot run the recipe: {'; '.join(missing)}", path, remedy)


def find_missing_parts(recipe: BaseRecipe) -> list[str]:
    """All that this machine lacks for a recipe, each in words."""
    looks = [_find_missing_gpus, _find_missing_packages, _find_missing_weights, _find_missing_data]
    looks += [_find_missing_endpoints, _find_missing_engine, _find_missing_login]
    return [what for look in looks for what in look(recipe)]


def refuse_other_process_count(recipe: BaseRecipe, path: str) -> None:
    """Raise `InputError` if another number of training processes was launched than the recipe names."""
    wanted, started = recipe.processes, world_size()
    if recipe.run in TRAININGS and wanted and wanted != started:
        what = f"the recipe says processes: {wanted}, and {started} train{'s' * (started == 1)}"
        raise InputError(what, path, f"start it by `torchrun --nproc_per_node {wanted} {path}`, or leave `processes` out")


def describe_chat_template(model: str) -> str | None:
    """Which chat template a model is trained with, in words; None if its tokenizer is not at hand.

    Raises `InputError` if there is none that it could be trained with.
    """
    try:
        tokenizer = load_model_tokenizer(resolve_model_source(model), local_files_only=True)
    except (OSError, ValueError):
        return None
    from homerl.train.untrained_tokens import RENAMED

    choose_chat_template(tokenizer, model)
    renamed = sum(RENAMED.format(id) == token for token, id in tokenizer.get_added_vocab().items())
    unlearnt = f"; {renamed} tokens that no training of it has seen are written in ordinary ones" if renamed else ""
    return describe_trained_template(tokenizer) + unlearnt


def _find_missing_gpus(recipe: BaseRecipe) -> list[str]:
    if recipe.cpu or getattr(recipe, "model", None) is None:
        return []
    import torch

    return [] if torch.cuda.is_available() else ["no GPU is visible to torch (tiny models run with `cpu: true`)"]


def _find_missing_packages(recipe: BaseRecipe) -> list[str]:
    serves = any(settings.serve for settings in chat_models_of_recipe(recipe).values())
    deepspeed = recipe.run in (*TRAININGS, "flywheel") and parallel_mode(recipe).startswith("zero")
    engine: Mapping[str, str] = {}
    if hasattr(recipe, "rlve"):
        kind = chosen_engine(recipe.rlve)
        engine = {} if kind.has_own_weights and recipe.rlve.play_only else kind.packages
    reporters = [name for name in recipe.report_to if name != "wandb" and importlib.util.find_spec(name) is None]
    missing = {"deepspeed": GPU} if deepspeed and importlib.util.find_spec("deepspeed") is None else {}
    model: ModelSettings | None = getattr(recipe, "model", None)
    fused = model is not None and model.kernels == "liger"
    missing |= {"liger_kernel": KERNELS} if fused and not is_liger_installed() else {}
    missing |= {"vllm": GPU} if serves and find_vllm() is None else {}
    missing |= {name: how for name, how in engine.items() if importlib.util.find_spec(name) is None}
    absent = [f"the package {name} is not installed ({how})" for name, how in missing.items()]
    absent += [f"the package {name} is not installed, and report_to names it (pip install {name})" for name in reporters]
    return absent


def _find_missing_weights(recipe: BaseRecipe) -> list[str]:
    """What the policy's weights lack, and a teacher's."""
    model: ModelSettings | None = getattr(recipe, "model", None)
    teacher = _teacher_of_recipe(recipe)
    names = (model.name if model else None, teacher.model if teacher and not teacher.url else None)
    lacking = []
    for name in (resolve_model_source(name) for name in names if name):
        if Path(name).exists():
            lacking += [] if is_model_folder(Path(name)) else [f"{name} holds neither a model nor an adapter"]
        elif is_local_model_name(name):
            lacking.append(f"there is no model folder {name} (train it first, or name a hub model)")
        elif not is_on_hub(name):
            how = f" ({explain_base_download(name)})" if name in BASES else ""
            lacking.append(f"the weights of {name} are neither cached nor reachable on the hub{how}")
    return lacking


def _find_missing_data(recipe: BaseRecipe) -> list[str]:
    data = getattr(recipe, "data", None)
    named = [getattr(getattr(recipe, part, None), "recipe", None) for part in ("blueprints", "evaluation")]
    sources = [part for source in named for part in source_parts(source)]
    files = [source.file for source in sources if hasattr(source, "file")]
    missing = [f"there is no file of blueprints at {file}" for file in files if not file.exists()]
    if data is None or Path(data).exists() or not is_local_model_name(data):
        return missing
    return [*missing, f"there is no data at {data} (make it with recipes/synth.yaml)"]


def _find_missing_login(recipe: BaseRecipe) -> list[str]:
    """What keeps a training from sending its metrics to Weights & Biases. Only the first process sends any."""
    trains = recipe.run in TRAININGS or (recipe.run == "flywheel" and not (recipe.out / "rlve/model").is_dir())
    if not trains or not is_main_process() or "wandb" not in recipe.report_to or recipe.wandb.mode != "online":
        return []
    set_monitoring_variables(recipe)
    return find_wandb_troubles(OFFLINE)


def find_wandb_troubles(instead: str) -> list[str]:
    """What keeps this process from sending metrics to Weights & Biases. `instead` says how to do without it."""
    import wandb

    try:
        known = wandb.login(prompt=False)
    except wandb.errors.Error as error:
        return [f"Weights & Biases takes no metrics: {str(error).splitlines()[0]} ({instead})"]
    return [] if known else [f"nobody is logged in to Weights & Biases (type `wandb login`; {instead})"]


def _find_missing_engine(recipe: BaseRecipe) -> list[str]:
    """What the engine lacks on this machine, or on its servers."""
    return list(chosen_engine(recipe.rlve).lacks(recipe.rlve)) if hasattr(recipe, "rlve") else []


def _find_missing_endpoints(recipe: BaseRecipe) -> list[str]:
    """The models that cannot be asked at any of their URLs."""
    asked = [(part, settings.urls, settings.key) for part, settings in chat_models_of_recipe(recipe).items()]
    asked += [("teacher", (teacher.url,), NO_KEY)] if (teacher := _teacher_of_recipe(recipe)) and teacher.url else []
    found = []
    for part, urls, key in asked:
        troubles = [describe_server_trouble(url, key) for url in urls]
        found += [f"the {part} at {', '.join(urls)} {troubles[0]}"] if troubles and all(troubles) else []
    return found


def _teacher_of_recipe(recipe: BaseRecipe) -> DistillSettings | None:
    return recipe.rlve.distill if hasattr(recipe, "rlve") else None


def chat_models_of_recipe(recipe: BaseRecipe) -> dict[str, EndpointSettings]:
    """The chat models that a recipe names, by role."""
    synth, user = getattr(recipe, "synth", None), getattr(recipe, "user", None)
    models = dict(synth.model_endpoints) if synth else {}
    return models | ({"user": user} if user and user.is_llm else {})


def summarise_recipe(recipe: Recipe, path: str, gpus: int | None, gpu_memory: float | None, full: bool) -> Iterator[str]:
    """The lines of a summary: memory and disk of each training, an episode of each source, and its prompts.

    With `full`, each part of the memory too. With `gpus` or `gpu_memory` the summary is a plan for another machine: it says
    whether the recipe fits there, and apart from that what this machine lacks. Without, `InputError` is raised for what this
    machine lacks; of a plan, for what does not fit.
    """
    plans = gpus is not None or gpu_memory is not None
    yield f"{path}: {recipe.run} in {recipe.out}"
    memory = find_process_memory(recipe, gpu_memory or 80.0)
    with waiting_spinner(f"{path}: estimating memory and disk", in_log=True):
        estimates = estimate_all_stages(recipe, gpus, memory)
    for stage, estimate in estimates.items():
        yield from (f"{stage}: {line}" for line in (estimate.report_lines if full else estimate.brief_lines)(memory))
        name = recipe.model.name if not isinstance(recipe, SynthRecipe) and recipe.model else None
        if name and (template := describe_chat_template(name)):
            yield f"{stage}: chat template: {template}"
    yield from _describe_serving_gpus(recipe)
    refuse_untrainable(recipe)
    missing = find_missing_parts(recipe)
    short = [said for estimate in estimates.values() if (said := estimate.disk.describe_shortage())]
    if not plans:
        yield from (f"disk: warning: {what}" for what in short)
    if missing and not plans:
        yield "prompts: not measured, since this machine lacks something (`--gpus N` plans for another machine)"
        raise _cannot_run(missing, path)
    with waiting_spinner(f"{path}: rehearsing an episode of each source of tasks", in_log=True):
        rehearsed = rehearse_recipe(recipe)
    yield from (f"rehearsal: {line}" for line in rehearsed)
    if unread := _find_missing_weights(recipe):
        yield f"prompts: not measured, since {unread[0]}; `--model.name NAME` measures by another model's tokenizer"
    else:
        with waiting_spinner(f"{path}: measuring prompts of {BLUEPRINTS} episodes", in_log=True):
            measured = measure_prompts(recipe, path)
        yield from (f"prompts: {'warning: ' * found.warns}{found.line}" for found in measured)
    yield from (f"limits: warning: {line}" for line in find_other_limits(recipe))
    misfits = [stage for stage, estimate in estimates.items() if not estimate.fits_in_memory(memory)]
    if not misfits and (plans or not short):
        of_gpus = f", if each of its GPUs has {memory:g} GB" * bool(estimates and not recipe.cpu)
        here = f"this machine can run it{of_gpus}"
        yield f"the recipe: good, and {'it fits the machine that you plan for' if plans else here}"
    elif not plans:
        yield "the recipe: good, but this machine has too little memory or disk for it: see above"
    if plans:
        yield from (f"on this machine: {what}" for what in (*missing, *short))
        if misfits:
            what = f"{' and '.join(misfits)} {'does' if len(misfits) == 1 else 'do'} not fit the machine that you plan for"
            raise InputError(what, path, "see what needs less memory, above, or give more GPUs or larger ones")


def _describe_serving_gpus(recipe: BaseRecipe) -> Iterator[str]:
    """A line for each model that GPUs of the training's node serve."""
    for part, settings in chat_models_of_recipe(recipe).items():
        if settings.serve:
            model, served = settings.model or settings.serve.model, len(settings.serve.gpus)
            left = f"which do not train: a node of 8 has {max(0, 8 - served)} that do"
            yield f"{part}: {model} is served by {count_with_noun(served, 'more GPU')}, {left}"


def find_other_limits(recipe: BaseRecipe) -> Iterator[str]:
    """A line for each limit of RLVE's episodes that is another in the suites in which the recipe then uses the model.

    A policy learns to end where its episodes end: within fewer messages than it has later, it tries nothing twice. A
    `benchmark` has limits of its own, so it is not compared.
    """
    bench = getattr(recipe, "bench", None)
    if not isinstance(recipe, RLVESections) or bench is None or all(suite.benchmark for suite in bench.suites):
        return
    used = asdict(bench.limits)
    for name, trained in asdict(recipe.limits).items():
        if trained != used[name]:
            values = " and ".join("null" if value is None else str(value) for value in (trained, used[name]))
            yield (
                f"limits.{name} and bench.limits.{name} are {values}; train within the limits in which the model is used, "
                "or it learns to give up early"
            )
