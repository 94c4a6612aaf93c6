"""Replays stored trajectories and recomputes everything that was recorded.

Invariants:
- The record is only read. A replay starts from the stored blueprint and needs nothing else.
- Messages, observations, facts, state keys, outcome and rewards must be equal. The first difference is reported with file,
  line and step. A record whose messages and steps do not belong together is refused.
- A message is read as it was when it was stored, whoever read it then.
- What a file does not hold is not compared, since facts and rewards may be newer than the file. A reward that no longer
  exists is ignored if its weight was 0. Bounds of numbers in the tools' schemas may be newer too.
- Two things are only checked for plausibility: the length of code in a policy's own tokens, and whose fault ended an
  episode that the world had not ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.core.plugins import VARIABLES
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.situation import Reply, Situation
from homerl.play.trajectory import (
    FAULT_OUTCOMES,
    STORED_AS,
    Outcome,
    Step,
    Trajectory,
    absent_facts,
    locate_row_errors,
    read_rows,
    trajectory_from_row,
    trajectory_to_row,
)
from homerl.rewards.composite import OLDER_SETTINGS, PARTS, REWARDS, SETTINGS, RewardWeights, step_rewards

REFUSED = "refused: syntax: "  # how an observation begins that says why a message could not be read
REMEDY = "the file was edited, or made by another version of homerl"


class RecordError(InputError):
    """The messages and the steps of a record do not belong together."""


Begin = Callable[[Mapping[str, Any]], Situation]  # of a stored blueprint, as `restore_situation` of the worlds' registry


def begin_replay(stored: Trajectory, begin: Begin) -> Episode:
    """The episode of a record before its first step."""
    return Episode.from_situation(begin(stored.blueprint), EpisodeLimits(**cast(dict[str, Any], stored.limits)))


def replay_steps(episode: Episode, stored: Trajectory, where: str = "trajectory") -> Iterator[Step]:
    """Yield each stored step when the episode has come to it.

    The caller takes it, by `episode.apply_reply(reply_of_step(step))`.
    The user's messages are heard on the way, with the intents that they are stored with. Raises `RecordError` where a
    message of the agent has no step, or a step no message.
    """
    done = 0
    for message in stored.messages[len(episode.messages) :]:
        if message["role"] == "user":
            intent = stored.steps[done].facts.intent if done < len(stored.steps) else None
            episode.add_utterance(message["content"], intent)
        elif message["role"] == "assistant":
            if done == len(stored.steps):
                raise RecordError(f"step {done + 1}: there is a message of it, but no record", where, REMEDY)
            yield stored.steps[done]
            done += 1
    if done < len(stored.steps):
        raise RecordError(f"step {done + 1}: there is a record of it, but no message", where, REMEDY)


def replay_as_recorded(
    episode: Episode, stored: Trajectory, where: str, other: str = "step {} comes out otherwise than it was recorded"
) -> Iterator[int]:
    """Take each stored step, and yield its number. Raises `InputError`, in the words `other`, if it comes out otherwise."""
    for number, step in enumerate(replay_steps(episode, stored, where), 1):
        done = episode.apply_reply(reply_of_step(step))
        if (done.observations, done.state_key) != (step.observations, step.state_key):
            raise InputError(other.format(number), where, REMEDY)
        yield number


def reply_of_step(step: Step) -> Reply:
    """The agent's reply that became a stored step."""
    first = "" if step.message.get("tool_calls") or not step.observations else step.observations[0]
    # The observation says why a reply without calls could not be read. If its words stood for a call, it is that call's
    # result, and does not begin so.
    return Reply(step.message, first.removeprefix(REFUSED) if first.startswith(REFUSED) else None)


BOUNDS = ("minimum", "maximum")  # keys of a schema that may be newer than the file
OWN_TOKENS = ("policy",)  # agents that count code with their own tokenizer
# Outcomes that a speaker or a fault decided, and not the world or the limits.
SPEAKERS = (Outcome.USER_ERROR, Outcome.WORLD_ERROR, Outcome.INFRA_ERROR, Outcome.AGENT_FAILURE, Outcome.CUT)


PLUGINS = " or ".join(VARIABLES[kind] for kind in ("worlds", "toolsets", "languages"))


