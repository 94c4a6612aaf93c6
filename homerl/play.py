"""The agent-user-home loop (HomeFlow 3.4.2). Synthesis, RL and evaluation all play by it.

Invariants: a trajectory ends with exactly one outcome; an agent is never blamed for a user's, the world's or a
server's fault; nothing here is random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envs.world import WorldError
from homerl.chat import direct_answer, words_of
from homerl.episode import Episode, Reply
from homerl.trajectory import Outcome, Trajectory


@dataclass(frozen=True)
class Utterance:
    """What a user says, and of which intent. An empty text means that the user stops. `tokens` is what saying it took,
    `prompt_tokens` that of what it was made from, `requests` how often a model was asked for it."""

    text: str
    intent_id: int | None = None
    tokens: int = field(default=0, compare=False)
    prompt_tokens: int = field(default=0, compare=False)
    requests: int = field(default=1, compare=False)


class Agent(Protocol):
    """Answers a dialogue with n candidate messages. A policy reads `episode.dialogue` and nothing else."""

    name: str

    async def propose(self, episode: Episode, n: int = 1) -> Sequence[Reply]: ...


class User(Protocol):
    """Speaks from the blueprint's open intents."""

    name: str

    async def speak(self, episode: Episode) -> Utterance: ...


class InfraError(Exception):
    """A server or machine failed; nobody in the dialogue is to blame."""


class RequestRefused(InfraError):
    """The server said that it will not take this request, and `why`; asking again would not help."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} refused the request: {why}")
        self.why = why

    def __reduce__(self) -> tuple:
        return InfraError, (str(self),)


class Unwelcome(InfraError):
    """The server will take no request of ours, whatever it says: its key, its path or its model's name is another."""


class AgentFault(Exception):
    """The agent looped, flooded or stalled: it failed."""


class UserError(Exception):
    """The user simulator left its role. `reason` says how, in a word by which it is counted; `spent` is an utterance that
    is not said, with what it took."""

    def __init__(self, message: str, reason: str = "left_role", spent: Utterance = Utterance("")) -> None:
        super().__init__(message)
        self.reason, self.spent = reason, spent


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
    last, toolset = episode.messages[-1], episode.blueprint.toolset
    if last["role"] != "assistant" or (toolset == "direct" and direct_answer(last["content"] or "")[0] is None):
        return False
    return not words_of(last, toolset).question
