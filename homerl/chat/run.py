"""Finds the model of a folder, and the terms of a talk with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.chat.terms import GUEST, Terms
from homerl.play.episode import EpisodeLimits
from homerl.publish.export import find_stage
from homerl.publish.talk import talk_terms
from homerl.recipe.place import OF_TASKS, refuse_unloaded_of
from homerl.train.named import facts_of, holds_model

Data = Mapping[str, Any]


def model_and_terms(folder: Path) -> tuple[Path, Terms]:
    """The model of a folder, which is a run's, a stage's, an export's or a model's own, and what is known of it.

    Raises `InputError` if there is no model in it.
    """
    if holds_model(folder):
        own = folder.parent if folder.name == "model" and (folder.parent / "recipe.yaml").is_file() else None
        return folder, _terms(own) if own else exported_terms(folder)
    stage = find_stage(folder)
    return stage / "model", _terms(stage)


def _terms(stage: Path) -> Terms:
    refuse_unloaded_of(stage, OF_TASKS)
    return terms_told(talk_terms(stage))


def exported_terms(folder: Path) -> Terms:
    """What an export says of its model. Exports of earlier versions hold only the recipe of their homes, or nothing."""
    card = facts_of(folder)
    return terms_told(card.get("talk") or {"recipe": card.get("played")})


def terms_told(told: Data) -> Terms:
    """The terms of a talk, as far as a run or an export tells them (`talk_terms`)."""
    usual, plain = EpisodeLimits(), Terms()
    return Terms(
        recipes=_parts(told.get("recipe") or GUEST),
        temperature=told.get("temperature", plain.temperature),
        max_tokens=told.get("max_tokens", plain.max_tokens),
        steps=told.get("steps", usual.steps_per_turn),
        turns=told.get("turns") or usual.turns or 1,
    )


def _parts(recipe: Data) -> Mapping[str, Data]:
    """The parts of a mixture by name, or the recipe alone."""
    if "worlds" in recipe:
        return {name: part.get("recipe") or {} for name, part in recipe["worlds"].items()}
    return {"": recipe}
