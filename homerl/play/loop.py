"""The agent-user-home loop (HomeFlow 3.4.2). Synthesis, RL and evaluation all play by it.

Invariants: a trajectory ends with exactly one outcome; an agent is never blamed for a user's, the world's or a
server's fault; a policy is never handed the episode; nothing here is random.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from homerl.play.episode import Episode
from homerl.play.faults import EPISODE_ERRORS, Boundary, Fault, fault_of
from homerl.play.messages import direct_answer
from homerl.play.observation import Observation
from homerl.play.situation import Reply
from homerl.play.trajectory import Trajectory
from homerl.play.utterance import Utterance


@runtime_checkable
class Policy(Protocol):
    """Answers what it observes of a dialogue with n candidate messages."""

    @property
    def name(self) -> str: ...

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]: ...


@runtime_checkable
class Oracle(Protocol):
    """Answers an episode, of which it may see all: scripted experts, baselines that read the home, checks of validity, and
    what passes an episode on to an agent (by `replies_from`)."""

    @property
    def name(self) -> str: ...

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]: ...


Agent = Policy | Oracle


class User(Protocol):
    """Speaks from the blueprint's open intents."""

    @property
    def name(self) -> str: ...

    async def speak(self, episode: Episode) -> Utterance: ...


async def play(episode: Episode, agent: Agent, user: User, seed: int = 0) -> Trajectory:
    """Play an episode to its end, from wherever it stands, and return the trajectory."""
    try:
        while episode.outcome is None:
            if episode.turn == 0 or waits_for_user(episode):
                await listen(episode, user)
            else:
                (reply,) = await replies_from(agent, episode)
                episode.act(reply)
    except EPISODE_ERRORS as error:
        episode.end(fault_of(error))
    return episode.trajectory(agent.name, user.name, seed)


async def replies_from(agent: Agent, episode: Episode, n: int = 1) -> Sequence[Reply]:
    """An agent's candidate messages: a policy (whatever else it is) is handed its observation, an oracle the episode."""
    if isinstance(agent, Policy):
        return await agent.propose(episode.observation, n)
    return await agent.consult(episode, n)


async def listen(episode: Episode, user: User) -> None:
    """Let the user speak."""
    apply_utterance(episode, await user.speak(episode))


def apply_utterance(episode: Episode, utterance: Utterance) -> None:
    """An utterance opens a turn; a user who will not go on while intents are open ends the episode."""
    if utterance.text.strip():
        episode.hear(utterance.text, utterance.intent_id)
    else:
        episode.end(None if claimed_done(episode) else GAVE_UP)


GAVE_UP = Fault(Boundary.USER, "gave_up: the user stopped while something was still to be done")


def waits_for_user(episode: Episode) -> bool:
    """Whether the agent's last message ended its turn."""
    return episode.messages[-1]["role"] in ("assistant", "system")


def claimed_done(episode: Episode) -> bool:
    """Whether the agent answered the last utterance with words that ask nothing: a claim that all is done."""
    last = episode.messages[-1]
    unreadable = episode.blueprint.one_answer and direct_answer(last["content"] or "")[0] is None
    return last["role"] == "assistant" and not unreadable and not episode.words_of(last).question
