"""The real home of a caretaker: a Home Assistant.

Invariant: the token is sent to Home Assistant and nowhere else.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from envs.homeenv.home import Home
from homerl.homeassistant.client import PATIENCE, connect
from homerl.homeassistant.errors import HomeAssistantError
from homerl.homeassistant.exposure import withdrawn
from homerl.homeassistant.listing import CONFIG
from homerl.homeassistant.translation import refresh, to_homeassistant
from homerl.worlds.homeenv.live import Made
from homerl.worlds.homeenv.serving.changes import called
from homerl.worlds.homeenv.serving.withdrawing import without

GREETING = 10.0  # seconds for the first answer


class HomeAssistant:
    """A `RealHome` at a URL. Each request has a connection of its own, so a restart of Home Assistant costs nothing."""

    def __init__(self, url: str, token: SecretStr) -> None:
        self.url, self._token, self.spoken = url, token, "en"

    async def greet(self) -> str:
        """Home Assistant's version; `spoken` is its language from then on.

        Raises `HomeAssistantError` if the address or the token is wrong, or nothing answers.
        """
        async with connect(self.url, self._token, GREETING) as client:
            self.spoken = str((await client.call(CONFIG)).get("language") or self.spoken)
            return client.version

    async def refreshed(self, twin: Home) -> Home:
        """The twin with the states that Home Assistant has now, at this moment, without what is not exposed any more.

        What is exposed and has no state, since it was disabled or Home Assistant is starting, is unavailable.
        """
        async with connect(self.url, self._token) as client:
            states = await client.states()
            known = {row["entity_id"] for row in states}
            states += [unreachable(device.did) for device in twin.plan.devices if device.did not in known]
            gone = await withdrawn(client, twin.plan.by_did, states)
        return refresh(without(twin, gone), states, datetime.now(UTC))

    async def carry_out(self, twin: Home, made: Made) -> None:
        """Call the service that a call of the twin stands for, and wait until it is carried out.

        It is not called if its entity is not exposed any more.
        """
        call = to_homeassistant(twin, made.did, made.service, made.arguments)
        try:
            async with asyncio.timeout(PATIENCE), connect(self.url, self._token) as client:
                if await withdrawn(client, {made.did}, [unreachable(made.did)]):
                    raise HomeAssistantError(f"{called(twin.plan, made.did)} is not exposed to Assist any more.")
                await client.call_service(call.domain, call.service, call.data, call.target)
        except TimeoutError:
            what = f"{self.url} did not say within {PATIENCE:.0f} s that {call.domain}.{call.service} is done."
            raise HomeAssistantError(what) from None


def unreachable(entity: str) -> dict[str, Any]:
    """The state of an entity that cannot be reached, as Home Assistant writes it."""
    return {"entity_id": entity, "state": "unavailable", "attributes": {}}
