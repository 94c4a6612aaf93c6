"""The role-playing judge in abs mode (PersonalHomeBench Algorithm 1): scores from 1 to 5 for every program.

One call rates a plan: each program gets an opinion of every member and of the home, and an overall score.

Invariants: a verdict is complete, with exactly the programs and parts that were asked for, and its scores are whole
numbers from 1 to 5; the judge does not see who made the plan; programs are told by their number, from 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, create_model

from homerl.envs.core.model import Model
from homerl.envs.personalhome.judge.hearing import JudgeQuestion
from homerl.envs.personalhome.judge.household import household_matter_json, judge_personas, strip_program_ids
from homerl.envs.personalhome.judge.words import load_judge_words
from homerl.envs.personalhome.tasks.metrics import HIGHEST_SCORE, LOWEST_SCORE


class Opinion(Model):
    """What one part thinks of a program."""

    feedback: str = Field(min_length=1)
    score: int = Field(strict=True, ge=LOWEST_SCORE, le=HIGHEST_SCORE)


def absolute_question(
    household: Mapping[str, Any],
    situation: Mapping[str, Any] | str,
    programs: Sequence[Mapping[str, Any]],
    language: str = "en",
    about: Mapping[str, Any] | None = None,
) -> JudgeQuestion:
    """The question that rates a plan. Raises `ValueError` for a plan without programs, of which nothing can be asked."""
    if not programs:
        raise ValueError("a plan without programs cannot be rated")
    said, parts = load_judge_words(language), judge_personas(household)
    numbers = [str(number) for number in range(1, len(programs) + 1)]
    opinion = {"feedback": said.feedback, "score": 3}
    one = {"personas": dict.fromkeys(parts, opinion), "rationale": said.rationale, "overall_score": 3}
    numbered = dict(zip(numbers, strip_program_ids(programs), strict=True))
    return JudgeQuestion(
        "absolute",
        said.mode_instruction("absolute", dict.fromkeys(numbers, one)),
        household_matter_json(household, situation, programs=numbered),
        plan_verdict_model(numbers, parts),
        about=about or {},
    )


def plan_verdict_model(numbers: Sequence[str], parts: Sequence[str]) -> type[Model]:
    """The model of a complete verdict: programs by number, in each the opinions of all parts."""
    opinions = model_with_keys("Opinions", parts, Opinion)
    fields: dict[str, Any] = {
        "personas": (opinions, ...),
        "rationale": (str, Field(min_length=1)),
        "overall_score": (int, Field(strict=True, ge=LOWEST_SCORE, le=HIGHEST_SCORE)),
    }
    return model_with_keys("PlanVerdict", numbers, create_model("ProgramVerdict", __base__=Model, **fields))


def model_with_keys(name: str, keys: Sequence[str], kind: Any) -> type[Model]:
    """A model with exactly these keys, all of one kind."""
    fields: dict[str, Any] = {f"key_{at}": (kind, Field(alias=key)) for at, key in enumerate(keys)}
    return create_model(name, __base__=Model, **fields)


def overall_scores(verdict: Mapping[str, Any]) -> list[int]:
    """The overall scores of a verdict by program, in the plan's order."""
    return [program["overall_score"] for program in verdict.values()]


def persona_scores(verdict: Mapping[str, Any]) -> dict[str, list[int]]:
    """The scores that each part gave, by program in the plan's order."""
    found: dict[str, list[int]] = {}
    for program in verdict.values():
        for part, opinion in program["personas"].items():
            found.setdefault(part, []).append(opinion["score"])
    return found
