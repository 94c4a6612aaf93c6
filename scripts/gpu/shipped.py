"""Shipped recipes, changed to run here: other weights, no network, few updates.

Invariant: attention, kernels and checkpointing are the recipes' own choice.
"""

from __future__ import annotations

import json
import shutil
from functools import reduce
from pathlib import Path
from typing import Any

from gpu.machine import ROOT, Machine

TINY_FLYWHEEL = [
    "--cpu", "true", "--synth.blueprints", "40", "--sft.dialogues_per_update", "4", "--sft.max_steps", "4",
    "--rlve.updates", "1", "--rlve.blueprints_per_update", "2", "--rlve.group", "4", "--rlve.max_tokens", "16",
    "--rlve.engine.kind", "transformers",
    "--bench.max_tokens", "16", "--blueprints.count", "4",
    "--bench.suites", '[{"name": "easier-half", "benchmark": "smarthome-bench", "easier_half": true, "count": 6}]',
    "--model.from_scratch",
    '{"hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 16, "intermediate_size": 64}',
]  # fmt: skip


def recipe(machine: Machine, name: str, model: Path, out: Path, **sections: Any) -> Any:
    """A shipped recipe with other weights and changed sections, and with everything off that needs a network. The machine's
    overrides come last.
    """
    from homerl.app.runs.recipe import KINDS
    from homerl.host.recipe_files import load_recipe_document, parse_overrides

    data, _ = load_recipe_document(ROOT / f"recipes/{name}.yaml")
    shutil.rmtree(out, ignore_errors=True)
    data |= {"out": str(out), "wandb": {"mode": "disabled"}, "report_to": [], "parallel": "none", "cpu": machine.tiny}
    data["model"] |= {"name": str(model), "dtype": machine.pick("bfloat16", "float32")}
    for key, value in sections.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    for (*above, last), value in parse_overrides(machine.overrides):
        reduce(lambda inner, key: inner.setdefault(key, {}), above, data)[last] = value
    return KINDS[data["run"]].model_validate(data)


def logged(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def updates(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics that are of an update."""
    return [line for line in logged(out) if "loss" in line]
