"""What a run's folder says of a model: the stages before it, their data, and the terms of a talk with it.

Invariants:
- Files that a folder lacks are left out. A folder that was moved together with the others is found.
- A person meets the homes in which the model was measured, if the run names them, else those in which it was trained. The
  same holds for sampling and limits. The terms are plain data, which an export can hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError, read_json
from homerl.host.recipe_files import (
    CHECKPOINT,
    OF_TASKS,
    RECIPE,
    STAGES,
    find_moved_folder,
    find_stage_of_model,
    read_own_recipe,
    read_stage_recipe,
    refuse_unloaded_run_plugins,
    stage_files,
    starting_model,
    was_beside_stage,
)
from homerl.play.trajectory import locate_row_errors, read_first_row
from homerl.train.model_sources import is_model_folder, read_export_facts, resolve_model_source


def find_trained_stage(run: Path) -> Path:
    """The folder that holds `model/`: `run` itself, or the last trained stage of a flywheel; else `InputError`."""
    for stage in (run, *(run / name for name in STAGES)):
        if is_model_folder(stage / "model"):
            return stage
    if not run.is_dir():
        raise InputError("there is no such folder", str(run), "give a run's folder: the `out` of its recipe")
    if is_model_folder(run):
        raise InputError("no run lies around this model", str(run), "give the folder of a run, or of its model")
    if folders := [path for stage in (run, *(run / name for name in STAGES)) if (path := stage / "checkpoints").is_dir()]:
        # Of a model in shards a checkpoint holds none, and one without its last file was not written to its end.
        whole = [path.parent for path in folders[0].glob("*/trainer_state.json") if is_model_folder(path.parent)]
        newest = max(whole, key=read_step_of_model, default=None)
        remedy = "start its recipe again: it resumes"
        raise InputError("training has not finished", str(run), f"{remedy}; or take {newest}" if newest else remedy)
    remedy = "give the folder of a finished sft, rlve or flywheel run"
    raise InputError("there is no trained model here", str(run), remedy)


def read_step_of_model(model: Path) -> int:
    """After which step of its stage's optimizer a checkpoint or a best model was written; 0 if nothing tells."""
    if found := CHECKPOINT.fullmatch(model.name):
        return int(found[1])
    stage, score = find_stage_of_model(model), model.parent / "score.json"
    if stage is None or not score.is_file():
        return 0
    steps: int = (read_stage_recipe(stage).get("rlve") or {}).get("iterations") or 1
    return int(read_json(score).data["update"]) * steps


def stage_lineage(stage: Path) -> list[Path]:
    """The stages that led to a stage's model, oldest first; each started from the model of the one before."""
    chain = [stage]
    while model := find_moved_folder(chain[0], starting_model(read_stage_recipe(chain[0]))):
        if not (before := find_stage_of_model(model)) or before in chain:
            break
        chain.insert(0, before)
    return chain


def last_blueprint_recipe(stage: Path) -> dict[str, Any]:
    """The recipe of the blueprints that a stage's model was last trained on, or one of them; empty if there is no trace."""
    played = (_find_played_recipe(folder, read_stage_recipe(folder)) for folder in reversed(stage_lineage(stage)))
    return next(filter(None, played), {})


def training_data_folder(stage: Path, recipe: Mapping[str, Any]) -> Path | None:
    """The folder of the data by which a recipe trained a stage, even if both were moved together. None if it is gone or on
    the hub. A stage without data of its own has those of its flywheel.
    """
    if source := recipe.get("data"):
        moved = stage.parent / Path(source).name
        return moved if was_beside_stage(stage, Path(source)) and moved.is_dir() else find_moved_folder(stage, source)
    flywheel = any(read_own_recipe(path).get("run") == "flywheel" for path in stage_files(stage, RECIPE))
    return stage.parent / "synth" if flywheel else None


def _find_played_recipe(stage: Path, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe of the blueprints that a stage was trained on, or the first that is found of these blueprints."""
    sources = ((recipe.get(key) or {}).get("recipe") for key in ("blueprints", "synth"))
    told: dict[str, Any] = next(filter(None, sources), {})
    if told and "file" not in told:
        return told
    if told and (first := read_first_row(Path(told["file"]))):
        return first
    source = recipe.get("data")
    data = training_data_folder(stage, recipe) or (Path(source) if source else None)
    if data and (made := (read_stage_recipe(data).get("synth") or {}).get("recipe")):
        return dict(made)
    stored = [data / "trajectories.jsonl" if data.is_dir() else data] if data else []
    return next(filter(None, map(_read_first_blueprint, (*sorted((stage / "rollouts").glob("*.jsonl")), *stored))), {})


def _read_first_blueprint(file: Path) -> dict[str, Any]:
    """The blueprint of the first row of a file; empty if it has none. Raises `InputError` with its place if it is none."""
    if not isinstance(text := read_first_row(file).get("blueprint"), str):
        return {}
    with locate_row_errors(f"{file}:1"):
        if not isinstance(found := json.loads(text), dict):
            raise TypeError("its blueprint is no object")
    return found


def read_talk_terms(folder: Path) -> dict[str, Any]:
    """The terms of a talk with the model of a folder: those of its stage (`talk_terms_of_stage`), or those of its export.

    Exports of earlier versions hold only the recipe of their homes, or nothing. Raises `InputError` if plug-ins of the
    stage's run are not loaded.
    """
    if (stage := find_stage_of_model(folder)) and stage_files(stage, RECIPE):
        refuse_unloaded_run_plugins(stage, OF_TASKS)
        return talk_terms_of_stage(stage)
    card = read_export_facts(folder)
    return card.get("talk") or {"recipe": card.get("played")}


def mixture_parts(recipe: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The parts of a mixture of blueprints by name, or the recipe alone."""
    if "worlds" in recipe:
        return {name: part.get("recipe") or {} for name, part in recipe["worlds"].items()}
    return {"": recipe}


def trained_blueprint_recipes(model: str) -> list[Mapping[str, Any]]:
    """The recipes of the blueprints of a model (a folder or a name), the one for a talk first; empty if nothing is known, as
    of a model behind a URL."""
    recipe = read_talk_terms(Path(resolve_model_source(model))).get("recipe")
    return [*mixture_parts(recipe).values()] if recipe else []


def talk_terms_of_stage(stage: Path) -> dict[str, Any]:
    """The `recipe` of the homes, `temperature`, `max_tokens`, `steps` (most messages for a sentence), `turns` and
    `same_refusals` of a talk.

    A key is left out if neither the recipes beside the stage's model nor those of its flywheel say it.
    """
    # The recipe by which the stage's model was measured, that of the stage, and that of its flywheel.
    data = [read_own_recipe(path) for path in (*stage_files(stage, "bench.yaml"), *stage_files(stage, RECIPE))]
    bench: Mapping[str, Any] = next((found for one in data if (found := one.get("bench"))), {})
    suites = [suite for suite in bench.get("suites") or () if not suite.get("benchmark")]
    recipe = suites[0].get("recipe") if suites else None
    limits: Mapping[str, Any] = bench.get("limits") or next((found for one in data if (found := one.get("limits"))), {})
    told = {
        "recipe": recipe or last_blueprint_recipe(stage) or None,
        "temperature": bench.get("temperature"),
        "max_tokens": bench.get("max_tokens"),
        "steps": limits.get("steps_per_turn"),
        "turns": limits.get("turns"),
        "same_refusals": limits.get("same_refusals"),
    }
    return {key: value for key, value in told.items() if value is not None}
