"""Finds the model of a folder, and the terms of a talk with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.app.chat.terms import GUEST, Terms
from homerl.play.episode import EpisodeLimits
from homerl.report.cards.export import find_stage
from homerl.report.cards.talk import parts_of, terms_of
from homerl.train.named import holds_model

Data = Mapping[str, Any]


def model_and_terms(folder: Path) -> tuple[Path, Terms]:
    """The model of a folder, which is a run's, a stage's, an export's or a model's own, and what is known of it.

    Raises `InputError` if there is no model in it.
    """
    model = folder if holds_model(folder) else find_stage(folder) / "model"
    return model, terms_told(terms_of(model))


def terms_told(told: Data) -> Terms:
    """The terms of a talk, as far as a run or an export tells them (`terms_of`)."""
    usual, plain = EpisodeLimits(), Terms()
    return Terms(
        recipes=parts_of(told.get("recipe") or GUEST),
        temperature=told.get("temperature", plain.temperature),
        max_tokens=told.get("max_tokens", plain.max_tokens),
        steps=told.get("steps", usual.steps_per_turn),
        turns=told.get("turns") or usual.turns or 1,
    )
