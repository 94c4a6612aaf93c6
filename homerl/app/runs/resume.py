"""How runs go on: what a flywheel's stages have made, which training goes on, and what is taken from another run (`--from`).

Invariants:
- A product counts only if it is whole, if the stage's recipe made it, and if what it was made from is there. One that
  another recipe made, or that was made from what is gone, is refused with the folders to delete.
- A training goes on from a checkpoint, or from a model from scratch, only by the recipe that made it. That recipe may differ
  in how and how long it runs, and until the model is finished in how fast it learns.
- A flywheel takes from another one only what its own recipe would make, so its table says the same as without: the
  synthesis, and SFT if that is trained alike, each with what was measured of it. RLVE is never taken. What is taken is
  copied whole or not at all, and the other run never changes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from homerl.app.runs.recipe import FLAG, KINDS, recipe_data
from homerl.app.runs.run_folder import are_equal_files
from homerl.app.runs.stages import stage_recipe_path, suite_episodes
from homerl.bench.recipe import BenchRecipe
from homerl.bench.scores import is_complete_score
from homerl.envs.core.documents import InputError, name_path_in_errors, read_json, read_yaml
from homerl.envs.core.model import IDENTITY
from homerl.host.exit_codes import RunStopped
from homerl.host.recipe_files import FILES, RECIPE, BaseRecipe, flatten_recipe
from homerl.host.terminal import count_with_noun, say
from homerl.play.trajectory import Outcome
from homerl.train import TRAININGS
from homerl.worlds.contract import EXPERT

Stage = tuple[dict[str, Any], Path]  # a recipe as plain data, and the file or folder that proves it done


def unfinished_stages(found: Sequence[Stage]) -> list[Stage]:
    """The stages that are not done, of all stages in order. Raises `InputError` for what an earlier stage made that is gone
    or incomplete, and for what another recipe made.
    """
    todo: list[Stage] = []
    for stage, product in found:
        before = next((before for before, _ in todo if stage_reads_from(stage, before)), None)
        traces = [product, Path(stage["out"]) / "checkpoints"] if stage["run"] in TRAININGS else [product]
        if before and (made := next((path for path in traces if path.exists()), None)):
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
    # Earlier versions trained on what servers had left of a synthesis.
    used = any(stage_recipe_path(later).exists() for later in downstream_stages(stage, found))
    return is_product_whole(stage, product, lost_allowed=used)


def is_product_whole(stage: dict[str, Any], product: Path, lost_allowed: bool = False) -> bool:
    """Whether what a stage made is all that its recipe says; a synthesis may lack what servers lost, if that is allowed."""
    if stage["run"] == "synth":
        return bool(read_json(product).data.get("trajectories")) and (lost_allowed or not count_lost_blueprints(product))
    return stage["run"] != "bench" or is_fully_scored(BenchRecipe.model_validate(stage))


def require_stage_product(stage: dict[str, Any], product: Path) -> None:
    """Raise an error if a stage ended without its product, or if servers lost a part of it."""
    if not product.exists():
        raise RuntimeError(f"a stage ended without making {product}")
    if stage["run"] == "synth" and (count := count_lost_blueprints(product)):
        what = f"servers failed for {count_with_noun(count, 'blueprint')}, so the flywheel does not go on"
        raise RunStopped(f"{what}\nsee to the servers; the same command makes these again", code=4)


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
    # Paths within the run are written as `RUN/...`, so that a run that was moved is the same.
    run = json.dumps(str(Path(stage["out"]).parent))[:-1]  # as it begins a text; a folder may be called like a key
    return text.replace(f"{run}/", '"RUN/')


LEFT = ("checkpoints", "scratch", "model")  # what a training leaves in its folder
HOW = (
    "out", "processes", "parallel", "cpu", "deadlines", "wandb", "report_to", "evaluation", "sentinel", "user.url",
    "user.serve", "user.timeout", "user.deadline", "user.retries", "user.in_flight", "model.attention", "model.compile",
    "model.kernels", "checkpoint_to",
)  # fmt: skip
HOW_OF_STAGE = (
    "tokens_per_step", "gradient_checkpointing", "save_steps", "keep_checkpoints", "log_steps", "seconds", "engine",
    "distill.url", "updates", "epochs", "max_steps",
)  # fmt: skip
HOW_FAST = ("learning_rate", "lr_scheduler", "warmup", "max_grad_norm")  # what a run that failed is told to change


def refuse_another_training(recipe: BaseRecipe) -> None:
    """Raise `InputError` if the recipe's folder holds what another recipe has begun to train."""
    stored, left = recipe.out / RECIPE, [recipe.out / name for name in LEFT if (recipe.out / name).exists()]
    if recipe.run not in TRAININGS or not stored.is_file() or not left:
        return
    was = read_yaml(stored).data
    if was.get("run") != recipe.run:
        return
    # How fast the model learns may change until it is finished.
    fast = () if (recipe.out / "model").exists() else HOW_FAST
    free = (*HOW, *(f"{recipe.run}.{key}" for key in (*HOW_OF_STAGE, *fast)))
    keys = [
        key
        for key in differing_keys(was, recipe_data(recipe))
        if not any(key == section or key.startswith(f"{section}.") for section in free)
    ]
    if not keys:
        return
    what = f"another recipe began this training: {', '.join(keys[:4])}" + (", .." if len(keys) > 4 else "")
    remedy = f"choose another --out, or delete {join_paths(left)} to train anew"
    raise InputError(what, str(stored), remedy)


