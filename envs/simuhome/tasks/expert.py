"""The scripted agents of SimuHome: the expert, and three simple agents that no suite may reward.

All of them are oracles: they see the episode itself, not only what a policy observes. The expert also knows the goals
and the state of the home.

Invariants:
- Candidate messages are a pure function of seed and dialogue.
- With `mistakes` 0 every call of the expert is accepted, and it succeeds.
- The expert reads what an agent must know before it acts or answers, unless it is `minimal`.
- The other agents do not look at the goals, except that `refuses-rightly` knows the reply of an infeasible episode.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from homerl.envs.core.messages import Message, call_message, tool_call
from homerl.envs.core.world import action_arguments
from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import tools
from homerl.envs.simuhome.sim.air import WATCHED
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT, EpisodeFile, GoalSpec
from homerl.envs.simuhome.sim.home import MatterHome
from homerl.envs.simuhome.sim.reference_solution import (
    Action,
    asserts_by_device,
    moving_calls,
    seconds_until,
    seconds_until_taken,
    solution_calls,
)
from homerl.envs.simuhome.tasks.blueprint import SimuHomeBlueprint
from homerl.envs.simuhome.tasks.situation import MAX_POLLS, SimuHomeSituation, poll_seconds, simuhome_situation
from homerl.play.episode import Episode
from homerl.play.loop import draw_candidates
from homerl.play.situation import Reply
from homerl.play.tool_call_parser import tool_calls_of

READ_TOOLS = ("get_attribute", "get_all_attributes")
ACTS = ("execute_command", "write_attribute")


def expert_plan(
    file: EpisodeFile, home: MatterHome, reply: str, minimal: bool = False, sweeping: bool = False
) -> list[list[Action]]:
    """The calls of a flawless agent, in parts: reads, calls that act, and the final answer.

    A feasible and an infeasible request of the same type begin with the same calls, up to the read that shows which of
    the two it is. Otherwise a policy that learns from the expert could tell the case from its own calls.

    Args:
        file: The episode.
        home: Its home at the start.
        reply: The final answer.
        minimal: Leave out the reads that only prepare a call. Calls may then rest on values that the agent never saw.
        sweeping: Make every call in a room that may help, in place of the fewest that are enough.
    """
    seen = file.eval.required_calls
    reads = [] if minimal and file.is_decided_by_rule else [look for look in _needed_reads(file, home) if look not in seen]
    acts: list[Action] = []
    if file.meta.query_type == "qt2" and file.is_decided_by_rule:
        for goal in file.eval.goals:
            helping = moving_calls(home, goal.room_id, goal.room_state, goal.direction)
            acts += helping if sweeping else _fewest_of_calls(helping, goal, home)
    elif file.is_decided_by_rule:
        acts = [act for act in solution_calls(file, home) if act["name"] != "finish" and act not in seen]
    looked = [reads, seen] if any(goal.when for goal in file.eval.goals) else [seen, reads]
    parts: list[list[Action]] = [*looked, []]
    for act in acts:  # a vacuum that was sent home takes no new task before it has come home
        if act.get("cluster_id") == "RVCRunMode" and any(one.get("command_id") == "GoHome" for one in parts[-1]):
            parts.append([])
        parts[-1].append(act)
    return [*parts, [{"name": "finish", "answer": reply}]]


def _fewest_of_calls(acts: list[Action], goal: GoalSpec, home: MatterHome) -> list[Action]:
    """The fewest of these calls, all to one device, that move a goal's variable; all of them if no device is enough."""
    by_device = [list(group) for _, group in groupby(acts, key=lambda act: act["device_id"])]
    untouched = evaluate.final_state(home)
    for group in sorted(by_device, key=len):
        twin = home.fork()
        for act in group:
            tools.call_tool(twin, act["name"], action_arguments(act))
        if evaluate.has_variable_moved(goal, evaluate.final_state(twin), untouched):
            return group
    return acts


