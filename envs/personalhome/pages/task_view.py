"""An episode's task for reading: what was asked, what is right, and what the agent said.

Invariants: what is right or wrong is decided by the verdicts that also reward; a plan's changes are those of the end state
that is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.sim.appliance_catalogue import GROUPS, load_features
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.vocabulary import load_fact_words
from homerl.envs.personalhome.tasks import plan_rules
from homerl.envs.personalhome.tasks.answer_parser import parse_choice, parse_final_answer, parse_ranking
from homerl.envs.personalhome.tasks.author import TIERS
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding
from homerl.envs.personalhome.tasks.situation import answer_to_part, are_parts_right

NAMES = {  # the paper's names
    "grounding": "Information Grounding (IG) and Counterfactual Reasoning (CF)",
    "choice": "Multiple Choice (MC)",
    "features": "Feature Recommendation (FR)",
    "plans": "Plan Generation (PG)",
}
PARTS = {"original": "Question", "counterfactual_1": "Counterfactual 1", "counterfactual_2": "Counterfactual 2"}
TIER_NAMES = ("highly relevant", "relevant", "less relevant")


@dataclass(frozen=True)
class AnswerView:
    """A part of a question: its condition, the accepted answers, what was said (None is nothing) and whether it is right.

    `changed` tells of a counterfactual whether it changes the answer.
    """

    label: str
    condition: str
    right: tuple[str, ...]
    said: str | None
    ok: bool
    changed: bool | None = None


@dataclass(frozen=True)
class OptionView:
    """A choice of a question."""

    letter: str
    text: str
    right: bool
    chosen: bool


@dataclass(frozen=True)
class RankedFeature:
    """A feature with its right place, the place that the agent gave it (None is none), and what it is wanted for."""

    place: int
    given: int | None
    feature: str
    title: str
    tier: str
    wanted_for: tuple[str, ...]


@dataclass(frozen=True)
class AttributeChange:
    """An attribute of a device that a step changed."""

    device: str
    path: str
    before: str
    after: str


@dataclass(frozen=True)
class PlanStepView:
    """A step of a plan: its call, why it was refused (None if it worked), and what it changed."""

    call: str
    rationale: str
    refusal: str | None
    changes: tuple[AttributeChange, ...]


@dataclass(frozen=True)
class PlanView:
    """A plan's programs by name. `changes` lead from the start to the end state; `broken` are preferences that it breaks."""

    programs: tuple[tuple[str, tuple[PlanStepView, ...]], ...]
    changes: tuple[AttributeChange, ...]
    broken: tuple[str, ...]


def format_attribute_value(value: Any) -> str:
    """The value of a device's attribute, or of an answer."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)


def build_answer_views(task: Grounding, text: str) -> list[AnswerView]:
    """The parts of a grounding task."""
    rows = []
    for part, ok in zip(task.parts, are_parts_right(task, text), strict=True):
        said = answer_to_part(task, part.key, text)
        shown = None if said is None else format_attribute_value(said)
        rows.append(AnswerView(PARTS[part.key], part.condition, part.variants, shown, ok, part.changed))
    return rows


def build_option_views(task: Choice, text: str) -> list[OptionView]:
    """The choices of a question."""
    chosen = parse_choice(parse_final_answer(text).value, task.choices)
    rows = enumerate(zip(LETTERS, task.choices))
    return [OptionView(letter, choice, letter == task.right, at == chosen) for at, (letter, choice) in rows]


def build_ranked_features(task: Features, household: Household, text: str) -> list[RankedFeature]:
    """The features, the best first."""
    given = {feature: place for place, feature in enumerate(parse_ranking(text).value or (), 1)}
    needs, words = plan_rules.household_needs(household), load_fact_words(household.language)
    tiers = [name for name, size in zip(TIER_NAMES, TIERS) for _ in range(size)]
    rows = []
    for place, (key, tier) in enumerate(zip(task.ranking, tiers, strict=True), 1):
        wanted = []
        for need in (need for need in load_features()[key].wanted_when if need in needs):
            # A need is a key of one of several groups of words.
            wanted.append(next((words.keys[group][need] for group in GROUPS if need in words.keys[group]), need))
        rows.append(RankedFeature(place, given.get(key), key, task.titles[key], tier, tuple(wanted)))
    return rows


def view_of_programs(household: Household, programs: Sequence[plan_rules.Program]) -> PlanView:
    """Programs as they run: each step is tried in a fork of its program, and changes add up to the judged end state."""
    start = HouseholdState(household)
    end, rows = start.fork(), []
    for program in programs:
        tried, steps = start.fork(), []
        for step in program["steps"]:
            refusal, before = plan_rules.try_plan_step(tried, step), end.home.fork()
            if step["appliance"] != plan_rules.TOOLBOX:  # what is written down changes no device
                plan_rules.run_plan_steps(end, [step])
            steps.append(PlanStepView(plan_step_in_words(step), step["rationale"], refusal, compare_homes(before, end.home)))
        rows.append((program["program_id"], tuple(steps)))
    words = load_fact_words(household.language)
    broken = plan_rules.broken_preferences(household, start.home, end.home)
    names = tuple(dict.fromkeys(words.key_word("tastes", taste.kind) for taste in broken))
    return PlanView(tuple(rows), compare_homes(start.home, end.home), names)


def plan_step_in_words(step: Mapping[str, Any]) -> str:
    """A step as a call, such as `speaker.notify(message='...')`."""
    given = "not an object" if step["args"] is None else ", ".join(f"{key}={value!r}" for key, value in step["args"].items())
    return f"{step['appliance']}.{step['feature']}({given})"


def compare_homes(before: Home, after: Home) -> tuple[AttributeChange, ...]:
    """What differs between two states of a home."""
    slots = before.plan.slots
    changes = []
    for one in before.diff(after):
        values = format_attribute_value(one.before), format_attribute_value(one.after)
        changes.append(AttributeChange(slots[one.slot].owner, slots[one.slot].path, *values))
    return tuple(changes)
