"""The error that explains why an instance failed, by rules: SMH-Bench's taxonomy (Tables 3 and 17).

There are six dimensions: structured output (SO), mode selection (MS), automation judging (AJ), action validity in the
setting `dr` (AV) or tool-call validity in `eia` (TV), interaction efficiency (IE), and format and runtime (FRF). Each
failure gets one error, the first that applies: empty or unreadable output, a used-up budget, a refused last call, asking or
acting at the wrong time, a wrong automation, and finally a wrong result.

Invariant: the error is a pure function of the trajectory. A success has none, nor has an outcome that is not the agent's
fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent
from homerl.play.faults import TOO_LONG
from homerl.play.messages import spoken_words_of
from homerl.play.trajectory import Outcome, Step, Trajectory
from homerl.worlds.contract import EpisodeFailure

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
    intent = _open_intent(trajectory, blueprint)
    return (
        _format(trajectory)
        or _efficiency(trajectory)
        or _validity(trajectory, blueprint)
        or _mode(trajectory, blueprint, intent)
        or _automation(trajectory, intent)
        or _result(trajectory, blueprint, intent)
    )


def _open_intent(trajectory: Trajectory, blueprint: Blueprint) -> Intent:
    """The intent that the user last spoke of."""
    spoken = next((step.facts.intent for step in reversed(trajectory.steps) if step.facts.intent), None)
    return next((intent for intent in blueprint.intents if intent.id == spoken), blueprint.intents[0])


def _format(trajectory: Trajectory) -> EpisodeFailure | None:
    last = trajectory.steps[-1] if trajectory.steps else None
    if trajectory.fault is not None and trajectory.fault.reason.startswith(TOO_LONG):
        return EpisodeFailure("SO", "a dialogue that is longer than the model takes")
    if last is None or not (last.message.get("tool_calls") or (last.message.get("content") or "").strip()):
        return EpisodeFailure("SO", "empty model output")
    if "syntax" in last.facts.blocked and not any(step.facts.changed for step in trajectory.steps):
        return EpisodeFailure("FRF", "output that cannot be parsed")
    return None


def _efficiency(trajectory: Trajectory) -> EpisodeFailure | None:
    if trajectory.outcome is Outcome.STEP_LIMIT:
        return EpisodeFailure("IE", "too many tool calls")
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


def _validity(trajectory: Trajectory, blueprint: Blueprint) -> EpisodeFailure | None:
    """An error if the agent's last call was refused, or raised an error."""
    tried = [step for step in trajectory.steps if step.message.get("tool_calls") or step.observations]
    if not tried or not tried[-1].has_failed:
        return None
    dimension = "AV" if blueprint.one_answer else "TV"
    if not tried[-1].facts.blocked:
        return EpisodeFailure(dimension, "execution error")
    rule = tried[-1].facts.blocked[0]
    if rule == "wrong_type":
        return EpisodeFailure(dimension, "invalid null in arguments" if _has_null(tried[-1]) else "argument of a wrong type")
    return EpisodeFailure(dimension, REFUSALS.get(rule, f"refused: {rule}"))


def _has_null(step: Step) -> bool:
    return any(value is None for arguments in _arguments(step) for value in _leaves(arguments))


def _arguments(step: Step) -> Iterator[Any]:
    texts = [call["function"]["arguments"] for call in step.message.get("tool_calls") or ()]
    for text in texts or [step.message.get("content") or ""]:
        try:
            yield json.loads(text)
        except ValueError:
            continue


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _mode(trajectory: Trajectory, blueprint: Blueprint, intent: Intent) -> EpisodeFailure | None:
    acted = any(step.facts.changed for step in trajectory.steps)
    spoken = (step.message for step in trajectory.steps if not step.message.get("tool_calls"))
    asked = any(spoken_words_of(message, one_answer=blueprint.one_answer).question for message in spoken)
    if intent.clarify and not asked:
        return EpisodeFailure("MS", "clarification predicted as execution" if acted else "clarification missing")
    if not intent.clarify and asked and not acted:
        return EpisodeFailure("MS", "execution predicted as clarification")
    return None


def _automation(trajectory: Trajectory, intent: Intent) -> EpisodeFailure | None:
    if intent.automation is None:
        return None
    made = any(slot.startswith("automation.") for step in trajectory.steps for slot in step.facts.changed)
    return EpisodeFailure("AJ", "conditions judged wrong") if made else EpisodeFailure("SO", "missing automation")


def _result(trajectory: Trajectory, blueprint: Blueprint, intent: Intent) -> EpisodeFailure:
    if intent.answer is not None and not intent.conditions:
        said = (spoken_words_of(step.message, one_answer=blueprint.one_answer).text for step in trajectory.steps)
        spoke = any(map(str.strip, said))
        return EpisodeFailure("SO", "wrong query response" if spoke else "missing query response")
    if trajectory.progress == 1.0 or not trajectory.clean:
        return EpisodeFailure("SO", "something else changed")
    return EpisodeFailure("SO", "missing changes")
