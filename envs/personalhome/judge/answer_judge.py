"""The judge of meaning for answers to IG and CF (PersonalHomeBench eq. 2 and 3): 1, 0, or -1 if it is unsure.

Keys are those of the paper: `o` (the original question), `f1` and `f2` (its counterfactuals).

Invariants: what rules decide is never asked about; an answer of which the judge is unsure counts as wrong and is reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from homerl.envs.personalhome.judge.judge_client import JudgeQuestion
from homerl.envs.personalhome.judge.judge_prompts import load_judge_words
from homerl.envs.personalhome.judge.plan_judge import model_with_keys
from homerl.envs.personalhome.tasks.answer_parser import Variant, decide_by_rules

KEYS = ("o", "f1", "f2")


@dataclass(frozen=True)
class MeaningDecision:
    """What is right of the answers by key, of which of them the judge was unsure, and which lack a verdict."""

    correct: Mapping[str, bool]
    unsure: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def equivalence_question(
    asked: Mapping[str, str],
    said: Mapping[str, Any],
    variants: Mapping[str, Sequence[Variant]],
    language: str = "en",
    about: Mapping[str, Any] | None = None,
) -> JudgeQuestion | None:
    """The question about the answers that no rule decides, None if rules decide them all.

    `asked` has the questions, `said` what was answered and `variants` the right answers in all wordings, by key.
    """
    undecided = _keys_without_rule(said, variants)
    if not undecided:
        return None
    told = {key: {"question": asked[key], "true": list(variants[key]), "answered": said[key]} for key in undecided}
    system = load_judge_words(language).mode_instruction("equivalence", dict.fromkeys(undecided, 1))
    shape = model_with_keys("Equivalence", undecided, Annotated[int, Field(strict=True, ge=-1, le=1)])
    text = json.dumps(told, ensure_ascii=False, indent=1)
    return JudgeQuestion("equivalence", system, text, shape, about=about or {})


def decide_answers(
    said: Mapping[str, Any], variants: Mapping[str, Sequence[Variant]], verdict: Mapping[str, int] | None = None
) -> MeaningDecision:
    """Which answers are right: by rules, and by the judge's verdict where rules do not decide (eq. 3).

    Without a verdict, undecided answers count as wrong and are listed in `open`.
    """
    undecided, given = _keys_without_rule(said, variants), verdict or {}
    correct = {
        key: given.get(key) == 1 if key in undecided else decide_by_rules(said.get(key), wanted) == "right"
        for key, wanted in variants.items()
    }
    unsure = tuple(key for key in undecided if given.get(key) == -1)
    return MeaningDecision(correct, unsure, tuple(key for key in undecided if key not in given))


def _keys_without_rule(said: Mapping[str, Any], variants: Mapping[str, Sequence[Variant]]) -> list[str]:
    return [key for key, wanted in variants.items() if decide_by_rules(said.get(key), wanted) == "undecided"]