def differing_keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The keys in which two recipes of a stage differ, by path."""
    ours, theirs = (dict(flatten_recipe(json.loads(stage_identity(dict(data))))) for data in (one, other))
    return [key for key in dict.fromkeys([*ours, *theirs]) if ours.get(key) != theirs.get(key)]


def take_finished_stages(recipe: BaseRecipe, found: Sequence[Stage], run: Path) -> None:
    """Copy the finished stages of a flywheel `run` that are those of `recipe`, whose stages are `found`, and say which.

    Raises `InputError` if not even the synthesis is, or if a file that both name is another one there.
    """
    if run.resolve() == recipe.out.resolve():
        raise InputError("a run cannot start at itself", FLAG, "choose another --out")
    for file in (recipe.out / FILES).glob("*"):
        if (other := run / FILES / file.name).exists() and not are_equal_files(file, other):
            raise InputError(f"this is not the file of the run in {run}", str(file), f"leave out {FLAG}, or name that one")
    of = {name: [one for one in found if Path(one[0]["out"]).name == name] for name in ("synth", "sft", "untrained", EXPERT)}
    chain = [*takewhile(lambda name: _is_stage_made(*of[name][0], run / name), ("synth", "sft", "untrained"))]
    if not chain:
        synth = of["synth"][0][0]
        theirs = run / "synth" / stage_recipe_path(synth).name
        differences = differing_keys(read_yaml(theirs).data, synth) if theirs.is_file() else []
        why = ", ".join(differences) or "it has none, or an unfinished one"
        raise InputError(f"its synthesis is not that of the recipe: {why}", str(run), f"leave out {FLAG}, or change that")
    names = [*chain, *([EXPERT] if _is_stage_made(*of[EXPERT][0], run / EXPERT) else [])]
    for name in (taken := [name for name in names if not (recipe.out / name).exists()]):
        # Neither checkpoints are taken, nor a benchmark that the recipe would play otherwise.
        target = recipe.out / name
        making = target.with_name(f".{target.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        left = ["checkpoints", ".lock", *([] if _is_stage_made(*of[name][-1], run / name) else ["bench", "bench.*"])]
        with name_path_in_errors(target):
            shutil.copytree(run / name, making, copy_function=_link_or_copy, ignore=shutil.ignore_patterns(*left))
            making.rename(target)
    say(f"taken from {run}: {', '.join(taken) or 'nothing that is not here already'}")


def _is_stage_made(stage: dict[str, Any], product: Path, theirs: Path) -> bool:
    """Whether another run's stage, in the folder `theirs`, is finished, and was made by the recipe of this stage."""
    path, made = theirs / stage_recipe_path(stage).name, theirs / product.relative_to(stage["out"])
    if not path.is_file() or not made.exists() or not is_recipe_of_stage(read_yaml(path).data, stage):
        return False
    return is_product_whole(stage | {"out": str(theirs)}, made)


def _link_or_copy(source: str, target: str) -> None:
    """Another name for a file, which takes no room; a copy where the disk is another one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
