"""Texts from outside, made fit for files and for other programs, and dialogues, made fit for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from homerl.envs.core.messages import Message

MOST_MESSAGES = 40  # of a dialogue that the agent reads; the oldest are left out


def replace_lone_surrogates(value: Any) -> Any:
    """A value of JSON whose texts can be written as UTF-8: half of a pair of surrogates becomes U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {replace_lone_surrogates(key): replace_lone_surrogates(part) for key, part in value.items()}
    if isinstance(value, list):
        return [replace_lone_surrogates(part) for part in value]
    return tuple(replace_lone_surrogates(part) for part in value) if isinstance(value, tuple) else value


def recent_messages(dialogue: Sequence[Message]) -> Sequence[Message]:
    """What the agent reads of a dialogue: it begins and ends with words of the person."""
    last = dialogue[-MOST_MESSAGES:]
    return last[next(at for at, message in enumerate(last) if message["role"] == "user") :]
