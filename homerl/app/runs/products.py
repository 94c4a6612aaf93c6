"""What the stages of a flywheel have made, and what is still to be made.

Invariants: a product counts only if it is whole, if the stage's recipe made it, and if what it was made from is there; one
that another recipe made, or that was made from what is gone, is refused with the folders to delete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from homerl.app.runs.bench import suite_episodes
from homerl.app.runs.children import stage_recipe_path
from homerl.app.runs.recipe import KINDS
from homerl.bench.recipe import BenchRecipe
from homerl.bench.score import is_complete_score
from homerl.envs.core.documents import InputError, read_json, read_yaml
from homerl.envs.core.model import IDENTITY
from homerl.host.terminal.console import count_with_noun
from homerl.host.terminal.endings import RunStopped
from homerl.play.trajectory import Outcome
from homerl.train import TRAININGS

Stage = tuple[dict[str, Any], Path]  # a recipe as plain data, and the file or folder that proves it done


def unfinished_stages(found: Sequence[Stage]) -> list[Stage]:
    """The stages that are not done, of all stages in order. Raises `InputError` for what an earlier stage made that is gone
    or incomplete, and for what another recipe made.
    """
    todo: list[Stage] = []
    for stage, product in found:
        before = next((before for before, _ in todo if stage_reads_from(stage, before)), None)
        if before and (made := next((path for path in stage_traces(stage, product) if path.exists()), None)):
            remedy = join_paths(existing_stage_folders(downstream_stages(before, found)))
            what = f"{made} was made from what is to be made again"
            raise InputError(what, before["out"], f"choose another --out, or delete {remedy} too")
        if before or not is_stage_done(stage, product, found):
            todo.append((stage, product))
    return todo


def is_stage_done(stage: dict[str, Any], product: Path, found: Sequence[Stage] = ()) -> bool:
    """Whether the product of a stage exists and is whole. Raises `InputError` if another recipe made it.

    `found` are all stages of the flywheel.
    """
    if not product.exists():
        return False
    path = stage_recipe_path(stage)
    if path.exists() and not is_recipe_of_stage(read_yaml(path).data, stage):
        folders = existing_stage_folders([stage, *downstream_stages(stage, found)])
        remedy = f"choose another --out, or delete {join_paths(folders)} to make it again"
        raise InputError(f"{product} was made by another recipe", where=str(path), remedy=remedy)
    if stage["run"] == "synth":
        used = any(stage_recipe_path(later).exists() for later in downstream_stages(stage, found))
        return bool(count_trajectories(product)) and (
            used or not count_lost_blueprints(product)
        )  # earlier ones trained on what was there
    return stage["run"] != "bench" or is_fully_scored(BenchRecipe.model_validate(stage))


def require_stage_product(stage: dict[str, Any], product: Path) -> None:
    """Raise an error if a stage ended without its product, or if servers lost a part of it."""
    if not product.exists():
        raise RuntimeError(f"a stage ended without making {product}")
    if stage["run"] == "synth" and (count := count_lost_blueprints(product)):
        raise IncompleteStage(
            f"servers failed for {count_with_noun(count, 'blueprint')}, so the flywheel does not go on\n"
            "see to the servers; the same command makes these again"
        )


class IncompleteStage(RunStopped):
    """A stage made less than its recipe says, through no fault of its own (exit code 4)."""

    code = 4


def count_trajectories(stats: Path) -> int:
    """The number of trajectories of a synthesis."""
    return int(read_json(stats).data.get("trajectories", 0))


def count_lost_blueprints(stats: Path) -> int:
    """The number of blueprints of a synthesis for which servers failed."""
    return int(read_json(stats).data.get("outcomes", {}).get(Outcome.INFRA_ERROR, 0))


def stage_reads_from(stage: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a stage uses the data or the model of an earlier one."""
    if before["run"] == "bench":
        return False
    used = [Path(source) for source in (stage.get("data"), (stage.get("model") or {}).get("name")) if source]
    return any(Path(before["out"]) in (path, *path.parents) for path in used)


def downstream_stages(stage: dict[str, Any], found: Sequence[Stage]) -> list[dict[str, Any]]:
    """The stages that use what a stage makes, or what these make from it."""
    reached = [stage]
    for other, _ in found:
        if any(stage_reads_from(other, one) for one in reached):
            reached.append(other)
    return reached[1:]


def stage_traces(stage: dict[str, Any], product: Path) -> list[Path]:
    """What a stage may leave: its product, and checkpoints from which it would go on."""
    return [product, Path(stage["out"]) / "checkpoints"] if stage["run"] in TRAININGS else [product]


def existing_stage_folders(stages: Iterable[dict[str, Any]]) -> list[Path]:
    """The folders of stages that are there, without those that lie in another of them. A model's benchmark has but a part of
    the model's folder.
    """
    named = [Path(stage["out"]) / "bench" if stage["run"] == "bench" else Path(stage["out"]) for stage in stages]
    return [path for path in named if path.exists() and not any(other in path.parents for other in named)]


def join_paths(paths: Sequence[Path]) -> str:
    """The paths as a part of a sentence."""
    return " and ".join(map(str, paths))


def is_fully_scored(recipe: BenchRecipe) -> bool:
    """Whether each suite of a benchmark was played to its end; an interrupted one has a score of what was played."""
    files = [(suite, recipe.out / "bench" / suite.name / "score.json") for suite in recipe.bench.suites]
    return all(
        file.exists() and is_complete_score(read_json(file).data, len(suite_episodes(suite, recipe.bench.limits)))
        for suite, file in files
    )


def is_recipe_of_stage(stored: dict[str, Any], stage: dict[str, Any]) -> bool:
    """Whether a stored recipe of a stage is the stage's own. The expert of earlier versions had one way to work."""
    now = stage if "expert" in stored else {key: value for key, value in stage.items() if key != "expert"}
    return stage_identity(stored) == stage_identity(now)


def stage_identity(stage: dict[str, Any]) -> str:
    """A text of what a stage's product depends on: not the run's folder, nor the number of processes.

    Keys that the stage lacks have their defaults, since an earlier version of homerl may have written it.
    """
    with suppress(ValidationError):  # a key that this version does not know is a difference
        stage = KINDS[stage["run"]].model_validate(stage).model_dump(mode="json", context=IDENTITY)
    text = json.dumps(stage | {"processes": 0}, sort_keys=True)
    run = json.dumps(str(Path(stage["out"]).parent))[:-1]  # as it begins a text; a folder may be called like a key
    return text.replace(f"{run}/", '"RUN/')
