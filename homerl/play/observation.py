"""What a policy observes of an episode.

Invariants: it is plain data that gives no access to the episode, the goals Φ, the plan, the blueprint or the world; it is
a copy, so that a policy may change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from homerl.envs.core.messages import Message, copy_plain_data


@dataclass(frozen=True)
class Observation:
    """All that a policy receives.

    `one_answer` asks for one JSON answer instead of tool calls. `protocol` tells how the world parses replies, if its
    agents need to know (`Situation.protocol`). `seed` is that of the episode: several plays of a task differ in it alone.
    """

    blueprint_id: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    one_answer: bool = False
    protocol: Mapping[str, bool | int | str] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        """Copy the messages and tools."""
        object.__setattr__(self, "messages", tuple(map(copy_plain_data, self.messages)))
        object.__setattr__(self, "tools", tuple(map(copy_plain_data, self.tools)))
