"""Takes an episode through a stored dialogue again: what the user said, and the agent's messages as they were parsed.

Invariants: the record is read only; a step is parsed as it was when it was stored, whoever parsed it then; a record whose
messages and steps do not belong together is refused.

Replays stored trajectories and recomputes everything that was recorded.

Invariants:
- A replay starts from the stored blueprint only. Messages, observations, facts, state keys, outcome and
  rewards must be equal. The first difference is reported with file, line and step.
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
from homerl.envs.core.world import StepFacts
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.situation import Reply, Situation
from homerl.play.trajectory import (
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
from homerl.rewards.composite import PARTS, SETTINGS, RewardWeights, step_rewards

REFUSED = "refused: syntax: "
REMEDY = "the file was edited, or made by another version of homerl"


class RecordError(InputError):
    """The messages and the steps of a record do not belong together."""


def replay_steps(episode: Episode, stored: Trajectory, where: str = "trajectory") -> Iterator[Step]:
    """Yield each stored step when the episode has come to it. The caller takes it: `episode.act(reply_of(step))`.

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


def reply_of_step(step: Step) -> Reply:
    """The agent's reply that became a stored step."""
    return Reply(step.message, _malformed(step))


def _malformed(step: Step) -> str | None:
    """Why a reply without calls could not be parsed. Its observation says it, since another agent may have parsed it.

    If its words stood for a call, the observation is that call's result.
    """
    first = "" if step.message.get("tool_calls") or not step.observations else step.observations[0]
    return first.removeprefix(REFUSED) if first.startswith(REFUSED) else None


BOUNDS = ("minimum", "maximum")
OWN_TOKENS = ("policy",)  # agents that count code with their own tokenizer
SPEAKERS = (
    Outcome.USER_ERROR,
    Outcome.WORLD_ERROR,
    Outcome.INFRA_ERROR,
    Outcome.AGENT_FAILURE,
    Outcome.CUT,
)  # not decided by world and limits


Begin = Callable[[Mapping[str, Any]], Situation]  # stored blueprint -> situation, as `homerl.worlds.registry.restored`


def reverify_file(path: Path, begin: Begin) -> str:
    """Replay every row; return a line with the counts. Raises `InputError` at the first difference."""
    rows = steps = 0
    for number, row in enumerate(read_rows(path), 1):
        where = f"{path}:{number}"
        with locate_row_errors(where, PLUGIN_REMEDY):
            trajectory = trajectory_from_row(row)
            difference = first_difference(trajectory, begin, absent_facts(row))
        if row.get("id") != trajectory.blueprint["id"]:
            difference = f"the row is named {row.get('id')}"
        if difference:
            raise InputError(f"{trajectory.blueprint['id']}: {difference}", where, REMEDY)
        rows, steps = rows + 1, steps + len(trajectory.steps)
    return f"{path}: {rows} trajectories, {steps} steps replayed, all as recorded"


PLUGINS = " or ".join(VARIABLES[kind] for kind in ("worlds", "toolsets", "languages"))
PLUGIN_REMEDY = f"{REMEDY}, or with a plug-in whose folder {PLUGINS} must name"


Absent = Sequence[Set[str]]  # by step, the facts that a file does not hold (`trajectory.absent_facts`)


def first_difference(stored: Trajectory, begin: Begin, absent: Absent = ()) -> str | None:
    """The first difference between a replay and the record, or None."""
    return next(replay_differences(stored, begin, absent), None)


def replay_differences(stored: Trajectory, begin: Begin, absent: Absent = ()) -> Iterator[str]:
    """Yield all differences between a replay and the record, each with its step."""
    episode = Episode.from_situation(begin(stored.blueprint), EpisodeLimits(**cast(dict[str, Any], stored.limits)))
    try:
        for number, expected in enumerate(replay_steps(episode, stored), 1):
            if episode.outcome is not None:
                yield f"step {number}: the episode was over by then ({episode.outcome})"
            step = episode.apply_reply(reply_of_step(expected))
            last = number == len(stored.steps) and stored.outcome is not Outcome.CUT
            unheld = absent[number - 1] if absent else frozenset()
            step = _holding(step, expected, last, unheld)
            yield from (f"step {number}: {text}" for text in step_differences(step, expected, stored.agent))
    except RecordError as error:
        over = "" if episode.outcome is None else f", and the episode was over by then ({episode.outcome})"
        yield f"{error.what}{over}"
        return
    if absent and "closes" in absent[-1]:
        episode.outcome = episode.outcome or _wordless(episode)
    yield from end_differences(stored, episode)
    yield from reward_differences(stored)


def _wordless(episode: Episode) -> Outcome | None:
    """The outcome of an episode by the rule of older files: it ended with the call that met the last goal."""
    if episode.progress < 1.0:
        return None
    clean = not episode.blueprint.preserve or episode.side_effects() == 0
    return Outcome.SUCCESS if clean else Outcome.AGENT_FAILURE


