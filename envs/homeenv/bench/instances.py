"""An instance of a suite: a blueprint, its category, and its limits.

Invariants: an instance does not depend on the agent or the setting; its limits follow from its blueprint alone.

The four checks that every instance must pass before it enters a suite.

1. The reference solution succeeds, in both settings. 2. An agent that does nothing fails. 3. A nearly right solution fails.
4. The reference solution with an additional change fails. Each check plays the instance through the loop that also scores
agents.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from homerl.envs.core.messages import Message
from homerl.envs.core.model import Model
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.envs.homeenv.sim.toolsets import ToolsetName
from homerl.envs.homeenv.tasks.actions import actions
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, turns_needed
from homerl.envs.homeenv.tasks.situation import home_situation_of, writer_of
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Oracle, play
from homerl.play.situation import Reply
from homerl.play.trajectory import Trajectory
from homerl.play.words.answer_rules import Answer
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

Setting = Literal["eia", "dr"]
Size = Literal["simple", "medium", "complex"]
SPARE_CALLS = 10  # tool calls beyond those of the reference (SMH-Bench allows 10 in total)


class HomeInstance(Model):
    """One task of a suite.

    `category` is QT1 to QT5 (SmartHome-Bench) or TC1 to TC7 (SMH-Bench). `toolset` is used in the setting EIA.
    """

    id: str
    category: str
    subcategory: str
    size: Size
    toolset: ToolsetName
    blueprint: Blueprint

    def blueprint_for(self, setting: Setting) -> Blueprint:
        """The blueprint with the toolset of the setting. In DR the prompt is full, since it is all that the agent gets."""
        played = {"toolset": "direct", "prompt": "full"} if setting == "dr" else {"toolset": self.toolset}
        return self.blueprint.model_copy(update=played | {"id": self.id})

    def limits_for(self, setting: Setting) -> EpisodeLimits:
        """The limits of an episode.

        Each intent has one turn, and a second one if a clarifying question is needed or allowed. In EIA, the number of tool
        calls is limited too.
        """
        turns, calls = turns_needed(self.blueprint), SPARE_CALLS
        for intent in self.blueprint.intents:  # one for each service call, automation, and device that is read
            calls += len(intent.plan) + (intent.automation is not None) + len({did for did, _ in intent.reads})
        messages = turns + calls
        return EpisodeLimits(turns, messages, messages, 0, None if setting == "dr" else calls)


def instance_recipe(home: HomeRecipe, family: str, subcategory: str, toolset: ToolsetName) -> BlueprintRecipe:
    """The blueprint recipe of an instance: one wish of a query type, in a held-out frame."""
    return BlueprintRecipe(
        home=home,
        intents=(1, 1),
        families={f"{family}/{subcategory}": 1.0},
        devices=(2, 4),
        phrasings=1,
        frames="heldout",
        toolset=toolset,
        prompt="full",
    )


SETTINGS: tuple[Setting, ...] = ("eia", "dr")
STRAYS = 20  # changes that are tried until the toolset can make one


class ScriptedAgent:
    """An agent whose messages are a function of the episode."""

    name = "scripted"

    def __init__(self, answer: Callable[[Episode], Message]) -> None:
        self.answer = answer

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """The one message of the function."""
        return [Reply(self.answer(episode))]


def first_flaw(instance: HomeInstance) -> str | None:
    """The first reason why an instance is not valid, or None."""
    return next(find_instance_flaws(instance), None)


def find_instance_flaws(instance: HomeInstance) -> Iterator[str]:
    """All reasons why an instance is not valid."""
    for setting in SETTINGS:
        reference = _play_once(instance, setting, Expert())
        if not (reference.success and reference.is_valid):
            yield f"the reference fails ({setting})"
    if _play_once(instance, "eia", ScriptedAgent(_say_done)).success:
        yield "doing nothing succeeds"
    if any(_play_once(instance, "eia", ScriptedAgent(wrong)).success for wrong in _near_miss_agents(instance)):
        yield "a near miss succeeds"
    # A toolset may lack a tool for a change, so others are tried until one is made.
    found = actions(home_situation_of(begin_episode(instance.blueprint)).home, random.Random(instance.id))
    strays = (action.plan for action in found if action.device.did not in instance.blueprint.changeable_devices)
    played = (_play_once(instance, "eia", Meddler(plan)) for plan in islice(strays, STRAYS))
    if (meddled := next((one for one in played if one.steps[0].facts.changed), None)) and meddled.success:
        yield "changing something else succeeds"


def _play_once(instance: HomeInstance, setting: Setting, agent: Oracle) -> Trajectory:
    """The trajectory of an agent that plays the instance with a scripted user."""
    episode = begin_episode(instance.blueprint_for(setting), instance.limits_for(setting))
    return asyncio.run(play(episode, agent, ScriptedUser()))


def _say_done(episode: Episode) -> Message:
    """The agent that does nothing: it always says that all is done."""
    return writer_of(episode).write_reply("Done.")


def _near_miss_agents(instance: HomeInstance) -> Iterator[Callable[[Episode], Message]]:
    """Agents with one mistake: a wrong device or value, one device missing, no condition or question, or a wrong answer."""
    (intent,) = instance.blueprint.intents[-1:]
    rng = random.Random(instance.id)
    calls = list(intent.automation.actions if intent.automation else intent.plan)
    if calls:
        yield _agent_that_calls(lambda episode: _calls_on_other_device(calls, episode, rng))
        *first, last = calls
        value = last.args[-1] if last.args else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            other = last.model_copy(update={"args": (*last.args[:-1], value + rng.choice((-5, -1, 1, 5)))})
            yield _agent_that_calls(lambda episode: [*first, other])
    if len({call.did for call in calls}) > 1:
        rest = [call for call in calls if call.did != calls[-1].did]
        yield _agent_that_calls(lambda episode: rest)
    if intent.automation or intent.clarify:
        yield _agent_that_calls(lambda episode: calls)
    if (answer := intent.answer) is not None:
        yield lambda episode: writer_of(episode).write_reply(_wrong_answer_to(answer))


def _agent_that_calls(calls: Callable[[Episode], Sequence[Call]]) -> Callable[[Episode], Message]:
    """An agent that makes these calls in its first message, and afterwards says that all is done."""

    def answer(episode: Episode) -> Message:
        if any(message.get("tool_calls") for message in episode.messages):
            return _say_done(episode)
        return writer_of(episode).write_calls(calls(episode))

    return answer


def _calls_on_other_device(calls: Sequence[Call], episode: Episode, rng: random.Random) -> list[Call]:
    """The same calls on a device that the blueprint does not concern, of the same product if possible."""
    situation = home_situation_of(episode)
    concerned = situation.blueprint.changeable_devices | {call.did for call in calls}
    device = situation.home.plan.devices_by_did[calls[-1].did]
    others = [d for d in situation.home.plan.devices if d.did not in concerned]
    alike = [d for d in others if d.spec.spid == device.spec.spid] or others
    return [call.model_copy(update={"did": rng.choice(alike).did if alike else "0"}) for call in calls]


def _wrong_answer_to(expected: Answer) -> str:
    """A wrong answer of the expected type."""
    match expected.type:
        case "number":
            number: Any = expected.value
            return str(number + 1 + expected.tolerance)
        case "boolean":
            return "No." if expected.value else "Yes."
        case _:
            return ", ".join(expected.distractors) or "I do not know."


class Meddler(Expert):
    """An expert that makes the calls `first` before it follows the plan."""

    def __init__(self, first: Sequence[Call]) -> None:
        super().__init__()
        self.first = first

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """The calls `first` in the first message, then the expert's."""
        if not any(message.get("tool_calls") for message in episode.messages):
            return [Reply(writer_of(episode).write_calls(self.first))]
        return await super().consult(episode, n)
