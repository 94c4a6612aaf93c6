"""Recipes of every kind: one YAML file for each run, checked completely before any work.

With `--from RUN`, a run starts at what another run made: SFT takes its synthesis as data, and RLVE its SFT model. A flywheel
copies them (`homerl.app.runs.resume`).

Invariants: `run:` names the kind; unknown keys are refused; a recipe that loads has everything that a run needs, seeds
included; nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from homerl.bench.recipe import BenchRecipe, BenchSettings
from homerl.envs.core.documents import InputError, validate_document
from homerl.host.recipe_files import BaseRecipe, load_recipe_document, refuse_unloaded_run_plugins
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.synth.recipe import SynthesisConfig, SynthRecipe
from homerl.train.recipe import RLVERecipe, RLVESections, SFTRecipe, SFTSettings

FLAG = "--from"


def split_from_option(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The words of a command line without `--from RUN`, and RUN. Raises `InputError` if no run is named."""
    rest = list(words)
    for at, word in enumerate(rest):
        name, equals, value = word.partition("=")
        if name == FLAG:
            given = value if equals else next(iter(rest[at + 1 : at + 2]), "")
            if not given or not Path(given).is_dir():
                raise InputError(f"there is no run {given}".rstrip(), FLAG, f"write {FLAG} and a run's folder")
            return [*rest[:at], *rest[at + (1 if equals else 2) :]], Path(given)
    return rest, None


def from_option_words(run: Path | None) -> list[str]:
    """`--from RUN` as words of a command line; none without a run."""
    return [] if run is None else [FLAG, str(run)]


def overrides_from_run(kind: str, run: Path) -> list[str]:
    """The overrides by which a recipe of a kind starts at a run. Raises `InputError` for a kind that cannot."""
    if kind == "rlve":
        from homerl.report.cards.model_lineage import find_trained_stage

        stage = run / "sft" if (run / "sft").is_dir() else run
        return ["--model.name", str(find_trained_stage(stage) / "model")]
    if kind == "sft":
        data = run / "synth" if (run / "synth").is_dir() else run
        if not (data / "trajectories.jsonl").is_file():
            raise InputError("there is no finished synthesis here", str(run), "name a run that has one")
        return ["--data", str(data)]
    if kind == "flywheel":
        return []
    raise InputError(f"a recipe of `run: {kind}` starts at nothing", FLAG, "it is for sft, rlve and flywheel")


class FlywheelRecipe(RLVESections):
    """Synthesis, SFT, RLVE, and a benchmark of each model."""

    run: Literal["flywheel"] = Field(description="Kind of the run.")
    synth: SynthesisConfig = Field(SynthesisConfig(), description="How much is synthesised, from what, by whom.")
    sft: SFTSettings = Field(SFTSettings(), description="Supervised fine-tuning.")
    bench: BenchSettings = Field(BenchSettings(), description="How each model is evaluated, and on what.")
    untrained_tasks: int | None = Field(
        None,
        ge=1,
        description="Most tasks of a suite that the untrained model plays; null is all. It solves nothing, "
        "and takes longest.",
    )


Recipe = SynthRecipe | SFTRecipe | RLVERecipe | BenchRecipe | FlywheelRecipe
SERVED_ROLES = ("user", "agent", "author")  # model roles that `serve-user` can serve
KINDS: dict[str, type[Recipe]] = {
    "synth": SynthRecipe,
    "sft": SFTRecipe,
    "rlve": RLVERecipe,
    "bench": BenchRecipe,
    "flywheel": FlywheelRecipe,
}


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Find a recipe, extend it, apply overrides and check it. Raises `InputError` with file, line and key.

    With `--from RUN` among the overrides, it starts at what that run made.
    """
    refuse_unloaded_run_plugins(Path(path).parent)
    words, origin = split_from_option(overrides)
    data, document = load_recipe_document(path, words)
    kind = data.get("run")
    if kind not in KINDS:
        remedy = f"write `run:` with one of {', '.join(KINDS)}"
        raise InputError(f"run: {kind!r} is not a kind of run", str(path), remedy)
    if origin and (starting := overrides_from_run(kind, origin)):
        _, document = load_recipe_document(path, [*starting, *words])
    return validate_document(KINDS[kind], document)


def recipe_data(recipe: BaseRecipe) -> dict[str, Any]:
    """The complete recipe as plain data, defaults included."""
    return recipe.model_dump(mode="json")


def recipe_to_yaml(recipe: BaseRecipe) -> str:
    """The complete recipe as YAML."""
    return yaml.safe_dump(recipe_data(recipe), sort_keys=False, allow_unicode=True)


def role_settings(recipe: BaseRecipe, role: str, path: str) -> tuple[str, EndpointSettings]:
    """The recipe key and the settings of the model in a role. Raises `InputError` if the recipe has none."""
    if role == "user" and isinstance(recipe, RLVESections):
        return "user", recipe.user
    settings = getattr(getattr(recipe, "synth", None), role, None)
    if settings is None:
        what = f"a recipe of `run: {recipe.run}` without a model as its {role}"
        raise InputError(what, path, "name another recipe or part")
    return f"synth.{role}", settings
