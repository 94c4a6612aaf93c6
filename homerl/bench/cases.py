"""What an agent said that answers a question, or should have asked one back, and what the rules make of it.

Invariants: pure; of an intent's answers there is none after the first that no rule calls right, since nobody may try one
answer after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from homerl.blueprints.answers import Verdict, read
from homerl.blueprints.blueprint import Answer, Blueprint
from homerl.chat import words_of
from homerl.trajectory import Step, Trajectory
from homerl.worlds import is_simuhome


@dataclass(frozen=True)
class Case:
    """Something said that may be judged, at which step, and what the rules make of it."""

    step: int
    intent: int
    kind: str  # "answer" or "clarification"; for SimuHome by which rubric it is judged
    asked: str
    wanted: str
    said: str
    rule: Verdict


def cases(trajectory: Trajectory) -> list[Case]:
    """What an agent said that answers a question or should have asked one, in order."""
    if is_simuhome(trajectory.blueprint):
        from homerl.bench import simuhome_cases

        return simuhome_cases.cases(trajectory)
    blueprint = Blueprint.model_validate(trajectory.blueprint)
    intents, found = {intent.id: intent for intent in blueprint.intents}, []
    for at, (step, user) in enumerate(_with_user(trajectory)):
        intent = intents.get(step.facts.intent)
        spoke = blueprint.toolset == "direct" or not step.observations
        if intent is None or not spoke:
            continue
        said = words_of(step.message, blueprint.toolset)
        of_it = [case for case in found if case.intent == intent.id]
        if intent.clarify and not any(case.kind == "clarification" for case in of_it):
            rule = "right" if said.question else "wrong"
            found.append(Case(at, intent.id, "clarification", user, intent.clarification, said.text, rule))
        elif intent.answer and said.claims and not any(case.kind == "answer" and case.rule != "right" for case in of_it):
            rule = read(intent.answer, said.claims)
            if rule != "silent":
                found.append(Case(at, intent.id, "answer", user, in_words(intent.answer), said.text, rule))
    return found


def _with_user(trajectory: Trajectory) -> Iterator[tuple[Step, str]]:
    """Every step with what the user had said last."""
    steps, heard = iter(trajectory.steps), ""
    for message in trajectory.messages[-_played(trajectory) :]:
        if message["role"] == "user":
            heard = message["content"]
        elif message["role"] == "assistant" and (step := next(steps, None)) is not None:
            yield step, heard


def _played(trajectory: Trajectory) -> int:
    """How many messages are no briefing and no history."""
    return len(trajectory.messages) - 1 - len(trajectory.blueprint.get("history", ()))


def in_words(answer: Answer) -> str:
    """The true answer for a reader."""
    if answer.type == "boolean":
        return "yes" if answer.value else "no"
    if answer.type == "number":
        give = f" (give or take {answer.tolerance:g})" if answer.tolerance else ""
        unit = {"count": "", None: ""}.get(answer.unit, f" {answer.unit}")
        return f"{answer.value:g}{unit}{give}"
    value = [answer.value] if isinstance(answer.value, str) else list(answer.value)
    return ", ".join(value) if value else "none of them"
