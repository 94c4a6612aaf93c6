"""Replay stored trajectories and recompute all that was recorded of them.

Invariants: a replay starts from the stored blueprint alone; observations, facts, state keys, outcome and rewards
must all agree to the letter; the first difference is named with file, line and step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.documents import InputError
from homerl.blueprints.blueprint import Blueprint
from homerl.episode import Episode, EpisodeLimits, Reply
from homerl.trajectory import Trajectory, from_row, read_rows
from rewards.composite import RewardWeights, step_rewards


def reverify_file(path: Path) -> str:
    """Replay every row; return a line that says how many agreed, or raise `InputError` at the first difference."""
    rows = steps = 0
    for number, row in enumerate(read_rows(path), 1):
        trajectory = from_row(row)
        if difference := first_difference(trajectory):
            raise InputError(
                f"{trajectory.blueprint['id']}: {difference}", where=f"{path}:{number}",
                remedy="the file was edited, or made by another version of homerl",
            )  # fmt: skip
        rows, steps = rows + 1, steps + len(trajectory.steps)
    return f"{path}: {rows} trajectories, {steps} steps replayed, all as recorded"


def first_difference(stored: Trajectory) -> str | None:
    """What a replay gives otherwise than was stored, or None."""
    episode = Episode.begin(Blueprint.model_validate(stored.blueprint), limits_of(stored))
    steps = iter(stored.steps)
    for message in stored.messages[1:]:
        if message["role"] == "user":
            episode.hear(message["content"])
        elif message["role"] == "assistant":
            expected = next(steps)
            number = len(episode.steps) + 1
            found = episode.act(Reply(expected.message, malformed_of(expected.observations)))
            if found.observations != expected.observations:
                return f"step {number}: observed {found.observations}, stored {expected.observations}"
            facts = replace(found.facts, code_tokens=expected.facts.code_tokens, last=expected.facts.last)
            if facts != expected.facts:
                return f"step {number}: facts {facts}, stored {expected.facts}"
            if found.state_key != expected.state_key:
                return f"step {number}: the home is in another state"
    if (episode.progress == 1.0) != (stored.progress == 1.0):
        return f"progress {episode.progress}, stored {stored.progress}"
    return _reward_difference(stored)


def _reward_difference(stored: Trajectory) -> str | None:
    if not stored.rewards:
        return None
    weights = RewardWeights(**stored.weights)
    for number, (step, rewards) in enumerate(zip(stored.steps, stored.rewards, strict=True), 1):
        if (again := step_rewards(step.facts, weights)) != dict(rewards):
            return f"step {number}: rewards {again}, stored {dict(rewards)}"
    return None


def limits_of(stored: Trajectory) -> EpisodeLimits:
    """Limits that no stored dialogue can reach: a replay follows the record, it does not end it."""
    return EpisodeLimits(turns=10_000, steps=10_000, steps_per_turn=10_000)


def malformed_of(observations: tuple[str, ...]) -> str | None:
    """Why a reply was malformed, read back from its observation (it had no call that could be made)."""
    start = "refused: syntax: the tool call"
    return observations[0].removeprefix("refused: syntax: ") if observations and observations[0].startswith(start) else None
