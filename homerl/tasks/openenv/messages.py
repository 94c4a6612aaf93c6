"""What a task is over OpenEnv's wire: the action, the observation and the state, for its server and its client.

Invariants:
- An observation is what an agent may see: messages, and schemas of tools. All else is beside it, in a result's `reward`,
  `done` and `metadata`, or in the state: these are the trainer's.
- An action is an assistant's message. Nothing in it can start, save or restore an episode.
"""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class TaskAction(Action):
    """The agent's next message, in OpenAI's form."""

    content: str | None = Field("", description="the agent's words, or a model's text as it is: calls in it are read")
    tool_calls: list[dict[str, Any]] = Field(default_factory=list, description="calls, as OpenAI's API has them")


class TaskObservation(Observation):
    """What an agent sees after a reset (the prompt, up to the user's sentence) or a step (what was said since)."""

    messages: list[dict[str, Any]] = Field(default_factory=list, description="messages in OpenAI's form")
    tool_schemas: list[dict[str, Any]] | None = Field(
        None, description="the tools that the agent may call, in OpenAI's form; null if they are as they were"
    )
    # OpenEnv's server writes it beside the observation; the trainer alone reads it.
    metadata: dict[str, Any] = Field(
        default_factory=dict, exclude=True, description="rewards by part, outcome, and what changed; which task it is"
    )


class TaskState(State):
    """What the trainer may ask about the episode of its session, at any time."""

    split: str | None = Field(None, description="the split of the task; null before the first reset")
    index: int | None = Field(None, description="the index of the task in its split")
    task_id: str | None = Field(None, description="the id of the task")
    seed: int | None = Field(None, description="the seed that `reset` was given")
    outcome: str | None = Field(None, description="how the episode ended; null while it goes on")
    counts: bool = Field(True, description="whether the outcome says something about the agent")
    steps: list[dict[str, Any]] = Field(default_factory=list, description="the reward of each step and its parts")
