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
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, Intent, turns_needed
from homerl.envs.homeenv.tasks.situation import home_situation_of, writer_of
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Oracle, play
from homerl.play.situation import Reply
from homerl.play.trajectory import Trajectory
from homerl.play.words.answer_rules import Answer
from homerl.worlds.registry import begin_episode
from homerl.worlds.users.user_factory import ScriptedUser

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
        turns = turns_needed(self.blueprint)
        calls = sum(count_reference_calls(intent) for intent in self.blueprint.intents) + SPARE_CALLS
        messages = turns + calls
        return EpisodeLimits(turns, messages, messages, 0, None if setting == "dr" else calls)


def count_reference_calls(intent: Intent) -> int:
    """The number of tool calls of the reference: one for each service call, automation, and device that is read."""
    return len(intent.plan) + (intent.automation is not None) + len({did for did, _ in intent.reads})


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
        reference = play_once(instance, setting, Expert())
        if not (reference.success and reference.is_valid):
            yield f"the reference fails ({setting})"
    if play_once(instance, "eia", ScriptedAgent(say_done)).success:
        yield "doing nothing succeeds"
    if any(play_once(instance, "eia", ScriptedAgent(wrong)).success for wrong in near_miss_agents(instance)):
        yield "a near miss succeeds"
    if side_effect_succeeds(instance):
        yield "changing something else succeeds"


def play_once(instance: HomeInstance, setting: Setting, agent: Oracle) -> Trajectory:
    """The trajectory of an agent that plays the instance with a scripted user."""
    episode = begin_episode(instance.blueprint_for(setting), instance.limits_for(setting))
    return asyncio.run(play(episode, agent, ScriptedUser()))


def say_done(episode: Episode) -> Message:
    """The agent that does nothing: it always says that all is done."""
    return writer_of(episode).write_reply("Done.")


def near_miss_agents(instance: HomeInstance) -> Iterator[Callable[[Episode], Message]]:
    """Agents with one mistake: a wrong device or value, one device missing, no condition or question, or a wrong answer."""
    (intent,) = instance.blueprint.intents[-1:]
    rng = random.Random(instance.id)
    calls = list(intent.automation.actions if intent.automation else intent.plan)
    if calls:
        yield act_once(lambda episode: writer_of(episode).write_calls(calls_on_other_device(calls, episode, rng)))
    if calls and (changed := calls_with_other_value(calls, rng)):
        yield act_once(lambda episode: writer_of(episode).write_calls(changed))
    if len({call.did for call in calls}) > 1:
        rest = [call for call in calls if call.did != calls[-1].did]
        yield act_once(lambda episode: writer_of(episode).write_calls(rest))
    if intent.automation or intent.clarify:
        yield act_once(lambda episode: writer_of(episode).write_calls(calls))
    if (answer := intent.answer) is not None:
        yield lambda episode: writer_of(episode).write_reply(wrong_answer_to(answer))


def act_once(act: Callable[[Episode], Message]) -> Callable[[Episode], Message]:
    """An agent that acts in its first message, and afterwards says that all is done."""
    return lambda episode: say_done(episode) if any(m.get("tool_calls") for m in episode.messages) else act(episode)


def calls_on_other_device(calls: Sequence[Call], episode: Episode, rng: random.Random) -> list[Call]:
    """The same calls on a device that the blueprint does not concern, of the same product if possible."""
    concerned = home_situation_of(episode).blueprint.changeable_devices | {call.did for call in calls}
    device = home_situation_of(episode).home.plan.devices_by_did[calls[-1].did]
    others = [d for d in home_situation_of(episode).home.plan.devices if d.did not in concerned]
    alike = [d for d in others if d.spec.spid == device.spec.spid] or others
    return [call.model_copy(update={"did": rng.choice(alike).did if alike else "0"}) for call in calls]


def calls_with_other_value(calls: Sequence[Call], rng: random.Random) -> list[Call] | None:
    """The same calls with a slightly different number in the last one; None if that has no number."""
    *first, last = calls
    value = last.args[-1] if last.args else None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return [*first, last.model_copy(update={"args": (*last.args[:-1], value + rng.choice((-5, -1, 1, 5)))})]


def wrong_answer_to(expected: Answer) -> str:
    """A wrong answer of the expected type."""
    match expected.type:
        case "number":
            number: Any = expected.value
            return str(number + 1 + expected.tolerance)
        case "boolean":
            return "No." if expected.value else "Yes."
        case _:
            return ", ".join(expected.distractors) or "I do not know."


def side_effect_succeeds(instance: HomeInstance) -> bool:
    """Whether an expert succeeds that first changes a device which the blueprint does not concern.

    A toolset may lack a tool for a change, so others are tried until one is made.
    """
    for plan in islice(_unconcerned(instance), STRAYS):
        played = play_once(instance, "eia", Meddler(plan))
        if played.steps[0].facts.changed:
            return played.success
    return False


def _unconcerned(instance: HomeInstance) -> Iterator[tuple[Call, ...]]:
    """Changes of devices that the blueprint does not concern, in random order."""
    found = actions(home_situation_of(begin_episode(instance.blueprint)).home, random.Random(instance.id))
    return (action.plan for action in found if action.device.did not in instance.blueprint.changeable_devices)


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
