"""Candidate messages of a scripted agent.

Invariant: they depend on the agent's seed and the dialogue only, and no two are equal.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable

from homerl.envs.core.messages import Message
from homerl.play.episode import Episode

TRIES = 4  # draws for each candidate asked for


def draw_candidates(draw: Callable[[Episode, random.Random], Message], episode: Episode, n: int, seed: int) -> list[Message]:
    """Up to `n` different messages, drawn with `draw`."""
    rng = random.Random(_fingerprint(episode, seed))
    messages: dict[str, Message] = {}
    for _ in range(TRIES * n):
        message = draw(episode, rng)
        messages.setdefault(json.dumps(message, sort_keys=True), message)
        if len(messages) == n:
            break
    return list(messages.values())


def _fingerprint(episode: Episode, seed: int) -> str:
    text = json.dumps([seed, episode.blueprint.id, episode.messages])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
