"""What the rules say of a played trajectory: verdicts on the agent's statements, and the error that explains a failure.

The statements that are judged answer a question, or should ask a clarifying one. The errors are those of SMH-Bench's
taxonomy (Tables 3 and 17). There are six dimensions: structured output (SO), mode selection (MS), automation judging (AJ),
action validity in the setting `dr` (AV) or tool-call validity in `eia` (TV), interaction efficiency (IE), and format and
runtime (FRF).

Invariants:
- All functions are pure.
- After the first answer to an intent that the rules do not call right, later answers to it are ignored, so that an agent
  cannot try one answer after the other.
- A success has no error, nor has an outcome that is not the agent's fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from homerl.envs.core.world import ClosingFlaw
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent
from homerl.envs.homeenv.tasks.goals import compile_goals, standing_in_home
from homerl.play.closings import find_closing_flaws
from homerl.play.faults import TOO_LONG
from homerl.play.spoken_words import SpokenWords, spoken_words_of, words_without_calls
from homerl.play.trajectory import Outcome, Step, Trajectory
from homerl.play.words.answer_rules import Answer, judge_answer_by_rules
from homerl.play.words.numbers_and_times import DAYS
from homerl.worlds.contract import EpisodeFailure, JudgeCase


def collect_home_cases(trajectory: Trajectory) -> list[JudgeCase]:
    """The answers and clarifying questions of a trajectory, in order."""
    blueprint = Blueprint.model_validate(trajectory.blueprint)
    intents: dict[int | None, Intent] = {intent.id: intent for intent in blueprint.intents}
    judged: list[JudgeCase] = []
    for at, (step, user) in enumerate(_steps_with_utterances(trajectory)):
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


def _steps_with_utterances(trajectory: Trajectory) -> Iterator[tuple[Step, str]]:
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


def home_closing_flaws(trajectory: Trajectory) -> list[ClosingFlaw]:
    """What is wrong with the words that end turns, by how the wish of each stood in the home."""
    intents = [Intent.model_validate(intent) for intent in trajectory.blueprint["intents"]]

    def words_of_json_answer(step: Step) -> SpokenWords:
        return spoken_words_of(step.message, one_answer=True)

    words = words_of_json_answer if TOOLSETS[trajectory.blueprint["toolset"]].one_answer else words_without_calls
    return find_closing_flaws(trajectory, partial(standing_in_home, intents), words)


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
    if answer.type == "admission":
        return "that it cannot be done"
    if answer.type == "talk":
        return "anything that claims nothing"
    told: Any = answer.value
    if answer.type == "weekday":
        return DAYS[int(told)].capitalize()
    value = [told] if isinstance(told, str) else list(told)
    return ", ".join(value) if value else "none of them"


DIMENSIONS = {
    "SO": "structured output",
    "MS": "mode selection",
    "AJ": "automation judging",
    "AV": "action validity",
    "TV": "tool-call validity",
    "IE": "interaction efficiency",
    "FRF": "format and runtime",
}


def classify_home_failure(trajectory: Trajectory) -> EpisodeFailure | None:
    """The error that explains a failure, or None."""
    if trajectory.success or not trajectory.outcome.is_counted:
        return None
    blueprint = Blueprint.model_validate(trajectory.blueprint)
    spoken = next((step.facts.intent for step in reversed(trajectory.steps) if step.facts.intent), None)
    intent = next((intent for intent in blueprint.intents if intent.id == spoken), blueprint.intents[0])
    # The first error that applies counts.
    if failure := _format_failure(trajectory):
        return failure
    if trajectory.outcome is Outcome.STEP_LIMIT:
        return EpisodeFailure("IE", "too many tool calls")
    if failure := _call_failure(trajectory, blueprint) or _mode_failure(trajectory, blueprint, intent):
        return failure
    if intent.automation is not None:
        made = any(slot.startswith("automation.") for step in trajectory.steps for slot in step.facts.changed)
        return EpisodeFailure("AJ", "conditions judged wrong") if made else EpisodeFailure("SO", "missing automation")
    if intent.answer is not None and not intent.conditions:
        said = (spoken_words_of(step.message, one_answer=blueprint.one_answer).text for step in trajectory.steps)
        spoke = any(map(str.strip, said))
        return EpisodeFailure("SO", "wrong query response" if spoke else "missing query response")
    if trajectory.progress == 1.0 or not trajectory.clean:
        return EpisodeFailure("SO", "something else changed")
    return EpisodeFailure("SO", "missing changes")


def _format_failure(trajectory: Trajectory) -> EpisodeFailure | None:
    last = trajectory.steps[-1] if trajectory.steps else None
    if trajectory.fault is not None and trajectory.fault.reason.startswith(TOO_LONG):
        return EpisodeFailure("SO", "a dialogue that is longer than the model takes")
    if last is None or not (last.message.get("tool_calls") or (last.message.get("content") or "").strip()):
        return EpisodeFailure("SO", "empty model output")
    if "syntax" in last.facts.blocked and not any(step.facts.changed for step in trajectory.steps):
        return EpisodeFailure("FRF", "output that cannot be parsed")
    return None


REFUSALS = {
    "missing_argument": "missing required argument",
    "unknown_argument": "wrong argument name",
    "unknown_device": "unknown device",
    "unknown_service": "unknown service",
    "precondition": "precondition not met",
    "out_of_range": "value out of range",
    "syntax": "output that cannot be parsed",
}


def _call_failure(trajectory: Trajectory, blueprint: Blueprint) -> EpisodeFailure | None:
    """An error if the agent's last call was refused, or raised an error."""
    tried = [step for step in trajectory.steps if step.message.get("tool_calls") or step.observations]
    if not tried or not tried[-1].has_failed:
        return None
    dimension = "AV" if blueprint.one_answer else "TV"
    if not tried[-1].facts.blocked:
        return EpisodeFailure(dimension, "execution error")
    rule = tried[-1].facts.blocked[0]
    if rule == "wrong_type":
        message = tried[-1].message
        texts = [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
        null = any(map(_holds_null, texts or [message.get("content") or ""]))
        return EpisodeFailure(dimension, "invalid null in arguments" if null else "argument of a wrong type")
    return EpisodeFailure(dimension, REFUSALS.get(rule, f"refused: {rule}"))


def _holds_null(text: str) -> bool:
    """Whether a JSON text has a null in it; false for text that is no JSON."""
    try:
        values = [json.loads(text)]
    except ValueError:
        return False
    for value in values:  # which grows while it is read
        values += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return None in values


def _mode_failure(trajectory: Trajectory, blueprint: Blueprint, intent: Intent) -> EpisodeFailure | None:
    acted = any(step.facts.changed for step in trajectory.steps)
    spoken = (step.message for step in trajectory.steps if not step.message.get("tool_calls"))
    asked = any(spoken_words_of(message, one_answer=blueprint.one_answer).question for message in spoken)
    if intent.clarify and not asked:
        return EpisodeFailure("MS", "clarification predicted as execution" if acted else "clarification missing")
    if not intent.clarify and asked and not acted:
        return EpisodeFailure("MS", "execution predicted as clarification")
    return None
