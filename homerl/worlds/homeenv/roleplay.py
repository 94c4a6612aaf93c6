"""M1, the paper's baseline: a role-play in text alone, without blueprint and without a home (HomeFlow 4.3.1, D.1).

One model plays person, assistant and what the tools answer; then it judges the dialogue, as HomeFlow filters its own
(an LLM keeps what looks right). What is kept was never checked in a home; we also play its calls in the household's home
and count how many would have held: no refusal, no error, the answers that the home gives.

Invariants: no party sees goals, since there are none; the row's messages are the imagined ones, its steps what a home
makes of them; its blueprint asks for the state in which that home ends, so Φ says what was done, not what was wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from envs.documents import read_yaml, validate
from envs.homeenv.home import Home
from envs.messages import Message
from envs.model import Model
from homerl.flow.mcts import TreeStats
from homerl.flow.tree import valid
from homerl.llm.structured import StructuredClient, Unreadable
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Policy
from homerl.play.observation import Observation
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome, Trajectory
from homerl.users.manner import manner
from homerl.worlds.homeenv.blueprints.blueprint import Blueprint, Factors, Intent
from homerl.worlds.homeenv.messages import label
from homerl.worlds.registry import begin

WISHES = 3  # that a person may have at the most


class Parts(Model):
    """The file of prompts."""

    user: str
    home: str
    judge: str
    nothing: str


class Line(Model):
    """What the person says; or that it stops."""

    say: str
    stop: bool


class Printed(Model):
    """What a tool prints."""

    output: str


class Judgement(Model):
    """Whether a dialogue is kept."""

    keep: bool
    fault: Literal["none", "unclear_wish", "wrong_call", "wrong_tool_answer", "untrue_words", "unfinished"]


@cache
def parts() -> Parts:
    return validate(Parts, read_yaml(Path(__file__).with_name("roleplay.yaml")))


@dataclass
class Imagined:
    """A dialogue with no home behind it, which a policy observes like an episode's."""

    blueprint: Blueprint
    messages: list[Message]
    tools: tuple[Mapping[str, Any], ...]
    replies: list[Reply] = field(default_factory=list)

    @property
    def observation(self) -> Observation:
        return Observation(self.blueprint.id, tuple(self.messages), self.tools, self.blueprint.one_answer)

    @property
    def text(self) -> str:
        """As it is told to the other parts."""
        return "\n".join(map(_told, self.messages[1:])) or parts().nothing


async def role_play(
    household: Blueprint, agent: Policy, client: StructuredClient, limits: EpisodeLimits
) -> tuple[list[Trajectory], TreeStats]:
    """The dialogue of a household, if it is kept; the household's own intents are told to nobody."""
    start = begin(household, limits)
    imagined = Imagined(household, start.messages[:1], tuple(start.world.tools))
    stats = TreeStats(rollouts=1)
    try:
        await _talk(imagined, start.situation.home, agent, client, limits)
        judgement = await client.ask(parts().judge, imagined.text, Judgement, household.seed, temperature=0.0)
        stats.successes = int(judgement.keep and bool(imagined.replies))
    except Unreadable:
        stats.user_errors["unreadable"] = 1  # the model could not play its part: a failed generation
    stats.calls = stats.sampled = client.tally.requests + len(imagined.replies)
    stats.tokens = client.tally.tokens + sum(reply.prompt_tokens + reply.tokens for reply in imagined.replies)
    stats.calls_linear, stats.tokens_linear = stats.calls, stats.tokens
    stats.steps_run = stats.steps_linear = stats.nodes = len(imagined.replies)
    if not stats.successes:
        return [], stats
    trajectory, stats.grounded = grounded(imagined, limits, agent.name)
    return [trajectory], stats


