"""A home file as the home to act in, for who has no Home Assistant at hand. Nothing outside of this process is touched.

Invariant: the home is that of the twin, and its time passes as the clock of this machine does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from homerl.envs.assistant.listing.home_listing import entity_domain
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.serving.home_words import HomeWords
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.homeenv.sim.assist import assist_tools as assist
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused

LIST, ANSWERS = "todo", "get_items"  # what a simulated list tells


class SimulatedHome:
    """A `RealHome` that is simulated. It begins as the first twin that it is shown."""

    spoken: str | None = None
    words = HomeWords()

    def __init__(self) -> None:
        self._home: Home | None = None
        self._begun = time.monotonic()

    async def take_renewed_home(self) -> None:
        """It is set up once."""

    async def refresh_twin(self, twin: Home) -> Home:
        """The home as it is now."""
        return self._home_now(twin).fork()

    async def ask_service(self, did: str, service: str, data: Mapping[str, Any]) -> Any:
        """What stands on a list. Raises `HomeAssistantError` for anything else, which nobody simulates."""
        if self._home is None or entity_domain(did) != LIST or service != ANSWERS:
            what = f"{service} is not simulated."
            raise HomeAssistantError(what, code="not_simulated", said=what)
        kinds = (assist.OPEN, assist.DONE)
        state = self._home.state_of(did)
        return {did: {"items": [{"summary": one, "status": kind} for kind in kinds for one in state.get(kind) or ()]}}

    async def carry_out_call(self, twin: Home, made: TwinCall) -> None:
        """Make a call. Any code is the right one."""
        home = self._home_now(twin)
        try:
            home.call(made.did, made.service, (), made.arguments_with_code(home))
        except Refused as refusal:
            raise HomeAssistantError(str(refusal)) from None

    def _home_now(self, twin: Home) -> Home:
        if self._home is None:
            self._home, self._begun = twin.fork(), time.monotonic() - twin.clock
        self._home.advance(max(0, int(time.monotonic() - self._begun) - self._home.clock))
        return self._home
