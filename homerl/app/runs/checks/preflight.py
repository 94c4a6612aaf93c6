"""Checks before any work whether this machine can run a recipe.

Invariant: a run that would only fail later is refused now, with everything that is missing in one message.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from homerl.envs.core.documents import InputError
from homerl.host.processes.ranks import is_first
from homerl.host.recipe.base import Base
from homerl.host.recipe.monitoring import tell_services
from homerl.models.endpoint.serve import find_vllm, trouble
from homerl.models.endpoint.settings import NO_KEY, EndpointSettings
from homerl.models.policy.chat_choice import choose_format, described
from homerl.train import TRAININGS
from homerl.train.engines.registry import engine_of
from homerl.train.memory import liger_installed
from homerl.train.model import ModelSettings
from homerl.train.named import holds_model, looks_local, model_source, on_hub, tokenizer_of
from homerl.train.recipe import DistillSettings
from homerl.train.refusals import parallel_mode, refuse_untrainable, world_size
from homerl.worlds.registry import parts_in

OFFLINE = "`--wandb.mode offline` keeps metrics beside the run, for `wandb sync`"
GPU, KERNELS = "pip install 'homerl[gpu]'", "pip install 'homerl[kernels]'"


def check_machine(recipe: Base, path: str) -> None:
    """Raise `InputError` for a recipe that cannot be trained, or with all that is missing: a GPU, packages, weights, data,
    endpoints, the login of Weights & Biases.
    """
    refuse_untrainable(recipe)
    looks = (_gpus, _packages, _weights, _data, _endpoints, _engine, _login)
    missing = [what for look in looks for what in look(recipe)]
    if missing:
        raise InputError(
            "this machine cannot run the recipe: " + "; ".join(missing),
            where=path,
            remedy="run it where these are, or begin with recipes/quickstart.yaml, which needs none of them",
        )


def other_count(recipe: Base, path: str) -> str | None:
    """What is to be said if a launcher started another number of training processes than the recipe names; None if not."""
    wanted, started = recipe.processes, world_size()
    if recipe.run not in TRAININGS or not wanted or wanted == started:
        return None
    remedy = f"`torchrun --nproc_per_node {wanted} {path}` starts {wanted}"
    return f"{path}: the recipe says processes: {wanted}, and {started} train{'s' * (started == 1)}; {remedy}"


def template_of(model: str) -> str | None:
    """Which chat template a model is trained with, in words; None if its tokenizer is not at hand.

    Raises `InputError` if there is none that it could be trained with.
    """
    try:
        tokenizer = tokenizer_of(model_source(model), local_files_only=True)
    except (OSError, ValueError):
        return None
    choose_format(tokenizer, model)
    return described(tokenizer)


def _gpus(recipe: Base) -> list[str]:
    if recipe.cpu or getattr(recipe, "model", None) is None:
        return []
    import torch

    return [] if torch.cuda.is_available() else ["no GPU is visible to torch (tiny models run with `cpu: true`)"]


def _packages(recipe: Base) -> list[str]:
    serves = any(settings.serve for settings in models_of(recipe).values())
    deepspeed = recipe.run in (*TRAININGS, "flywheel") and parallel_mode(recipe).startswith("zero")
    engine = engine_of(recipe.rlve).packages if hasattr(recipe, "rlve") else {}
    reporters = [name for name in recipe.report_to if name != "wandb" and importlib.util.find_spec(name) is None]
    missing = {"deepspeed": GPU} if deepspeed and importlib.util.find_spec("deepspeed") is None else {}
    model: ModelSettings | None = getattr(recipe, "model", None)
    fused = model is not None and model.kernels == "liger"
    missing |= {"liger_kernel": KERNELS} if fused and not liger_installed() else {}
    missing |= {"vllm": GPU} if serves and find_vllm() is None else {}
    missing |= {name: how for name, how in engine.items() if importlib.util.find_spec(name) is None}
    absent = [f"the package {name} is not installed ({how})" for name, how in missing.items()]
    return absent + [
        f"the package {name} is not installed, and report_to names it (pip install {name})" for name in reporters
    ]


def _weights(recipe: Base) -> list[str]:
    """What the policy's weights lack, and a teacher's."""
    model: ModelSettings | None = getattr(recipe, "model", None)
    teacher = _teacher(recipe)
    names = (model.name if model else None, teacher.model if teacher and not teacher.url else None)
    return [what for name in names if name for what in _lacking(name)]


def _lacking(name: str) -> list[str]:
    name = model_source(name)
    if Path(name).exists():
        return [] if holds_model(Path(name)) else [f"{name} holds neither a model nor an adapter"]
    if looks_local(name):
        return [f"there is no model folder {name} (train it first, or name a hub model)"]
    return [] if on_hub(name) else [f"the weights of {name} are neither cached nor reachable on the hub"]


def _data(recipe: Base) -> list[str]:
    data = getattr(recipe, "data", None)
    named = [getattr(getattr(recipe, part, None), "recipe", None) for part in ("blueprints", "evaluation")]
    sources = [part for source in named for part in parts_in(source)]
    files = [source.file for source in sources if hasattr(source, "file")]
    missing = [f"there is no file of blueprints at {file}" for file in files if not file.exists()]
    if data is None or Path(data).exists() or not looks_local(data):
        return missing
    return [*missing, f"there is no data at {data} (make it with recipes/synth.yaml)"]


def _login(recipe: Base) -> list[str]:
    """What keeps a training from sending its metrics to Weights & Biases. Only the first process sends any."""
    trains = recipe.run in TRAININGS or (recipe.run == "flywheel" and not (recipe.out / "rlve/model").is_dir())
    if not trains or not is_first() or "wandb" not in recipe.report_to or recipe.wandb.mode != "online":
        return []
    tell_services(recipe)
    return wandb_troubles(OFFLINE)


def wandb_troubles(instead: str) -> list[str]:
    """What keeps this process from sending metrics to Weights & Biases. `instead` says how to do without it."""
    import wandb

    try:
        known = wandb.login(prompt=False)
    except wandb.errors.Error as error:
        return [f"Weights & Biases takes no metrics: {str(error).splitlines()[0]} ({instead})"]
    return [] if known else [f"nobody is logged in to Weights & Biases (type `wandb login`; {instead})"]


def _engine(recipe: Base) -> list[str]:
    """What the engine lacks on this machine, or on its servers."""
    return list(engine_of(recipe.rlve).lacks(recipe.rlve)) if hasattr(recipe, "rlve") else []


def _endpoints(recipe: Base) -> list[str]:
    """The models that cannot be asked at any of their URLs."""
    asked = [(part, settings.urls, settings.key) for part, settings in models_of(recipe).items()]
    asked += [("teacher", (teacher.url,), NO_KEY)] if (teacher := _teacher(recipe)) and teacher.url else []
    found = []
    for part, urls, key in asked:
        troubles = [trouble(url, key) for url in urls]
        found += [f"the {part} at {', '.join(urls)} {troubles[0]}"] if troubles and all(troubles) else []
    return found


def _teacher(recipe: Base) -> DistillSettings | None:
    return recipe.rlve.distill if hasattr(recipe, "rlve") else None


def models_of(recipe: Base) -> dict[str, EndpointSettings]:
    """The chat models that a recipe names, by role."""
    synth, user = getattr(recipe, "synth", None), getattr(recipe, "user", None)
    models = dict(synth.endpoints) if synth else {}
    return models | ({"user": user} if user and user.is_llm else {})
