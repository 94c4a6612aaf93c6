"""The role-playing judge in abs mode (PersonalHomeBench Algorithm 1): scores from 1 to 5 for every program.

One call rates a plan: each program gets an opinion of every member and of the home, and an overall score.

Invariants: a verdict is complete, with exactly the programs and parts that were asked for, and its scores are whole
numbers from 1 to 5; the judge does not see who made the plan; programs are told by their number, from 1.

The role-playing judge in rel mode (PersonalHomeBench Algorithm 1): plans of several models, ordered from best to worst.

The paper leaves the order of the letters open. Ours: plans are shuffled by a seed and asked about twice, the second time
in the opposite order and so under other letters. Both orders count, and where their best differ, that is reported.

Invariants: an order has every letter exactly once; the judge does not see who made a plan; equal arguments give equal
questions, whatever the order of `plans`.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, create_model

from homerl.envs.core.model import Model
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion
from homerl.envs.personalhome.judge.judge_prompts import (
    household_matter_json,
    judge_personas,
    load_judge_words,
    strip_program_ids,
)
from homerl.envs.personalhome.tasks.benchmark_metrics import HIGHEST_SCORE, LOWEST_SCORE


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


MOST_PLANS = len(string.ascii_uppercase)


@dataclass(frozen=True)
class PlanRanking:
    """Two orders of models, best first, one for each time of asking: for the household, and for each part."""

    overall: tuple[tuple[str, ...], tuple[str, ...]]
    by_persona: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]

    @property
    def has_unstable_best(self) -> bool:
        """Whether the best plan changed with the order in which plans were shown."""
        return self.overall[0][0] != self.overall[1][0]


def relative_questions(
    household: Mapping[str, Any],
    situation: Mapping[str, Any] | str,
    plans: Mapping[str, Sequence[Mapping[str, Any]]],
    seed: int,
    language: str = "en",
    about: Mapping[str, Any] | None = None,
) -> tuple[JudgeQuestion, JudgeQuestion]:
    """Both questions that order the plans of models, given by name. Raises `ValueError` unless there are 2 to 26 plans."""
    if not 2 <= len(plans) <= MOST_PLANS:
        raise ValueError(f"2 to {MOST_PLANS} plans can be ordered, not {len(plans)}")
    said, parts = load_judge_words(language), judge_personas(household)
    first, second = (
        JudgeQuestion(
            "relative",
            said.mode_instruction("relative", _form(letters, parts, said.rationale)),
            household_matter_json(
                household, situation, plans={letter: strip_program_ids(plans[model]) for letter, model in letters.items()}
            ),
            order_verdict_model(tuple(letters), parts),
            at,
            {**(about or {}), "letters": letters},
        )
        for at, letters in enumerate(assign_letters(plans, seed))
    )
    return first, second


def assign_letters(models: Mapping[str, Any] | Sequence[str], seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """The model behind each letter, for both times of asking."""
    order = sorted(models)
    random.Random(f"letters {seed}").shuffle(order)
    return dict(zip(string.ascii_uppercase, order)), dict(zip(string.ascii_uppercase, reversed(order)))


def order_verdict_model(letters: tuple[str, ...], parts: Sequence[str]) -> type[Model]:
    """The model of a complete verdict: an order of all letters for the household and for each part."""

    def whole(order: tuple[str, ...]) -> tuple[str, ...]:
        if sorted(order) != sorted(letters):
            raise ValueError(f"every letter from {letters[0]} to {letters[-1]} must stand in it once")
        return order

    letter = Annotated[str, Field(pattern=f"^[A-{letters[-1]}]$")]
    order = Annotated[tuple[letter, ...], AfterValidator(whole), Field(min_length=len(letters), max_length=len(letters))]
    fields: dict[str, Any] = {
        "overall_order": (order, ...),
        "persona_order": (model_with_keys("PersonaOrders", parts, order), ...),
        "rationale": (str, Field(min_length=1)),
    }
    return create_model("OrderVerdict", __base__=Model, **fields)


def _form(letters: Mapping[str, str], parts: Sequence[str], rationale: str) -> dict[str, Any]:
    order = ["..."] if len(letters) > 2 else []
    example = [min(letters), *order, max(letters)]
    return {"overall_order": example, "persona_order": dict.fromkeys(parts, example), "rationale": rationale}


def read_plan_ranking(
    verdicts: Sequence[Mapping[str, Any]], models: Mapping[str, Any] | Sequence[str], seed: int
) -> PlanRanking:
    """Both verdicts on the plans of these models, with names in place of letters."""
    first, second = zip(verdicts, assign_letters(models, seed), strict=True)

    def both(*path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return _named(*first, path), _named(*second, path)

    parts = first[0]["persona_order"]
    return PlanRanking(both("overall_order"), {part: both("persona_order", part) for part in parts})


def _named(verdict: Mapping[str, Any], letters: Mapping[str, str], path: Sequence[str]) -> tuple[str, ...]:
    order: Any = verdict
    for key in path:
        order = order[key]
    return tuple(letters[letter] for letter in order)
