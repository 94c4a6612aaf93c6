"""The loop of agent, user and world (HomeFlow 3.4.2). Synthesis, RL and evaluation all use it.

Invariants: a trajectory has exactly one outcome; a fault of the user, the world or a server never counts against the
agent; a policy never receives the episode. The candidate messages of a scripted agent depend on its seed and the dialogue
only, and no two of them are equal.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from homerl.envs.core.messages import Message
from homerl.play.episode import Episode
from homerl.play.faults import EPISODE_ERRORS, Boundary, DialogueTooLong, Fault, RequestRefused, fault_from_error
from homerl.play.situation import Observation, Reply, Utterance
from homerl.play.tool_call_parser import parse_json_answer
from homerl.play.trajectory import Trajectory


@runtime_checkable
class Policy(Protocol):
    """An agent that sees observations only.

    Example:
        class Echo:
            name = "echo"

            async def propose(self, observation, n=1):
                return [Reply({"role": "assistant", "content": observation.messages[-1]["content"]})]
    """

    @property
    def name(self) -> str:
        """The name in records."""

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        """Candidate messages for the observed dialogue.

        Args:
            observation: All that the agent may see. It is a copy.
            n: The number of candidates that are wanted. `play` asks for one.

        Returns:
            At least one reply, and at most `n` of them.

        Raises:
            AgentFault: The agent failed.
            InfraError: A server or machine failed, which counts against nobody.
        """


@runtime_checkable
class Oracle(Protocol):
    """An agent that may see the whole episode: scripted experts, baselines that read the home, and validity checks.

    A wrapper of another agent is an oracle too: it passes the episode on by `replies_from`.
    """

    @property
    def name(self) -> str:
        """The name in records."""

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """Candidate messages for the episode.

        Args:
            episode: The episode in play, which the agent must not change.
            n: The number of candidates that are wanted.

        Returns:
            At least one reply, and at most `n` of them.
        """


Agent = Policy | Oracle


class User(Protocol):
    """Speaks from the open intents of the blueprint."""

    @property
    def name(self) -> str:
        """The name in records."""

    async def speak(self, episode: Episode) -> Utterance:
        """The next utterance; an empty one stops the episode. Raises `UserError` if the user leaves its role."""


async def play(episode: Episode, agent: Agent, user: User, seed: int = 0) -> Trajectory:
    """Play an episode from its current state to its end; return the trajectory. Errors end it with a fault."""
    try:
        while episode.outcome is None:
            if waits_for_user(episode):
                await let_user_speak(episode, user)
            else:
                (reply,) = await replies_from(agent, episode)
                await episode.apply_reply_async(reply)
    except EPISODE_ERRORS as error:
        episode.end_with_fault(fault_from_error(error))
    return episode.to_trajectory(agent.name, user.name, seed)


async def replies_from(agent: Agent, episode: Episode, n: int = 1) -> Sequence[Reply]:
    """An agent's candidate messages. A policy gets the observation only, even if it is an oracle as well.

    Raises `DialogueTooLong` if the dialogue is longer than the agent's model takes, be it served or loaded here.
    """
    try:
        if isinstance(agent, Policy):
            return await agent.propose(episode.observation, n)
        return await agent.consult(episode, n)
    except RequestRefused as error:
        if error.too_long:
            raise DialogueTooLong(error.why) from error
        raise


async def let_user_speak(episode: Episode, user: User) -> None:
    """Let the user speak."""
    apply_utterance(episode, await user.speak(episode))


def apply_utterance(episode: Episode, utterance: Utterance) -> None:
    """Begin a turn with an utterance. An empty one ends the episode.

    That is a failure of the agent if it has given the user cause (`has_given_cause_to_stop`), else a fault of the user.
    """
    if utterance.text.strip():
        episode.add_utterance(utterance.text, utterance.intent_id)
    else:
        episode.end_with_fault(None if has_given_cause_to_stop(episode) else GAVE_UP)


GAVE_UP = Fault(Boundary.USER, "gave_up: the user stopped while something was still to be done")


def waits_for_user(episode: Episode) -> bool:
    """Whether the user speaks next: nobody has spoken yet, or the agent's last message ended its turn."""
    return episode.turn == 0 or episode.messages[-1]["role"] in ("assistant", "system")


def has_claimed_done(episode: Episode) -> bool:
    """Whether the agent's last message asks nothing: it claims that all is done.

    What it is said to have said before the episode claims nothing.
    """
    if not episode.steps:
        return False
    last = episode.messages[-1]
    unreadable = episode.blueprint.one_answer and parse_json_answer(last["content"] or "")[0] is None
    return last["role"] == "assistant" and not unreadable and not episode.spoken_words_of(last).question


def has_given_cause_to_stop(episode: Episode) -> bool:
    """Whether a user who stops now, or says the same again, has met a failure of the agent and does not err by himself.

    The agent claims that all is done, or its turn did nothing for the user. No words of an agent make it otherwise.
    """
    return has_claimed_done(episode) or has_done_nothing(episode)


def has_done_nothing(episode: Episode) -> bool:
    """Whether the agent's last turn did nothing for the user: it met no goal, by a deed, an answer or a needed question, and
    changed nothing but the clock and what no wish concerns, be it for a moment.

    A question is needed, too, while the user has told a part of the wish only. Before the agent's first turn it is false.
    """
    steps = [step for step in episode.steps if step.facts.turn == episode.turn]
    if not steps or (_is_wish_half_told(episode) and episode.spoken_words_of(steps[-1].message).question):
        return False
    facts = [step.facts for step in steps]
    before, last = facts[0], facts[-1]
    changed = any(set(one.changed) - {CLOCK} for one in facts)
    harmed = last.progress_after < before.progress_before or any(
        one.side_effects_after > before.side_effects_before for one in facts
    )
    return last.progress_after <= before.progress_before and (harmed or not changed)


def _is_wish_half_told(episode: Episode) -> bool:
    """Whether the user's last utterance was one part of a wish that it goes on to tell, or beside the point."""
    if (intent := episode.speaking_of) is None:
        return False
    at = episode.course_position(intent, episode.turn)
    return at is None or at + 1 < len(episode.situation.course_of(intent).parts)


CLOCK = "clock"  # the slot of the time, which changes by itself
TRIES = 4  # draws for each candidate asked for


def draw_candidates(draw: Callable[[Episode, random.Random], Message], episode: Episode, n: int, seed: int) -> list[Message]:
    """Up to `n` different messages, drawn with `draw`."""
    text = json.dumps([seed, episode.blueprint.id, episode.messages])
    rng = random.Random(hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    messages: dict[str, Message] = {}
    for _ in range(TRIES * n):
        message = draw(episode, rng)
        messages.setdefault(json.dumps(message, sort_keys=True), message)
        if len(messages) == n:
            break
    return list(messages.values())
