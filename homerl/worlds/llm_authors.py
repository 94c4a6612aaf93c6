"""What LLM authors share: they try candidates until one is fit, and count why the others were dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from homerl.models.endpoint.structured_answers import UnreadableAnswer
from homerl.worlds.contract import NoBlueprint


@dataclass(frozen=True)
class AuthoredBlueprint:
    """A blueprint and the record of its making: how much was written and kept, by name."""

    blueprint: Any
    record: dict[str, Any]


class UnfitCandidate(Exception):
    """Too little of a candidate is left, or it breaks a rule; the text says which."""


async def write_fit_candidate(
    write: Callable[[int], Awaitable[AuthoredBlueprint]], attempts: int, seed: int, dropped: Counter[str]
) -> AuthoredBlueprint:
    """The first candidate of a seed that is fit.

    Args:
        write: Writes a candidate, given its number from 1. It raises `UnfitCandidate` or `UnreadableAnswer` if it has to be
            dropped.
        attempts: The most candidates that are written.
        seed: The seed of the blueprint, for the message.
        dropped: Counts the candidates that are written, and those that are dropped by reason.

    Raises:
        NoBlueprint: All candidates were dropped.
    """
    for number in range(1, attempts + 1):
        dropped["candidates: written"] += 1
        try:
            return await write(number)
        except UnreadableAnswer:
            dropped["candidate: unreadable"] += 1
        except UnfitCandidate as error:
            dropped[f"candidate: {error}"] += 1
    raise NoBlueprint(f"no blueprint in {attempts} candidates for seed {seed}: {dict(dropped)}")
