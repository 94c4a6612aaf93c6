"""Prepares trajectories for reading, as text and numbers that a page can lay out.

Invariants: nothing is added or shortened; rewards are shown as stored, never recomputed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from homerl.envs.core.messages import Message
from homerl.play.trajectory import Step, Trajectory

NO_REWARDS: Mapping[str, float] = {}


@dataclass(frozen=True)
class ShownStep:
    """One agent message: its text and calls, observations, refusals, changes, met goals and rewards."""

    said: str
    calls: tuple[str, ...]
    observations: tuple[str, ...]
    blocked: tuple[str, ...]
    before: float
    after: float
    rewards: tuple[tuple[str, float], ...]
    changed: tuple[str, ...]
    met: tuple[int, ...]


@dataclass(frozen=True)
class ShownDialogue:
    """A trajectory for reading: turns with the utterance and its steps."""

    id: str
    scene: str
    outcome: str
    success: bool
    progress: float
    side_effects: bool
    goals: tuple[str, ...]
    past: tuple[tuple[str, str], ...]
    prompt: str
    turns: tuple[tuple[str, tuple[ShownStep, ...]], ...]


def show_dialogue(trajectory: Trajectory, goals: Iterable[str]) -> ShownDialogue:
    """Prepare a trajectory for reading. `goals` are its goals Φ in words, as its world says them."""
    blueprint, rewards = trajectory.blueprint, iter(trajectory.rewards)
    turns = tuple(
        (turn.utterance, tuple(show_step(step, next(rewards, {})) for step in turn.steps)) for turn in trajectory.turns()
    )
    return ShownDialogue(
        id=blueprint["id"],
        scene=blueprint.get("scene", ""),
        outcome=str(trajectory.outcome),
        success=trajectory.success,
        progress=trajectory.progress,
        side_effects=not trajectory.clean,
        goals=tuple(goals),
        past=tuple((said["role"], said["content"]) for said in trajectory.opening_messages if said["role"] != "system"),
        prompt=trajectory.messages[0]["content"] if trajectory.messages[0]["role"] == "system" else "",
        turns=turns,
    )


def show_step(step: Step, rewards: Mapping[str, float] = NO_REWARDS) -> ShownStep:
    """Prepare a step for reading."""
    facts = step.facts
    return ShownStep(
        said=step.message.get("content") or "",
        calls=tuple(format_tool_call(call) for call in step.message.get("tool_calls") or ()),
        observations=step.observations,
        blocked=(*facts.blocked, *(["error"] if facts.error else [])),
        before=facts.progress_before,
        after=facts.progress_after,
        rewards=tuple((name, value) for name, value in rewards.items() if value),
        changed=facts.changed,
        met=facts.met,
    )


def format_tool_call(call: Message) -> str:
    """A tool call as text: the code if code is its only argument, else name and arguments."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return f"{name}({arguments})"
    if list(given) == ["code"] and isinstance(given["code"], str):
        return given["code"]
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