def reverify_file(path: Path, begin: Begin) -> str:
    """Replay every row; return a line with the counts. Raises `InputError` at the first difference."""
    rows = steps = 0
    for number, row in enumerate(read_rows(path), 1):
        where = f"{path}:{number}"
        with locate_row_errors(where, f"{REMEDY}, or with a plug-in whose folder {PLUGINS} must name"):
            trajectory = trajectory_from_row(row)
            difference = first_difference(trajectory, begin, absent_facts(row))
        if row.get("id") != trajectory.blueprint["id"]:
            difference = f"the row is named {row.get('id')}"
        if difference:
            raise InputError(f"{trajectory.blueprint['id']}: {difference}", where, REMEDY)
        rows, steps = rows + 1, steps + len(trajectory.steps)
    return f"{path}: {rows} trajectories, {steps} steps replayed, all as recorded"


Absent = Sequence[Set[str]]  # by step, the facts that a file does not hold (`trajectory.absent_facts`)


def first_difference(stored: Trajectory, begin: Begin, absent: Absent = ()) -> str | None:
    """The first difference between a replay and the record, or None."""
    return next(replay_differences(stored, begin, absent), None)


def replay_differences(stored: Trajectory, begin: Begin, absent: Absent = ()) -> Iterator[str]:
    """Yield all differences between a replay and the record, each with its step."""
    episode = begin_replay(stored, begin)
    young = {fact: name for name, reward in REWARDS.items() for fact in reward.facts}
    needed = {fact for fact, name in young.items() if stored.weights.get(name)}  # else what is stored decides nothing
    try:
        for number, expected in enumerate(replay_steps(episode, stored), 1):
            if episode.outcome is not None:
                yield f"step {number}: the episode was over by then ({episode.outcome})"
            step = episode.apply_reply(reply_of_step(expected))
            # A replay cannot tell which step is the last, nor the facts that the file does not hold.
            untold: dict[str, Any] = {"last": number == len(stored.steps) and stored.outcome is not Outcome.CUT}
            kept = ((absent[number - 1] if absent else set()) | young.keys()) - needed
            untold |= {name: getattr(expected.facts, name) for name in kept}
            step = replace(step, facts=replace(step.facts, **untold))
            yield from (f"step {number}: {text}" for text in step_differences(step, expected, stored.agent))
    except RecordError as error:
        over = "" if episode.outcome is None else f", and the episode was over by then ({episode.outcome})"
        yield f"{error.what}{over}"
        return
    older = absent and "closes" in absent[-1]
    if older and episode.outcome is None and episode.progress == 1.0:  # such an episode ended with a call, not with words
        clean = not episode.blueprint.preserve or episode.side_effects() == 0
        episode.outcome = Outcome.SUCCESS if clean else Outcome.AGENT_FAILURE
    yield from end_differences(stored, episode)
    yield from reward_differences(stored)


def step_differences(replayed: Step, stored: Step, agent: str) -> Iterator[str]:
    """Yield how a replayed step differs."""
    facts = replayed.facts
    code, tokens = stored.facts.code or "", stored.facts.code_tokens
    # Code has at least one token, and at most one for each byte.
    if agent in OWN_TOKENS and min(1, len(code)) <= tokens <= len(code.encode()):
        facts = replace(facts, code_tokens=tokens)
    if replayed.observations != stored.observations:
        yield f"observed {replayed.observations}, stored {stored.observations}"
    if facts != stored.facts or facts.closing_flaw != stored.facts.closing_flaw:
        again, was = asdict(facts), asdict(stored.facts)
        changed = [name for name in again if again[name] != was[name]]
        yield "; ".join(f"{STORED_AS.get(name, name)} {again[name]}, stored {was[name]}" for name in changed)
    if replayed.state_key != stored.state_key:
        yield "the home is in another state than was stored"