def _needed_reads(file: EpisodeFile, home: MatterHome) -> list[Action]:
    """The reads that an agent needs in order to answer, or to know what to do, each once."""
    reads: list[Action] = []
    for goal in file.eval.goals:
        if goal.device_id in home.plan.devices and goal.asked_attribute:
            reads.append(_attribute_read(goal.device_id, *goal.asked_attribute.split(".")))
        if goal.when:
            reads.append({"name": "get_current_time"})
            if goal.anchor:
                reads.append(_attribute_read(goal.anchor["device_id"], "1", "OperationalState", "CountdownTime"))
        elif goal.direction:
            movers = (d for d in home.plan.devices_by_room.get(goal.room_id, ()) if d.type.name in WATCHED[goal.room_state])
            reads += [{"name": "get_all_attributes", "device_id": device.id} for device in movers]
    return [act for index, act in enumerate(reads) if act not in reads[:index]]


def _attribute_read(device_id: str, endpoint: str, cluster: str, attribute: str) -> Action:
    place = {"device_id": device_id, "endpoint_id": int(endpoint), "cluster_id": cluster}
    return {"name": "get_attribute", **place, "attribute_id": attribute}


def _waiting_call(situation: SimuHomeSituation, act: Action, last: Action) -> Action | None:
    """The call that lets time pass before `act`, where QT3 needs that something has ended; None if nothing is waited for.

    Time passes only while the agent asks for the status of a workflow again. So the first such call registers a workflow,
    due long after the end of the episode, that would repeat the `last` call. Of several workflows, the agent asks for the
    one that makes the most of the time that is left.
    """
    file, home, polls = situation.file, situation.home, situation.polls
    left = None  # the seconds after which `act` is taken, or after which `finish` meets the goals
    if file.is_decided_by_rule and file.meta.query_type == "qt3":
        if act["name"] in ACTS:
            left = seconds_until_taken(home, act)
        elif act["name"] == "finish":
            left = seconds_until(home, asserts_by_device(file.eval.goals))
    if not left:
        return None
    waits = [(poll_seconds(polls[flow.id] + 1), flow.id) for flow in home.workflows if polls[flow.id] < MAX_POLLS]
    if fitting := [wait for wait in waits if wait[0] <= left]:
        return {"name": "get_workflow_status", "workflow_id": max(fitting, key=lambda wait: wait[0])[1]}
    at = home.plan.base_time + timedelta(seconds=home.elapsed_seconds, hours=1)
    steps = [{"tool": last["name"], "args": action_arguments(last)}]
    return {"name": "schedule_workflow", "start_time": at.strftime(TIME_FORMAT), "steps": steps}


def acting_message(*acts: Action) -> Message:
    """An agent's message that makes these calls, which are given as actions of the world."""
    calls = [tool_call(act["name"], action_arguments(act), f"call_{i}") for i, act in enumerate(acts)]
    return call_message(*calls)


def actions_in_messages(messages: Sequence[Message]) -> list[Action]:
    """The calls in a dialogue, in order. What cannot be read as arguments counts as none."""
    return [{**call.arguments, "name": call.name} for message in messages for call in tool_calls_of(message)]


class SimuHomeExpert:
    """An oracle that follows `expert_plan`.

    With style `snippet` it makes all calls of a part in one message. With style `stepwise` it makes one call per
    message, but reads of attributes still come together. Style `sweeping` is drawn for a whole episode: it makes every
    call that may help. `mistakes` is the probability that a candidate is wrong.
    """

    name = "expert"

    def __init__(
        self, seed: int = 0, mistakes: float = 0.0, styles: Mapping[Any, float] = {"stepwise": 1.0}, minimal: bool = False
    ) -> None:
        self.seed, self.mistakes, self.styles, self.minimal = seed, mistakes, styles, minimal
        self._known: tuple[Any, ...] = ()

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """`n` candidates for the next message."""
        replies = []
        for message in draw_candidates(self._draw_message, episode, n, self.seed):
            is_cut = not message.get("tool_calls") and message["content"].startswith("{")
            replies.append(Reply(message, "the tool call is not the JSON asked for" if is_cut else None))
        return replies

    def _draw_message(self, episode: Episode, rng: random.Random) -> Message:
        situation = simuhome_situation(episode)
        parts, made = self._plan_for(situation), actions_in_messages(episode.messages)
        rest = next((left for part in parts if (left := [act for act in part if act not in made])), parts[-1])
        acts = [act for part in parts for act in part if act["name"] in ACTS]  # none where only workflows are scheduled
        if acts and (asked := _waiting_call(situation, rest[0], acts[-1])):
            rest = [asked]
        if rng.random() < self.mistakes:
            return _mistaken_message(rng.choice(MISTAKES), rest, situation.home, rng)
        style = self._draw_style(rng)
        return acting_message(*(rest[:1] if style == "stepwise" and rest[0]["name"] not in READ_TOOLS else rest))

    def _draw_style(self, rng: random.Random) -> str:
        return str(rng.choices(list(self.styles), list(self.styles.values()))[0])

    def _plan_for(self, situation: SimuHomeSituation) -> list[list[Action]]:
        if not self._known or self._known[0] is not situation.file:
            reply = situation.blueprint.intents[0].reply
            sweeping = self._draw_style(random.Random(f"style {self.seed} {situation.blueprint.id}")) == "sweeping"
            self._known = situation.file, expert_plan(situation.file, situation.start, reply, self.minimal, sweeping)
        plan: list[list[Action]] = self._known[1]
        return plan


