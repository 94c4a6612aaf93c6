"""The agent-user-home loop (HomeFlow 3.4.2). Synthesis, RL and evaluation all play by it.

Invariants: a trajectory ends with exactly one outcome; an agent is never blamed for a user's, the world's or a
server's fault; nothing here is random.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from envs.world import WorldError
from homerl.play.episode import Episode
from homerl.play.faults import AgentFault, InfraError, UserError
from homerl.play.messages import direct_answer
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome, Trajectory
from homerl.play.utterance import Utterance


class Agent(Protocol):
    """Answers a dialogue with n candidate messages. A policy reads `episode.dialogue` and nothing else."""

    name: str

    async def propose(self, episode: Episode, n: int = 1) -> Sequence[Reply]: ...


class User(Protocol):
    """Speaks from the blueprint's open intents."""

    name: str

    async def speak(self, episode: Episode) -> Utterance: ...


async def play(episode: Episode, agent: Agent, user: User, seed: int = 0) -> Trajectory:
    """Play an episode to its end, from wherever it stands, and return the trajectory."""
    try:
        while episode.outcome is None:
            if episode.turn == 0 or waits_for_user(episode):
                await listen(episode, user)
            else:
                (reply,) = await agent.propose(episode)
                episode.act(reply)
    except InfraError:
        episode.end(Outcome.INFRA_ERROR)
    except WorldError:
        episode.end(Outcome.WORLD_ERROR)
    except AgentFault:
        episode.end(Outcome.AGENT_FAILURE)
    except UserError:
        episode.end(Outcome.USER_ERROR)
    return episode.trajectory(agent.name, user.name, seed)


async def listen(episode: Episode, user: User) -> None:
    """Let the user speak."""
    heed(episode, await user.speak(episode))


def heed(episode: Episode, utterance: Utterance) -> None:
    """An utterance opens a turn; a user who will not go on while intents are open ends the episode."""
    if utterance.text.strip():
        episode.hear(utterance.text, utterance.intent_id)
    else:
        episode.end(Outcome.AGENT_FAILURE if claimed_done(episode) else Outcome.USER_ERROR)


def waits_for_user(episode: Episode) -> bool:
    """Whether the agent's last message ended its turn."""
    return episode.messages[-1]["role"] in ("assistant", "system")


def claimed_done(episode: Episode) -> bool:
    """Whether the agent answered the last utterance with words that ask nothing: a claim that all is done."""
    last = episode.messages[-1]
    unreadable = episode.blueprint.one_answer and direct_answer(last["content"] or "")[0] is None
    return last["role"] == "assistant" and not unreadable and not episode.words_of(last).question