def _holding(replayed: Step, stored: Step, last: bool, unheld: Set[str]) -> Step:
    """A replayed step with the facts that a replay cannot tell: `last`, and those that the file does not hold."""
    untold = {"last": last} | {name: getattr(stored.facts, name) for name in unheld}
    return replace(replayed, facts=replace(replayed.facts, **untold))


def step_differences(replayed: Step, stored: Step, agent: str) -> Iterator[str]:
    """Yield how a replayed step differs."""
    facts = replayed.facts
    if agent in OWN_TOKENS and has_plausible_code_tokens(stored.facts):
        facts = replace(facts, code_tokens=stored.facts.code_tokens)
    if replayed.observations != stored.observations:
        yield f"observed {replayed.observations}, stored {stored.observations}"
    if facts != stored.facts:
        again, was = asdict(facts), asdict(stored.facts)
        changed = [name for name in again if again[name] != was[name]]
        yield "; ".join(f"{STORED_AS.get(name, name)} {again[name]}, stored {was[name]}" for name in changed)
    if replayed.state_key != stored.state_key:
        yield "the home is in another state than was stored"


def has_plausible_code_tokens(facts: StepFacts) -> bool:
    """Whether the stored number of code tokens is possible: at least one if there is code, and at most one for each byte."""
    return min(1, len(facts.code or "")) <= facts.code_tokens <= len((facts.code or "").encode())


def end_differences(stored: Trajectory, episode: Episode) -> Iterator[str]:
    """Yield how the end differs: outcome, progress, side effects, and the complete dialogue."""
    if stored.outcome is not (expected := possible_outcome(stored, episode)):
        yield f"outcome {expected}, stored {stored.outcome}"
    if stored.outcome is not Outcome.WORLD_ERROR:  # the world may have failed within a step, which is not recorded
        if episode.progress != stored.progress:
            yield f"progress {episode.progress}, stored {stored.progress}"
        if (episode.side_effects() == 0) != stored.clean:
            yield f"clean {not stored.clean}, stored {stored.clean}"
    yield from fault_differences(stored, episode)
    episode.outcome = stored.outcome
    again, was = trajectory_to_row(episode.to_trajectory(stored.agent, stored.user, stored.seed)), trajectory_to_row(stored)
    for number, here, there in zip(count(1), again["messages"], was["messages"]):
        if here != there:
            yield f"message {number} ({here['role']}): {_short(here)}, stored {_short(there)}"
    if len(again["messages"]) != len(was["messages"]):
        yield f"{len(again['messages'])} messages, stored {len(was['messages'])}"
    if not _as_stored(json.loads(again["tools"]), json.loads(was["tools"])):
        yield "the tools are others than were stored"


def _as_stored(schema: Any, stored: Any) -> bool:
    """Whether a schema is the stored one, but for bounds of numbers that the stored one lacks."""
    if isinstance(schema, dict) and isinstance(stored, dict):
        added = {key: schema[key] for key in schema.keys() - stored.keys()}
        bounds = all(key in BOUNDS and isinstance(value, (int, float)) for key, value in added.items())
        return bounds and stored.keys() <= schema.keys() and all(_as_stored(schema[key], stored[key]) for key in stored)
    if isinstance(schema, list) and isinstance(stored, list):
        return len(schema) == len(stored) and all(map(_as_stored, schema, stored))
    return bool(schema == stored)


def possible_outcome(stored: Trajectory, episode: Episode) -> Outcome:
    """The outcome by the world and the limits; if they do not decide, the stored outcome if it is possible."""
    if episode.outcome is not None:
        return episode.outcome
    return stored.outcome if stored.outcome in SPEAKERS else Outcome.AGENT_FAILURE


def fault_differences(stored: Trajectory, episode: Episode) -> Iterator[str]:
    """Yield why a stored fault is impossible: the episode was over without it, or it implies another outcome."""
    if stored.fault is None:
        return
    if episode.outcome is not None and episode.fault is None:
        yield f"a fault of the {stored.fault.boundary} is stored, but the episode was over without it"
    if stored.outcome is not (expected := Outcome.from_boundary(stored.fault.boundary)):
        yield f"a fault of the {stored.fault.boundary} makes {expected}, stored {stored.outcome}"


def reward_differences(stored: Trajectory) -> Iterator[str]:
    """Yield how the rewards differ, if any were stored."""
    if not stored.rewards:
        return
    earned = {name for rewards in stored.rewards for name in rewards}
    yield from missing_reward_differences(stored, earned - set(PARTS))
    held = [name for name in PARTS if name in earned | stored.weights.keys()]
    known = {name: value for name, value in stored.weights.items() if name in (*PARTS, *SETTINGS)}
    try:
        weights = RewardWeights(**{name: 0.0 for name in PARTS if name not in held}, **known)
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


def _short(message: Mapping[str, Any]) -> str:
    text = json.dumps({key: value for key, value in message.items() if value and key != "role"}, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."
