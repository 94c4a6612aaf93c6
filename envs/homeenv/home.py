"""A home that acts: its state, the calls of its services, and the passage of time.

Invariant: `Home.call` is the only way in which an agent changes anything; a refused call has changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.homeenv.calls import call_service
from envs.homeenv.clock import Fired, advance
from envs.homeenv.state import HomeState


class Home(HomeState):
    """A `HomeState` (plan, values, clock, fork, diff, state key) with the acts of a home as methods."""

    __slots__ = ()

    def call(self, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        """Call a service by its dotted path, or raise `Refused` having changed nothing."""
        call_service(self, did, service, args, kwargs)

    def advance(self, seconds: int) -> list[Fired]:
        """Let `seconds` pass: weather, air, counters and rules take their course. What the rules did, in order."""
        return advance(self, seconds)
