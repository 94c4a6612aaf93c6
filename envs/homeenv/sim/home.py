"""The home as agents and environments use it: its state, the calls of its services, and the passage of time.

Invariants: agents change device values through `Home.call` alone; a refused call changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from homerl.envs.homeenv.sim.state.home_state import HomeState, call_service
from homerl.envs.homeenv.sim.state.rule_firing import FiredRule
from homerl.envs.homeenv.sim.state.time_passing import advance_clock


class Home(HomeState):
    """A `HomeState` (plan, values, clock, fork, diff, state key) with service calls and time as methods."""

    __slots__ = ()

    def call(self, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call a service of device `did` by its dotted path. Raises `Refused`, in which case nothing has changed.

        Returns the plain data that the service `returns`, or None.
        """
        return call_service(self, did, service, args, kwargs)

    def advance(self, seconds: int) -> list[FiredRule]:
        """Let `seconds` pass for weather, air, counters and rules. Returns what the rules did, in order."""
        return advance_clock(self, seconds)
