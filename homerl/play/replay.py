"""Takes an episode through a stored dialogue again: what the user said, and the agent's messages as they were parsed.

Invariants: the record is read only; a step is parsed as it was when it was stored, whoever parsed it then; a record whose
messages and steps do not belong together is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from homerl.envs.core.documents import InputError
from homerl.play.episode import Episode
from homerl.play.situation import Reply
from homerl.play.trajectory import Step, Trajectory

REFUSED = "refused: syntax: "
REMEDY = "the file was edited, or made by another version of homerl"


class RecordError(InputError):
    """The messages and the steps of a record do not belong together."""


def replay_steps(episode: Episode, stored: Trajectory, where: str = "trajectory") -> Iterator[Step]:
    """Yield each stored step when the episode has come to it. The caller takes it: `episode.act(reply_of(step))`.

    The user's messages are heard on the way, with the intents that they are stored with. Raises `RecordError` where a
    message of the agent has no step, or a step no message.
    """
    done = 0
    for message in stored.messages[len(episode.messages) :]:
        if message["role"] == "user":
            intent = stored.steps[done].facts.intent if done < len(stored.steps) else None
            episode.add_utterance(message["content"], intent)
        elif message["role"] == "assistant":
            if done == len(stored.steps):
                raise RecordError(f"step {done + 1}: there is a message of it, but no record", where, REMEDY)
            yield stored.steps[done]
            done += 1
    if done < len(stored.steps):
        raise RecordError(f"step {done + 1}: there is a record of it, but no message", where, REMEDY)


def reply_of_step(step: Step) -> Reply:
    """The agent's reply that became a stored step."""
    return Reply(step.message, _malformed(step))


def _malformed(step: Step) -> str | None:
    """Why a reply without calls could not be parsed. Its observation says it, since another agent may have parsed it.

    If its words stood for a call, the observation is that call's result.
    """
    first = "" if step.message.get("tool_calls") or not step.observations else step.observations[0]
    return first.removeprefix(REFUSED) if first.startswith(REFUSED) else None
