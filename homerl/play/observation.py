"""What a policy observes of an episode.

Invariant: plain data, from which neither the episode nor Φ, the plan, the blueprint or the world can be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.messages import Message


@dataclass(frozen=True)
class Observation:
    """All that a policy is handed. `one_answer` asks for one JSON answer in place of tool calls. `protocol` says how the
    world reads replies, where its agents have to know (`Situation.protocol`)."""

    blueprint_id: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    one_answer: bool = False
    protocol: Mapping[str, bool | int | str] = field(default_factory=dict)