def end_differences(stored: Trajectory, episode: Episode) -> Iterator[str]:
    """Yield how the end differs: outcome, progress, side effects, and the complete dialogue."""
    expected = episode.outcome or (stored.outcome if stored.outcome in SPEAKERS else Outcome.AGENT_FAILURE)
    if stored.outcome is not expected:
        yield f"outcome {expected}, stored {stored.outcome}"
    if stored.outcome is not Outcome.WORLD_ERROR:  # the world may have failed within a step, which is not recorded
        if episode.progress != stored.progress:
            yield f"progress {episode.progress}, stored {stored.progress}"
        if (episode.side_effects() == 0) != stored.clean:
            yield f"clean {not stored.clean}, stored {stored.clean}"
    if (fault := stored.fault) is not None:
        if episode.outcome is not None and episode.fault is None:
            yield f"a fault of the {fault.boundary} is stored, but the episode was over without it"
        if stored.outcome is not (implied := FAULT_OUTCOMES[fault.boundary]):
            yield f"a fault of the {fault.boundary} makes {implied}, stored {stored.outcome}"
    episode.outcome = stored.outcome
    again, was = trajectory_to_row(episode.to_trajectory(stored.agent, stored.user, stored.seed)), trajectory_to_row(stored)
    for number, here, there in zip(count(1), again["messages"], was["messages"]):
        if here != there:
            yield f"message {number} ({here['role']}): {_shorten_message(here)}, stored {_shorten_message(there)}"
    if len(again["messages"]) != len(was["messages"]):
        yield f"{len(again['messages'])} messages, stored {len(was['messages'])}"
    if not _is_stored_schema(json.loads(again["tools"]), json.loads(was["tools"])):
        yield "the tools are others than were stored"


def _is_stored_schema(schema: Any, stored: Any) -> bool:
    """Whether a schema is the stored one, but for bounds of numbers that the stored one lacks."""
    if isinstance(schema, dict) and isinstance(stored, dict):
        added = {key: schema[key] for key in schema.keys() - stored.keys()}
        bounds = all(key in BOUNDS and isinstance(value, (int, float)) for key, value in added.items())
        return (
            bounds and stored.keys() <= schema.keys() and all(_is_stored_schema(schema[key], stored[key]) for key in stored)
        )
    if isinstance(schema, list) and isinstance(stored, list):
        return len(schema) == len(stored) and all(map(_is_stored_schema, schema, stored))
    return bool(schema == stored)


def reward_differences(stored: Trajectory) -> Iterator[str]:
    """Yield how the rewards differ, if any were stored."""
    if not stored.rewards:
        return
    earned = {name for rewards in stored.rewards for name in rewards}
    yield from missing_reward_differences(stored, earned - set(PARTS))
    held = [name for name in PARTS if name in earned | stored.weights.keys()]
    known = {name: value for name, value in stored.weights.items() if name in (*PARTS, *SETTINGS)}
    try:
        weights = RewardWeights(**{name: 0.0 for name in PARTS if name not in held} | {**OLDER_SETTINGS} | known)
    except ValidationError as error:
        yield f"the weights cannot be used: {error.errors()[0]['msg']}"
        return
    if len(stored.rewards) != len(stored.steps):
        yield f"{len(stored.steps)} steps, but rewards of {len(stored.rewards)}"
    for number, step, rewards in zip(count(1), stored.steps, stored.rewards):
        whole, there = step_rewards(step.facts, weights), {n: value for n, value in rewards.items() if n in PARTS}
        if (again := {name: whole[name] for name in held}) != there:
            yield f"step {number}: rewards {again}, stored {there}"


def missing_reward_differences(stored: Trajectory, gone: Set[str]) -> Iterator[str]:
    """Yield the stored rewards that are not installed and had a weight, so that they cannot be recomputed."""
    told = "if it is a reward of your own, HOMERL_REWARDS must name its folder"
    for name in sorted(gone):
        if stored.weights.get(name) or any(rewards.get(name) for rewards in stored.rewards):
            yield f"there is no reward '{name}' to recompute (weight {stored.weights.get(name)}); {told}"
    if not gone:  # else other names in the weights may be settings of the missing reward
        unknown = [name for name, value in stored.weights.items() if value and name not in (*PARTS, *SETTINGS)]
        yield from (f"the weights hold '{name}', which no reward here has; {told}" for name in unknown)


def _shorten_message(message: Mapping[str, Any]) -> str:
    text = json.dumps({key: value for key, value in message.items() if value and key != "role"}, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."


def add_step_rewards(trajectory: Trajectory, weights: RewardWeights) -> Trajectory:
    """The trajectory with the rewards of every step, and with the weights that they were computed with."""
    rewards = tuple(step_rewards(step.facts, weights) for step in trajectory.steps)
    return replace(trajectory, rewards=rewards, weights=weights.model_dump(mode="json"))
