"""The words of the judges by language, from `prompts/<language>.yaml`.

Invariant: every language has every text (the model refuses a missing or unknown key).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.model import Model

PROMPTS = Path(__file__).parent / "prompts"


class RevisionWords(Model):
    """What an agent reads that shall revise its plan; templates with {slots}."""

    opening: str
    scores: str
    persona: str
    home: str
    refused: str
    refusal: str
    empty: str
    closing: str


class JudgeWords(Model):
    """The judges' instructions, one for each mode, and the parts that they share."""

    absolute: str
    relative: str
    equivalence: str
    data: str
    form: str
    feedback: str
    rationale: str
    revision: RevisionWords

    def mode_instruction(self, mode: str, form: Any) -> str:
        """The instruction of a mode, with the form of the answer: plain data that looks like it."""
        return f"{getattr(self, mode)}\n{self.data}\n{self.form}\n{json.dumps(form, ensure_ascii=False)}"


@cache
def load_judge_words(language: str) -> JudgeWords:
    """The words of a language. Raises `InputError` for one that has none."""
    path = PROMPTS / f"{language}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in PROMPTS.glob("*.yaml")))
        raise InputError(f"the judges have no words in '{language}'", str(path), f"known: {known}")
    return validate_document(JudgeWords, read_yaml(path))
