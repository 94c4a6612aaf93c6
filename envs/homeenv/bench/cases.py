"""The statements of an agent that answer a question, or should ask a clarifying one, and the verdict of the rules on them.

Invariants: all functions are pure; after the first answer to an intent that the rules do not call right, later answers to
it are ignored, so that an agent cannot try one answer after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent
from homerl.envs.homeenv.tasks.goals import compile_goals, goals_on_home
from homerl.play.claims import count_false_claims as count_false_claims
from homerl.play.claims import words_without_calls
from homerl.play.messages import SpokenWords, spoken_words_of
from homerl.play.trajectory import Step, Trajectory
from homerl.play.words.answers import Answer, judge_answer_by_rules
from homerl.play.words.moments import DAYS
from homerl.worlds.contract import JudgeCase


def collect_home_cases(trajectory: Trajectory) -> list[JudgeCase]:
    """The answers and clarifying questions of a trajectory, in order."""
    blueprint = Blueprint.model_validate(trajectory.blueprint)
    intents: dict[int | None, Intent] = {intent.id: intent for intent in blueprint.intents}
    judged: list[JudgeCase] = []
    for at, (step, user) in enumerate(_with_user(trajectory)):
        intent = intents.get(step.facts.intent)
        spoke = blueprint.one_answer or not step.observations
        if intent is None or not spoke:
            continue
        said = spoken_words_of(step.message, one_answer=blueprint.one_answer)
        of_it = [case for case in judged if case.intent == intent.id]
        if intent.clarify and not any(case.kind == "clarification" for case in of_it):
            rule = "right" if said.question else "wrong"
            wanted, rubric = intent.clarification, RUBRICS["clarification"]
            judged.append(JudgeCase(at, intent.id, "clarification", user, wanted, said.text, rule, rubric))
        elif intent.answer and said.claims and not any(case.kind == "answer" and case.rule != "right" for case in of_it):
            rule = judge_answer_by_rules(intent.answer, said.claims)
            if rule != "silent":
                wanted, rubric = answer_in_words(intent.answer), RUBRICS["answer"]
                judged.append(JudgeCase(at, intent.id, "answer", user, wanted, said.text, rule, rubric, "question"))
    return judged


def _with_user(trajectory: Trajectory) -> Iterator[tuple[Step, str]]:
    """(step, the user's latest utterance before it) for every step."""
    steps, heard = iter(trajectory.steps), ""
    for message in trajectory.messages[len(trajectory.opening_messages) :]:
        if message["role"] == "user":
            heard = message["content"]
        elif message["role"] == "assistant" and (step := next(steps, None)) is not None:
            yield step, heard


RUBRICS = {
    "answer": "You check what a smart-home assistant answered. You are given the question, the true answer, and what the "
    "assistant said. It is right if it gives the true answer, in any words or units, and claims nothing against it. It "
    "is wrong if it gives another, several to choose from, or none.",
    "clarification": "You check whether a smart-home assistant asked back. You are given what the user said, what the user "
    "meant but left open, and what the assistant said. It is right if it asks the user for what was left open. It is "
    "wrong if it asks for nothing, for something else, or only offers more help.",
}


def count_home_false_claims(trajectory: Trajectory) -> int:
    """The turns that end with a claim of success while a goal on the home is unmet, of a wish that was told in full by then.

    An answer and a question that is missing are no claims.
    """
    intents = {intent["id"]: intent for intent in trajectory.blueprint["intents"]}
    wanted, one_answer = goals_on_home(intents.values()), TOOLSETS[trajectory.blueprint["toolset"]].one_answer

    def is_open(step: Step) -> bool:
        intent, facts = intents[step.facts.intent], step.facts
        told = {
            one.facts.turn for one in trajectory.steps if one.facts.intent == facts.intent and one.facts.turn <= facts.turn
        }
        course = intent.get("course", ())
        in_full = len(told) >= len(course) + bool(course and intent.get("aside"))
        return in_full and not wanted[intent["id"]] <= {*facts.met}

    return count_false_claims(trajectory, words_of_json_answer if one_answer else words_without_calls, is_open)


def words_of_json_answer(step: Step) -> SpokenWords:
    """The words of a message that is one JSON answer."""
    return spoken_words_of(step.message, one_answer=True)


def has_met_home_goals(trajectory: Trajectory, right: Mapping[int, int]) -> bool:
    """Whether all goals were met at some step, including the goals of answers accepted by then.

    `right` maps the id of an intent to the index of the step with its accepted answer. If the blueprint has `preserve`,
    that step must also be free of side effects.
    """
    blueprint = Blueprint.model_validate(trajectory.blueprint)
    wanted = compile_goals(blueprint, home_from_json(blueprint.home, f"home of blueprint {blueprint.id}"))
    for at, step in enumerate(trajectory.steps):
        answered = {i for i, goal in enumerate(wanted) if goal.answer and right.get(goal.intent, at + 1) <= at}
        clean = not blueprint.preserve or step.facts.side_effects_after == 0
        if clean and len(answered | set(step.facts.met)) == len(wanted):
            return True
    return False


def answer_in_words(answer: Answer) -> str:
    """The expected answer as text, with unit and tolerance."""
    if answer.type == "boolean":
        return "yes" if answer.value else "no"
    if answer.type == "number":
        give = f" (give or take {answer.tolerance:g})" if answer.tolerance else ""
        unit = {"count": "", None: ""}.get(answer.unit, f" {answer.unit}")
        return f"{answer.value:g}{unit}{give}"
    told: Any = answer.value
    if answer.type == "weekday":
        return DAYS[int(told)].capitalize()
    value = [told] if isinstance(told, str) else list(told)
    return ", ".join(value) if value else "none of them"
