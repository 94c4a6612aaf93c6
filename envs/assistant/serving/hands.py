"""What a caretaker does in the real home, and how it looks what came of it.

Invariants: calls are made one after the other, until one fails or nobody waits for them any more; what was done until then
stands in the exchange.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from homerl.envs.assistant.listing.errors import HomeAssistantError
from homerl.envs.assistant.listing.translation import entity_domain
from homerl.envs.assistant.serving.changes import compare_change
from homerl.envs.assistant.serving.exchange import Exchange
from homerl.envs.assistant.serving.live import TwinCall
from homerl.envs.assistant.serving.reading import ReadableHome, read_todo_lists
from homerl.envs.homeenv.sim.home import Home

SLOW, LONGER = ("media_player", "vacuum", "lawn_mower"), 4  # domains that take their time, and how many times as long
LOOK_SECONDS = 5.0  # beyond those to settle, in which the real home tells its states


class RealHome(ReadableHome, Protocol):
    """The home outside. All methods raise `HomeAssistantError`. `spoken` is its language, or None until it has told."""

    spoken: str | None

    async def take_renewed_home(self) -> Home | None:
        """The home as it is set up now, if it is another one than was given last; None if not."""

    async def refresh_twin(self, twin: Home) -> Home:
        """The twin with the states that the real home has now, without the devices that it does not show any more."""

    async def carry_out_call(self, twin: Home, made: TwinCall) -> None:
        """Make a call in the real home."""


async def carry_out_exchange(real: RealHome, exchange: Exchange) -> None:
    """Make the calls of an exchange, until one fails: the next may rest on it. Raises `GivenUp`."""
    for call in exchange.calls:
        await exchange.asker.require_waiting()
        call.fate = "sent"
        try:
            await real.carry_out_call(exchange.home, call.made)
        except Exception as error:  # whatever it was, the calls before it stand and are to be told
            call.fate = "failed"
            exchange.errors.append(str(error) or type(error).__name__)
            return
        call.fate = "done"


async def wait_until_settled(real: RealHome, exchange: Exchange, settle: float) -> Home:
    """The home once it agrees with the twin, or has had the seconds to; the changes of the exchange are compared with it.

    What wakes up first, such as a television, has longer. Raises `HomeAssistantError` if its states do not come for as long
    as others may be kept waiting.
    """
    settle *= LONGER if any(entity_domain(one.did) in SLOW for one in exchange.done_calls) else 1
    try:
        async with asyncio.timeout(settle + LOOK_SECONDS):
            return await _settled(real, exchange, settle)
    except TimeoutError:
        raise HomeAssistantError("Home Assistant did not tell its states in time.") from None


async def _settled(real: RealHome, exchange: Exchange, settle: float) -> Home:
    """Only what was done is waited for."""
    done, until = {one.did for one in exchange.done_calls}, time.monotonic() + settle
    while True:
        home = await real.refresh_twin(exchange.home)
        await read_todo_lists(real, (change.did for change in exchange.changes), home)
        exchange.changes = tuple(compare_change(change, home) for change in exchange.changes)
        late = any(change.differs for change in exchange.changes if exchange.outcome == "done" or change.did in done)
        if not late or time.monotonic() > until:
            return home
        await asyncio.sleep(min(0.25, settle))
