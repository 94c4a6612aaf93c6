"""Makes questions about a household: a program that has one answer, its words, its distractors and its counterfactuals.

Invariants: everything is a pure function of household and random generator; no question states its answer; the four wrong
choices are of the type of the right one, differ from each other, and give no variant of the right answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, get_args

from homerl.envs.personalhome.sim.household import Animal, Household
from homerl.envs.personalhome.sim.vocabulary import Vocabulary, load_vocabulary
from homerl.envs.personalhome.tasks.questions.counterfactual_edits import (
    Counterfactual,
    FactorEdit,
    find_counterfactual_pair,
)
from homerl.envs.personalhome.tasks.questions.families import QuestionCandidate, key_group, question_candidates
from homerl.envs.personalhome.tasks.questions.household_tables import (
    SCENE,
    HouseholdTables,
    make_household_tables,
    values_elsewhere,
    values_in_scene,
)
from homerl.envs.personalhome.tasks.questions.question_programs import Difficulty, NoAnswer, program_difficulty, run_settled
from homerl.envs.personalhome.tasks.questions.question_wording import (
    QuestionWording,
)
from homerl.envs.personalhome.tasks.text_normal_form import normal_form

WRONG = 4
NEAR_NUMBERS = (1, 2, 3)  # gaps between numbers
NEAR_DAYS = (1, 2, 7, 14)  # gaps between dates
COLUMNS = {  # kind of answer -> the (table, column) pairs whose values are of this kind
    "person": (("members", "who"),),
    "years": (("members", "age"), ("pets", "age")),
    "occupations": (("members", "occupation"),),
    "hobbies": (("hobbies", "hobby"),),
    "animals": (("pets", "animal"),),
    "room": (("appliances", "room"), ("sensors", "room")),
    "appliance": (("appliances", "appliance"),),
    "date": (("memories", "date"), ("life", "date")),
}


@dataclass(frozen=True)
class HouseholdQuestion:
    """A question with its answer. `evidence` are the ids of the rows that its program reads in `tables`, in order."""

    candidate: QuestionCandidate
    difficulty: Difficulty
    answer: Any
    evidence: tuple[str, ...]
    tables: HouseholdTables


def draw_questions(
    household: Household, rng: random.Random, families: Sequence[str] | None = None
) -> Iterator[HouseholdQuestion]:
    """Questions in random order, a family at a time, so that frequent candidates do not crowd out rare ones."""
    tables = make_household_tables(household)
    by_family: dict[str, list[QuestionCandidate]] = {}
    for candidate in question_candidates(tables):
        if families is None or candidate.family in families:
            # The weather has a family for each of its nine quantities, which count as one.
            group = "weather" if candidate.family.startswith("weather_") else candidate.family
            by_family.setdefault(group, []).append(candidate)
    while by_family:
        name = rng.choice(list(by_family))
        chosen = by_family[name].pop(rng.randrange(len(by_family[name])))
        if not by_family[name]:
            del by_family[name]
        if (question := answer_candidate(chosen, tables)) is not None:
            yield question


def answer_candidate(candidate: QuestionCandidate, tables: HouseholdTables) -> HouseholdQuestion | None:
    """The question of a candidate; None if it has no single answer or too many steps.

    Questions are about memories. If what else agents see would change the answer, there is no question: the last day's
    events, a companion's deeds, or that who cooks uses an appliance.
    """
    try:
        found = run_settled(candidate.program, tables)
    except NoAnswer:
        return None
    level = program_difficulty(candidate.program)
    return HouseholdQuestion(candidate, level, found.value, tuple(sorted(found.evidence)), tables) if level else None


def is_answer_stated(text: str, variants: Sequence[str]) -> bool:
    """Whether a question or an assumption gives an answer away."""
    said = f" {normal_form(text)} "
    return any(f" {normal_form(variant)} " in said or (not variant.isascii() and variant in text) for variant in variants)


def draw_counterfactuals(
    question: HouseholdQuestion, wording: QuestionWording, rng: random.Random
) -> tuple[Counterfactual, Counterfactual] | None:
    """Two counterfactuals in random order, one of which changes the answer; None if there are none."""

    def say(edit: FactorEdit, answer: Any) -> tuple[str, bool]:
        text = wording.assumption_text(edit, rng)
        return text, is_answer_stated(text, wording.answer_texts(question.candidate.answer, answer))

    pair = find_counterfactual_pair(question.candidate.program, question.tables, say, rng)
    if pair is None:
        return None
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def draw_distractors(question: HouseholdQuestion, wording: QuestionWording, rng: random.Random) -> list[str] | None:
    """Four wrong answers of the type of the right one; None if there are not so many.

    Values of this household come first, then values near the right one, or other keys of its group.
    """
    kind, right = question.candidate.answer, question.answer
    taken = {normal_form(text) for text in wording.answer_texts(kind, right)}
    found: list[str] = []
    for pool in (_values_in_household(kind, question.tables), _values_nearby(kind, right, rng)):
        pool = list(dict.fromkeys(pool))
        rng.shuffle(pool)
        for value in pool:
            text = wording.answer_texts(kind, value)[0]
            if len(found) < WRONG and normal_form(text) not in taken:
                taken.add(normal_form(text))
                found.append(text)
    return found if len(found) == WRONG else None


def _draw_steps(gaps: Sequence[int], below: int, rng: random.Random, above: int = WRONG) -> list[int]:
    """Steps from a value to four others: first how many of them lie below it is drawn, then how far apart they are."""
    under = rng.randint(max(0, WRONG - above), min(WRONG, below))
    gap = rng.choice(gaps) if below >= WRONG * max(gaps) and above >= WRONG else 1
    return [gap * step for step in range(-under, WRONG - under + 1) if step]


def _values_in_household(kind: str, tables: HouseholdTables) -> list[Any]:
    if kind.startswith(SCENE):
        return values_in_scene(kind, tables)
    if kind.startswith("what:"):
        deed = kind.removeprefix("what:")
        return [row["what"] for row in tables.rows["memories"] if row["kind"] == deed and row["what"]]
    return [row[column] for table, column in COLUMNS.get(kind, ()) for row in tables.rows[table] if row[column] is not None]


def _values_nearby(kind: str, right: Any, rng: random.Random) -> list[Any]:
    """Values that might be right but are not in the household.

    Of numbers and dates as many as are asked for, and the right one has any place among them.
    """
    if isinstance(right, date):
        return [right + timedelta(days=days) for days in _draw_steps(NEAR_DAYS, WRONG * max(NEAR_DAYS), rng)]
    if isinstance(right, int | float):
        share = kind == "share" or (isinstance(right, float) and 0 <= right < 1)
        scale = 0.1 if share else 1
        below = WRONG if right < 0 else int(round(right / scale, 6))  # how many lie below, down to 0
        above = int(round((1 - right) / scale, 6)) if share else WRONG
        return [round(right + step * scale, 2) for step in _draw_steps(NEAR_NUMBERS, below, rng, above)]
    if kind.startswith(SCENE):
        return values_elsewhere(kind)
    group = key_group(kind)
    if kind == "animals":
        return list(get_args(Animal))
    return list(load_vocabulary().group_keys(group)) if group in Vocabulary.model_fields else []