async def _talk(imagined: Imagined, home: Home, agent: Policy, client: StructuredClient, limits: EpisodeLimits) -> None:
    """Person, assistant and tools in turn, until the person stops or a limit is reached."""
    made, told = imagined.blueprint, parts()
    listed = ", ".join(label(device) for device in home.plan.devices)
    user = told.user.format(
        language=manner(made.language).language, scene=made.scene, name=made.profile.name,
        age=made.profile.age, health=made.profile.health, habits=", ".join(made.profile.habits), wishes=WISHES,
        devices=", ".join(f"{device.room.name} {device.name}" for device in home.plan.devices),
    )  # fmt: skip
    for turn in range(limits.turns):
        line = await client.ask(user, imagined.text, Line, made.seed + turn)
        if line.stop or not line.say.strip():
            return
        imagined.messages.append({"role": "user", "content": " ".join(line.say.split())})
        for _ in range(min(limits.steps_per_turn, limits.steps - len(imagined.replies))):
            (reply, *_) = await agent.propose(imagined.observation)
            imagined.replies.append(reply)
            imagined.messages.append(reply.message)
            if not (calls := reply.message.get("tool_calls")) and not reply.malformed:
                break
            for call in calls or ():
                printed = await _printed(imagined, call, listed, client)
                imagined.messages.append({"role": "tool", "content": printed, "tool_call_id": call.get("id", "")})


async def _printed(imagined: Imagined, call: Mapping[str, Any], listed: str, client: StructuredClient) -> str:
    function = call["function"]
    text = f"{imagined.text}\n\nThe call: {function['name']} {function['arguments']}"
    seed = imagined.blueprint.seed + len(imagined.messages)
    return (await client.ask(parts().home.format(devices=listed), text, Printed, seed)).output


def _told(message: Message) -> str:
    calls = [f"[{call['function']['name']} {call['function']['arguments']}]" for call in message.get("tool_calls") or ()]
    return f"{message['role']}: {' '.join([message.get('content') or '', *calls]).strip()}"


def grounded(imagined: Imagined, limits: EpisodeLimits, name: str) -> tuple[Trajectory, int]:
    """The row's trajectory, and whether a home would have gone along: 1 if it would, else 0."""
    blueprint = read_off(imagined, limits)
    episode = replayed(blueprint, imagined, limits)
    seen = [observation for step in episode.steps for observation in step.observations]
    told = [message["content"] for message in imagined.messages if message["role"] == "tool"]
    agrees = valid(episode) and [text.strip() for text in seen] == [text.strip() for text in told]
    episode.outcome = Outcome.SUCCESS  # by the judge's word
    trajectory = episode.trajectory(f"role-play:{name}", f"role-play:{name}", blueprint.seed)
    return replace(trajectory, messages=tuple(imagined.messages)), int(agrees)


def replayed(blueprint: Blueprint, imagined: Imagined, limits: EpisodeLimits) -> Episode:
    """What a home makes of the same words and calls."""
    episode, replies = begin(blueprint, limits), iter(imagined.replies)
    for message in imagined.messages[1:]:
        if message["role"] == "user":
            episode.hear(message["content"], 1)
        elif message["role"] == "assistant":
            episode.act(next(replies))
    return episode


def read_off(imagined: Imagined, limits: EpisodeLimits) -> Blueprint:
    """The household with one intent: that what the dialogue changed be so; where it changed nothing, that it be as it is."""
    start = begin(imagined.blueprint, limits)
    end = replayed(imagined.blueprint, imagined, limits).situation.home
    slots = end.plan.slots
    changes = start.situation.home.diff(end)
    changed = [change.slot for change in changes if not getattr(slots[change.slot].type, "read_only", True)]
    kept = changed or [next(i for i, slot in enumerate(slots) if slot.owner in end.plan.by_did)]
    conditions = tuple(f'device("{slots[i].owner}").{slots[i].path} == {end.values[i]!r}' for i in kept)
    said = [message["content"] for message in imagined.messages if message["role"] == "user"]
    intent = Intent(
        id=1, family="role_play", subcategory="text", factors=Factors(), queries=tuple(dict.fromkeys(said)),
        clarification=said[0], conditions=conditions, devices=tuple(dict.fromkeys(slots[i].owner for i in kept)),
    )  # fmt: skip
    return imagined.blueprint.model_copy(update={"intents": (intent,), "memory": (), "history": (), "preserve": False})


__all__: Sequence[str] = ["Imagined", "grounded", "role_play"]
