"""Reflection (PersonalHomeBench Table 4): an agent reads what the judge and the tools say of its plan, and revises it once.

The paper leaves the number of rounds open. Ours is one, of 15 more turns.

Invariants:
- An episode goes on from where it ended, in the same household.
- A revision is stored under a hash of all that it depends on, and is asked for once.
- An episode that a server ends is asked for again next time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.core.messages import Message
from homerl.envs.personalhome.bench.episode_results import PlayedTask, RunResults, answer_metrics, final_words
from homerl.envs.personalhome.bench.judge_figures import plan_programs, plan_rating_question, plan_verdict, rating_figures
from homerl.envs.personalhome.bench.score_figures import Figures, plan_figures
from homerl.envs.personalhome.bench.suite import TURNS, household_digest
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion, VerdictStore
from homerl.envs.personalhome.judge.judge_questions import RefusedStep, revision_message
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.tasks.plan_rules import try_plan_step
from homerl.envs.personalhome.tasks.situation import PersonalHomeSituation
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Policy, play
from homerl.play.replay import replay_steps, reply_of_step
from homerl.worlds.users import ScriptedUser

FILE = "revisions.jsonl"  # beside the results
AT_ONCE = 16
LIMITS = EpisodeLimits(turns=2, steps=2 * (TURNS + 1), steps_per_turn=TURNS + 1)


@dataclass(frozen=True)
class ReflectionFigures:
    """Figures of the same plans before and after their revision. `missing` plans were not revised, or not rated."""

    before: Figures
    after: Figures
    missing: int


def plan_feedback_message(played: PlayedTask, verdict: Mapping[str, Any] | None) -> Message:
    """What the agent is told of its plan: which steps were refused, and the judge's verdict if there is one."""
    blueprint, programs, refused = played.blueprint, plan_programs(played), []
    for program in programs:
        state = HouseholdState(blueprint.household)
        for step in program["steps"]:
            if (why := try_plan_step(state, step)) is not None:
                refused.append(RefusedStep(program["program_id"], step["step_id"], why))
    names = {member.member_id: member.name for member in blueprint.household.members}
    return revision_message(programs, verdict, refused, names, blueprint.language)


async def ask_for_revision(played: PlayedTask, message: Message, agent: Policy) -> dict[str, Any] | None:
    """The agent's last words after a message about its plan, and how many calls it made; None if a server failed."""
    episode = Episode.from_situation(PersonalHomeSituation.begin(played.blueprint), LIMITS)
    for step in replay_steps(episode, played.trajectory):
        episode.apply_reply(reply_of_step(step))
    episode.outcome, episode.situation.answer = None, None  # type: ignore[attr-defined]  # open again for one more turn
    before = len(episode.steps)
    episode.add_utterance(message["content"])
    trajectory = await play(episode, agent, ScriptedUser())
    if not trajectory.outcome.is_counted:
        return None
    added = replace(trajectory, steps=trajectory.steps[before:])
    return {"text": final_words(added), "tool_calls": added.tool_calls}


def revision_key(played: PlayedTask, message: Message, agent: str) -> str:
    """A hash of all that a revision depends on."""
    # Tasks with tools have equal prompts, so the household must be in the hash.
    household = household_digest(played.blueprint.household)
    said = json.dumps([agent, *played.key, household, played.trajectory.messages, message["content"]], ensure_ascii=False)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


async def revise_run_plans(
    run: RunResults, agent: Policy, verdicts: VerdictStore, by: str, kept: VerdictStore, progress: Callable[[int, int], None]
) -> int:
    """Ask for each revision that is not kept; return how many are missing still."""
    told = [
        (played, message, revision_key(played, message, agent.name)) for played, message in _tell_plans(run, verdicts, by)
    ]
    todo = [each for each in told if each[2] not in kept.rows]
    gate, done, failed = asyncio.Semaphore(AT_ONCE), 0, 0

    async def revise(played: PlayedTask, message: Message, key: str) -> None:
        nonlocal done, failed
        async with gate:
            found = await ask_for_revision(played, message, agent)
        if found is None:
            failed += 1
        else:
            kept.add_row({"key": key, "by": agent.name, "about": played.about, **found})
        done += 1
        progress(done, len(todo))

    await asyncio.gather(*(revise(*each) for each in todo))
    return failed


def _tell_plans(run: RunResults, verdicts: VerdictStore, by: str) -> Iterator[tuple[PlayedTask, Message]]:
    """Each plan of a run, with the message about it."""
    for played in run.played_tasks(("plans",)):
        yield played, plan_feedback_message(played, plan_verdict(played, verdicts, by) or None)


def pair_revised_plans(
    run: RunResults, verdicts: VerdictStore, by: str, kept: VerdictStore
) -> Iterator[tuple[PlayedTask, PlayedTask]]:
    """Each task whose plan was revised: as it was, and with the revision as its last words."""
    agents = {row["by"] for row in kept.rows.values()}
    for played, message in _tell_plans(run, verdicts, by):
        for agent in sorted(agents):
            if (found := kept.rows.get(revision_key(played, message, agent))) is not None:
                yield played, replace(played, text=found["text"])
                break


def revision_rating_questions(run: RunResults, verdicts: VerdictStore, by: str, kept: VerdictStore) -> list[JudgeQuestion]:
    """What the judge is asked about the revised plans."""
    asked = (plan_rating_question(after, plan_programs(after)) for _, after in pair_revised_plans(run, verdicts, by, kept))
    return [question for question in asked if question is not None]


def compute_reflection_figures(run: RunResults, verdicts: VerdictStore, by: str, kept: VerdictStore) -> ReflectionFigures:
    """The figures of plans before and after, of those plans that were revised and rated both times."""
    both = list(pair_revised_plans(run, verdicts, by, kept))
    sides = []
    rated = [[plan_verdict(played, verdicts, by) for played in pair] for pair in both]
    whole = [at for at, pair in enumerate(rated) if None not in pair]
    for side in (0, 1):
        metrics = [answer_metrics(both[at][side].blueprint, both[at][side].text) for at in whole]
        sides.append(plan_figures(metrics) | rating_figures([rated[at][side] or {} for at in whole]))
    return ReflectionFigures(sides[0], sides[1], sum(1 for _ in run.played_tasks(("plans",))) - len(whole))
