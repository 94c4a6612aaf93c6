"""The role-playing judge of plans in its two modes (PersonalHomeBench Algorithm 1).

In abs mode one call rates a plan: each program gets an opinion of every member and of the home, and an overall score from
1 to 5. In rel mode the judge orders the plans of several models from best to worst. The paper leaves the order of the
letters open. Here plans are shuffled by a seed and asked about twice, the second time in the opposite order and so under
other letters. Both orders count. Where their best plans differ, that is reported.

Invariants:
- A verdict is complete. It has exactly the programs and parts, or each letter once, that were asked for. Its scores are
  whole numbers from 1 to 5.
- The judge does not see who made a plan. Programs are told by their number, from 1.
- Equal arguments give equal questions, whatever the order of `plans`.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, create_model

from homerl.envs.core.model import Model
from homerl.envs.personalhome.judge import judge_prompts as prompts
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion
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
    said, parts = prompts.load_judge_words(language), prompts.judge_personas(household)
    numbers = [str(number) for number in range(1, len(programs) + 1)]
    opinion = {"feedback": said.feedback, "score": 3}
    one = {"personas": dict.fromkeys(parts, opinion), "rationale": said.rationale, "overall_score": 3}
    numbered = dict(zip(numbers, prompts.strip_program_ids(programs), strict=True))
    return JudgeQuestion(
        "absolute",
        said.mode_instruction("absolute", dict.fromkeys(numbers, one)),
        prompts.household_matter_json(household, situation, programs=numbered),
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
    # The ids of members may be no Python names, so fields have names of their own and aliases.
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
    if not 2 <= len(plans) <= 26:
        raise ValueError(f"2 to 26 plans can be ordered, not {len(plans)}")
    said, parts, questions = prompts.load_judge_words(language), prompts.judge_personas(household), []
    for at, letters in enumerate(assign_letters(plans, seed)):
        example = [min(letters), *(["..."] if len(letters) > 2 else []), max(letters)]
        form = {"overall_order": example, "persona_order": dict.fromkeys(parts, example), "rationale": said.rationale}
        shown = {letter: prompts.strip_program_ids(plans[model]) for letter, model in letters.items()}
        text = prompts.household_matter_json(household, situation, plans=shown)
        shape, more = order_verdict_model(tuple(letters), parts), {**(about or {}), "letters": letters}
        questions.append(JudgeQuestion("relative", said.mode_instruction("relative", form), text, shape, at, more))
    return questions[0], questions[1]


def assign_letters(models: Mapping[str, Any] | Sequence[str], seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """The model behind each letter, for both times of asking."""
    order = sorted(models)
    random.Random(f"letters {seed}").shuffle(order)
    return dict(zip(string.ascii_uppercase, order)), dict(zip(string.ascii_uppercase, reversed(order)))


def order_verdict_model(letters: tuple[str, ...], parts: Sequence[str]) -> type[Model]:
    """The model of a complete verdict: an order of all letters for the household and for each part."""

    def require_each_letter(order: tuple[str, ...]) -> tuple[str, ...]:
        if sorted(order) != sorted(letters):
            raise ValueError(f"every letter from {letters[0]} to {letters[-1]} must stand in it once")
        return order

    letter = Annotated[str, Field(pattern=f"^[A-{letters[-1]}]$")]
    order = Annotated[
        tuple[letter, ...], AfterValidator(require_each_letter), Field(min_length=len(letters), max_length=len(letters))
    ]
    fields: dict[str, Any] = {
        "overall_order": (order, ...),
        "persona_order": (model_with_keys("PersonaOrders", parts, order), ...),
        "rationale": (str, Field(min_length=1)),
    }
    return create_model("OrderVerdict", __base__=Model, **fields)


def read_plan_ranking(
    verdicts: Sequence[Mapping[str, Any]], models: Mapping[str, Any] | Sequence[str], seed: int
) -> PlanRanking:
    """Both verdicts on the plans of these models, with names in place of letters."""
    (first, first_letters), (second, second_letters) = zip(verdicts, assign_letters(models, seed), strict=True)

    def name_both(one: Sequence[str], other: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(first_letters[letter] for letter in one), tuple(second_letters[letter] for letter in other)

    parts = {part: name_both(order, second["persona_order"][part]) for part, order in first["persona_order"].items()}
    return PlanRanking(name_both(first["overall_order"], second["overall_order"]), parts)