class ExpertWithoutLastAct(SimuHomeExpert):
    """The expert, but it leaves out the last call of its plan that acts. A plan without such a call is followed as it is."""

    name = "without-last-act"

    def _plan_for(self, situation: SimuHomeSituation) -> list[list[Action]]:
        *parts, finish = super()._plan_for(situation)
        acting = [at for at, part in enumerate(parts) if part and part[-1]["name"] in (*ACTS, "schedule_workflow")]
        rest = [part[:-1] if at == max(acting, default=None) else part for at, part in enumerate(parts)]
        return [*filter(None, rest), finish]


MISTAKES = ("another device", "another value", "a call left out", "finished too soon", "a call that is cut off")


def _mistaken_message(mistake: str, rest: list[Action], home: MatterHome, rng: random.Random) -> Message:
    """A message that makes one of the `MISTAKES` in place of the first call of `rest`.

    A call without a value gets another device instead, and a call without a device is replaced by `finish`.
    """
    act = rest[0]
    if mistake == "a call that is cut off":
        return {"role": "assistant", "content": json.dumps(act, ensure_ascii=False)[:-1]}
    if mistake == "a call left out":
        return acting_message(rest[1] if len(rest) > 1 else act)
    if mistake == "another value":
        if isinstance(act.get("value"), int):
            return acting_message({**act, "value": act["value"] + rng.choice((-10, 10, 500))})
        numbers = {key: old + rng.choice((-5, 5, 500)) for key, old in act.get("args", {}).items() if type(old) is int}
        if numbers:
            return acting_message({**act, "args": {**act["args"], **numbers}})
    if mistake != "finished too soon" and "device_id" in act:
        others = [name for name in home.plan.devices if name != act["device_id"]]
        return acting_message({**act, "device_id": rng.choice(others)})
    return acting_message({"name": "finish", "answer": "Done."})


class FixedAnswerAgent:
    """Makes the required actions, then finishes with the same answer in every episode, or with one for its blueprint.

    With `looks_first=False` it finishes at once.
    """

    def __init__(self, name: str, answer: str | Callable[[SimuHomeBlueprint], str], looks_first: bool = True) -> None:
        self.name, self.answer, self.looks_first = name, answer, looks_first

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """The next required action, or `finish`."""
        situation, done = simuhome_situation(episode), actions_in_messages(episode.messages)
        wanted = situation.file.eval.required_calls if self.looks_first else []
        words = self.answer if isinstance(self.answer, str) else self.answer(situation.blueprint)
        finish = {"name": "finish", "answer": words}
        return [Reply(acting_message(next((act for act in wanted if act not in done), finish)))]


REFUSAL = (
    "Sorry, I cannot do that: there is no such device, everything is already at its limit, or the times that you named "
    "conflict with one another. I changed nothing."
)


def refuse_rightly(blueprint: SimuHomeBlueprint) -> str:
    """A refusal, which has the correct reason in an infeasible episode."""
    (intent,) = blueprint.intents
    return intent.reply if intent.subcategory == "infeasible" else REFUSAL


BASELINES: dict[str, Callable[[], Any]] = {
    "expert": SimuHomeExpert,
    "nothing": lambda: FixedAnswerAgent("nothing", "Done."),
    "refuses": lambda: FixedAnswerAgent("refuses", REFUSAL),
    "refuses-rightly": lambda: FixedAnswerAgent("refuses-rightly", refuse_rightly),
}
