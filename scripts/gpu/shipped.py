"""Shipped recipes, changed to run here: other weights, no network, few updates.

Invariant: this is the only module that names keys of recipes which differ between versions of the trainers. A key that the
settings do not have is left out, so it follows the settings.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gpu.machine import ROOT, Machine


def sft_keys(row: int, dialogues: int) -> dict[str, Any]:
    """Settings of SFT under which an update trains on about `row` tokens: rows of that size, or that many dialogues."""
    from homerl.train.recipe import SFTSettings

    new = {"dialogues_per_update": dialogues, "tokens_per_step": row}
    old = {"batch": 1, "accumulate": 1, "packing": True}
    return known(SFTSettings, new | old) | {"save_steps": None, "log_steps": 1, "max_length": row}


def rlve_keys(rows: int) -> dict[str, Any]:
    """Settings of RLVE, which trains on `rows` rollouts at a time where tokens do not say how many."""
    from homerl.train.recipe import RLVESettings

    new = {"tokens_per_step": "auto"}
    old = {"batch": rows}
    return known(RLVESettings, new | old) | {"save_steps": None, "log_steps": 1}


def model_keys(machine: Machine, model: Path) -> dict[str, Any]:
    """The model's section, less what the recipe says of it."""
    from homerl.train.recipe import ModelSettings

    new = {"attention": "auto", "kernels": "auto"} if "kernels" in ModelSettings.model_fields else {"attention": "sdpa"}
    return {"name": str(model), "dtype": machine.pick("bfloat16", "float32"), **new}


def flywheel_arguments() -> list[str]:
    """What recipes/scratch_100m.yaml needs on 80 GB: rollouts padded to the longest fit 16 at a time."""
    from homerl.train.recipe import RLVESettings

    return ["--rlve.batch", "16"] if "batch" in RLVESettings.model_fields else []


def tiny_flywheel() -> list[str]:
    """Arguments that make a flywheel tiny."""
    from homerl.train.recipe import RLVESettings, SFTSettings

    arguments = [
        "--cpu", "true", "--synth.blueprints", "40", "--sft.max_steps", "4", "--rlve.updates", "1",
        "--rlve.blueprints_per_update", "2", "--rlve.group", "4", "--rlve.max_tokens", "16",
        "--bench.max_tokens", "16", "--blueprints.count", "4",
        "--bench.suites", '[{"name": "easier-half", "benchmark": "smarthome-bench", "easier_half": true, "count": 6}]',
        "--model.from_scratch",
        '{"hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 16, "intermediate_size": 64}',
    ]  # fmt: skip
    for section, settings in (("sft", SFTSettings), ("rlve", RLVESettings)):
        for key, value in known(settings, {"batch": 4, "dialogues_per_update": 4}).items():
            arguments += [f"--{section}.{key}", str(value)]
    return arguments


def known(settings: Any, keys: dict[str, Any]) -> dict[str, Any]:
    """The keys that the settings have."""
    return {key: value for key, value in keys.items() if key in settings.model_fields}


def recipe(machine: Machine, name: str, model: Path, out: Path, **sections: Any) -> Any:
    """A shipped recipe with other weights and changed sections, and with everything off that needs a network."""
    from homerl.recipe.load import load
    from homerl.run.recipe import KINDS

    data, _ = load(ROOT / f"recipes/{name}.yaml")
    shutil.rmtree(out, ignore_errors=True)
    data |= {"out": str(out), "wandb": {"mode": "disabled"}, "report_to": [], "parallel": "none", "cpu": machine.tiny}
    data["model"] |= model_keys(machine, model)
    for key, value in sections.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    return KINDS[data["run"]].model_validate(data)


def logged(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def updates(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics that are of an update."""
    return [line for line in logged(out) if "loss" in line]
