"""Finds the model of a folder, and the terms of a talk with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.app.chat.terms import GUEST, ChatTerms
from homerl.play.episode import EpisodeLimits
from homerl.report.cards.export import find_trained_stage
from homerl.report.cards.talk import mixture_parts, read_talk_terms
from homerl.train.named import is_model_folder

Data = Mapping[str, Any]


def find_model_and_terms(folder: Path) -> tuple[Path, ChatTerms]:
    """The model of a folder, which is a run's, a stage's, an export's or a model's own, and what is known of it.

    Raises `InputError` if there is no model in it.
    """
    model = folder if is_model_folder(folder) else find_trained_stage(folder) / "model"
    return model, parse_chat_terms(read_talk_terms(model))


def parse_chat_terms(told: Data) -> ChatTerms:
    """The terms of a talk, as far as a run or an export tells them (`terms_of`)."""
    usual, plain = EpisodeLimits(), ChatTerms()
    return ChatTerms(
        recipes=mixture_parts(told.get("recipe") or GUEST),
        temperature=told.get("temperature", plain.temperature),
        max_tokens=told.get("max_tokens", plain.max_tokens),
        steps=told.get("steps", usual.steps_per_turn),
        turns=told.get("turns") or usual.turns or 1,
    )
