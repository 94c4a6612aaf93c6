"""Strategy m1, the paper's baseline: a role-play in text alone, without a blueprint or a home (HomeFlow 4.3.1, D.1).

An LLM plays the person and the tools, and the policy plays the assistant. Then the LLM judges the dialogue, as HomeFlow
filters its own dialogues. No home has checked the dialogues that are kept. To measure this, the calls of each kept dialogue
are replayed in the household's home, and `TreeStats.grounded` counts the dialogues that the home confirms: no refusal, no
error, and observations equal to the imagined ones.

Invariants:
- No role sees goals, because there are none.
- A row has the imagined messages, and the steps of the replay.
- Its blueprint has the final state of the replay as its goal, so Φ describes what was done and not what was wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.messages import Message
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Factors, Intent, turns_needed
from homerl.envs.homeenv.tasks.prompts import device_label
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.models.endpoint.structured_answers import StructuredClient, UnreadableAnswer
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Policy
from homerl.play.ordered_async_work import run_beside_loop
from homerl.play.situation import Observation, Reply
from homerl.play.spoken_words import spoken_words_of
from homerl.play.trajectory import Outcome, Trajectory
from homerl.play.words.user_manner import load_manner
from homerl.worlds.contract import TreeStats
from homerl.worlds.registry import begin_episode

WISHES = 3  # the largest number for one person


class RolePlayPrompts(Model):
    """The prompts of the roles (`roleplay.yaml`); `nothing` stands for an empty dialogue."""

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
def role_play_prompts() -> RolePlayPrompts:
    """The prompts, read once."""
    return validate_document(RolePlayPrompts, read_yaml(Path(__file__).with_name("roleplay.yaml")))


@dataclass
class ImaginedDialogue:
    """A dialogue without a home. A policy observes it like the dialogue of an episode."""

    blueprint: Blueprint
    messages: list[Message]
    tools: tuple[Mapping[str, Any], ...]
    replies: list[Reply] = field(default_factory=list)

    @property
    def policy_observation(self) -> Observation:
        """What the policy sees: messages and tools."""
        of = self.blueprint
        return Observation(of.id, tuple(self.messages), self.tools, of.one_answer, seed=of.seed)

    @property
    def dialogue_transcript(self) -> str:
        """The dialogue as text, for the other roles; without the system prompt."""
        lines = []
        for message in self.messages[1:]:
            functions = [call["function"] for call in message.get("tool_calls") or ()]
            calls = [f"[{function['name']} {function['arguments']}]" for function in functions]
            said = spoken_words_of(message).text if message["role"] == "assistant" else message.get("content") or ""
            lines.append(f"{message['role']}: {' '.join([said, *calls]).strip()}")
        return "\n".join(lines) or role_play_prompts().nothing


async def role_play(
    household: Blueprint, agent: Policy, client: StructuredClient, limits: EpisodeLimits
) -> tuple[list[Trajectory], TreeStats]:
    """Play one dialogue in a household; return the trajectory if the judge keeps it, and the statistics.

    No role sees the household's own intents. A model whose answers cannot be parsed counts as a user error, not as a fault
    of the infrastructure.
    """
    start = begin_episode(household, limits)
    imagined = ImaginedDialogue(household, start.messages[:1], tuple(start.world.tools))
    stats = TreeStats(rollouts=1)
    try:
        await _hold_dialogue(imagined, home_situation_of(start).home, agent, client, limits)
        transcript = imagined.dialogue_transcript
        judgement = await client.ask(role_play_prompts().judge, transcript, Judgement, household.seed, temperature=0.0)
        stats.successes = int(judgement.keep and bool(imagined.replies))
    except UnreadableAnswer:
        stats.user_errors["unreadable"] = 1  # the model could not play its role
    stats.calls = stats.sampled = client.tally.requests + len(imagined.replies)
    stats.tokens = client.tally.tokens + sum(reply.prompt_tokens + reply.tokens for reply in imagined.replies)
    # A dialogue is a tree of one branch, so what it would have taken without a search is the same.
    stats.calls_linear, stats.tokens_linear = stats.calls, stats.tokens
    stats.steps_run = stats.steps_linear = stats.nodes = len(imagined.replies)
    if not stats.successes:
        return [], stats
    trajectory, stats.grounded = await run_beside_loop(partial(ground_dialogue, imagined, limits, agent.name))
    return [trajectory], stats


async def _hold_dialogue(
    imagined: ImaginedDialogue, home: Home, agent: Policy, client: StructuredClient, limits: EpisodeLimits
) -> None:
    """Let the person, the policy and the tools speak in turn, until the person stops or a limit is reached."""
    made, told = imagined.blueprint, role_play_prompts()
    listed = ", ".join(device_label(device) for device in home.plan.devices)
    user = told.user.format(
        language=load_manner(made.language).language,
        scene=made.scene,
        name=made.profile.name,
        age=made.profile.age,
        health=made.profile.health,
        habits=", ".join(made.profile.habits),
        wishes=WISHES,
        devices=", ".join(f"{device.room.name} {device.name}" for device in home.plan.devices),
    )
    for turn in range(limits.turns or max(1, turns_needed(made))):
        line = await client.ask(user, imagined.dialogue_transcript, Line, made.seed + turn)
        if line.stop or not line.say.strip():
            return
        imagined.messages.append({"role": "user", "content": " ".join(line.say.split())})
        for _ in range(min(limits.steps_per_turn, limits.steps - len(imagined.replies))):
            (reply, *_) = await agent.propose(imagined.policy_observation)
            imagined.replies.append(reply)
            imagined.messages.append(reply.message)
            if not (calls := reply.message.get("tool_calls")) and not reply.malformed:
                break
            for call in calls or ():
                function, seed = call["function"], made.seed + len(imagined.messages)
                text = f"{imagined.dialogue_transcript}\n\nThe call: {function['name']} {function['arguments']}"
                printed = (await client.ask(told.home.format(devices=listed), text, Printed, seed)).output
                imagined.messages.append({"role": "tool", "content": printed, "tool_call_id": call.get("id", "")})


def ground_dialogue(imagined: ImaginedDialogue, limits: EpisodeLimits, name: str) -> tuple[Trajectory, int]:
    """Replay a dialogue in the home; return (its trajectory, 1 if the home confirms the dialogue, else 0).

    The home confirms a dialogue if no call is refused or fails, and each tool message equals the home's observation.
    """
    blueprint = blueprint_of_dialogue(imagined, limits)
    episode = replay_dialogue(blueprint, imagined, limits)
    seen = [observation for step in episode.steps for observation in step.observations]
    told = [message["content"] for message in imagined.messages if message["role"] == "tool"]
    agrees = episode.is_valid and [text.strip() for text in seen] == [text.strip() for text in told]
    episode.outcome = Outcome.SUCCESS  # the judge kept it
    trajectory = episode.to_trajectory(f"role-play:{name}", f"role-play:{name}", blueprint.seed)
    return replace(trajectory, messages=tuple(imagined.messages)), int(agrees)


def replay_dialogue(blueprint: Blueprint, imagined: ImaginedDialogue, limits: EpisodeLimits) -> Episode:
    """The episode that results if the same words and calls are played in the home."""
    episode, replies = begin_episode(blueprint, limits), iter(imagined.replies)
    for message in imagined.messages[1:]:
        if message["role"] == "user":
            episode.add_utterance(message["content"], 1)
        elif message["role"] == "assistant":
            episode.apply_reply(next(replies))
    return episode


def blueprint_of_dialogue(imagined: ImaginedDialogue, limits: EpisodeLimits) -> Blueprint:
    """The household's blueprint with one intent: the state that the dialogue leaves behind.

    If the dialogue changed nothing, the intent asks that one attribute keeps its value.
    """
    start = begin_episode(imagined.blueprint, limits)
    end = home_situation_of(replay_dialogue(imagined.blueprint, imagined, limits)).home
    slots = end.plan.slots
    changes = home_situation_of(start).home.diff(end)
    changed = [change.slot for change in changes if not getattr(slots[change.slot].type, "read_only", True)]
    kept = changed or [next(i for i, slot in enumerate(slots) if slot.owner in end.plan.devices_by_did)]
    conditions = tuple(f'device("{slots[i].owner}").{slots[i].path} == {end.values[i]!r}' for i in kept)
    said = [message["content"] for message in imagined.messages if message["role"] == "user"]
    intent = Intent(
        id=1,
        family="role_play",
        subcategory="text",
        factors=Factors(),
        queries=tuple(dict.fromkeys(said)),
        clarification=said[0],
        conditions=conditions,
        devices=tuple(dict.fromkeys(slots[i].owner for i in kept)),
    )
    return imagined.blueprint.model_copy(update={"intents": (intent,), "memory": (), "history": (), "preserve": False})
