"""What a run's folder says about talking with its model.

Invariant: a person meets the homes in which the model was measured, if the run says which, else those in which it was
trained; the same goes for sampling and limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envs.documents import read_json, read_yaml
from homerl.chat.terms import GUEST, Terms
from homerl.play.episode import EpisodeLimits
from homerl.publish.export import MARK, find_stage
from homerl.publish.stages import beside, played_by
from homerl.train.sizes import holds_model

Data = Mapping[str, Any]


def model_and_terms(folder: Path) -> tuple[Path, Terms]:
    """The model of a folder, which is a run's, a stage's, an export's or a model's own, and what is known of it.

    Raises `InputError` if there is no model in it.
    """
    if holds_model(folder):
        own = folder.parent if folder.name == "model" and (folder.parent / "recipe.yaml").is_file() else None
        return folder, _terms_of(own) if own else exported_terms(folder)
    stage = find_stage(folder)
    return stage / "model", _terms_of(stage)


def exported_terms(folder: Path) -> Terms:
    """What an export says of its model."""
    card = read_json(folder / MARK).data if (folder / MARK).is_file() else {}
    return Terms(_parts(card.get("played") or GUEST))


def _terms_of(stage: Path) -> Terms:
    """What the recipes beside a stage's model say, and those of its flywheel."""
    data = [*_recipes(stage)]
    bench = next((found for one in data if (found := one.get("bench"))), {})
    suites = [suite for suite in bench.get("suites") or () if not suite.get("benchmark")]
    recipe = suites[0].get("recipe") if suites else None
    limits = bench.get("limits") or next((found for one in data if (found := one.get("limits"))), {})
    usual, plain = EpisodeLimits(), Terms()
    return Terms(
        recipes=_parts(recipe or played_by(stage) or GUEST),
        temperature=bench.get("temperature", plain.temperature),
        max_tokens=bench.get("max_tokens", plain.max_tokens),
        steps=limits.get("steps_per_turn", usual.steps_per_turn),
        turns=limits.get("turns") or usual.turns or 1,
    )


def _recipes(stage: Path) -> Iterator[Data]:
    """The recipe by which a stage's model was measured, that of the stage, and that of its flywheel."""
    for path in (*beside(stage, "bench.yaml"), *beside(stage, "recipe.yaml")):
        if isinstance(data := read_yaml(path).data, dict):
            yield data


def _parts(recipe: Data) -> Mapping[str, Data]:
    """The parts of a mixture by name, or the recipe alone."""
    if "worlds" in recipe:
        return {name: part.get("recipe") or {} for name, part in recipe["worlds"].items()}
    return {"": recipe}
