"""Trajectories made readable.

Invariants: nothing is added or shortened; what a step earned is shown as it was stored, never recomputed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from homerl.trajectory import Message, Step, Trajectory


@dataclass(frozen=True)
class ShownStep:
    """One agent message: what it said, what it called, what came back, what it earned."""

    said: str
    calls: tuple[str, ...]
    observations: tuple[str, ...]
    blocked: tuple[str, ...]
    before: float
    after: float
    rewards: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Dialogue:
    """A trajectory for reading: per turn the utterance and its steps."""

    id: str
    scene: str
    outcome: str
    success: bool
    progress: float
    strayed: bool
    conditions: tuple[str, ...]
    prompt: str
    turns: tuple[tuple[str, tuple[ShownStep, ...]], ...]


def dialogue(trajectory: Trajectory) -> Dialogue:
    """The trajectory, made readable."""
    blueprint, rewards = trajectory.blueprint, iter(trajectory.rewards)
    turns = tuple(
        (turn.utterance, tuple(_shown(step, next(rewards, {})) for step in turn.steps)) for turn in trajectory.turns()
    )
    return Dialogue(
        id=blueprint["id"],
        scene=blueprint.get("scene", ""),
        outcome=str(trajectory.outcome),
        success=trajectory.success,
        progress=trajectory.progress,
        strayed=not trajectory.clean,
        conditions=tuple(condition for intent in blueprint["intents"] for condition in intent["conditions"]),
        prompt=trajectory.messages[0]["content"] if trajectory.messages[0]["role"] == "system" else "",
        turns=turns,
    )


def _shown(step: Step, rewards: Mapping[str, float]) -> ShownStep:
    facts = step.facts
    return ShownStep(
        said=step.message.get("content") or "",
        calls=tuple(call_text(call) for call in step.message.get("tool_calls") or ()),
        observations=step.observations,
        blocked=(*facts.blocked, *(["error"] if facts.error else [])),
        before=facts.progress_before,
        after=facts.progress_after,
        rewards=tuple((name, value) for name, value in rewards.items() if value),
    )


def call_text(call: Message) -> str:
    """A tool call as code: a snippet as it is, any other tool as a call by name."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return f"{name}({arguments})"
    if name == "pyexec" and isinstance(given.get("code"), str):
        return given["code"]
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
