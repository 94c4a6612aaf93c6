"""Agents of a model that this process loads: whoever serves them stays awake while they sample."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from homerl.play.observation import Observation
from homerl.run.model_agents import agents_of

ASKED = Observation("live", ({"role": "user", "content": "light please"},), ())


def test_the_event_loop_goes_on_while_a_local_model_samples(tiny: Path) -> None:
    _, agents = agents_of(str(tiny), cpu=True, max_tokens=200)
    longest = 0.0

    async def awake() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    async def asked() -> float:
        await agents().propose(ASKED)  # loads what the first sample needs
        ticks = asyncio.create_task(awake())
        begun = time.monotonic()
        await asyncio.sleep(0.05)
        await asyncio.gather(*(agents().propose(ASKED) for _ in range(2)))
        ticks.cancel()
        return time.monotonic() - begun

    took = asyncio.run(asked())
    assert longest < took / 3, f"nothing else ran for {longest:.2f} of {took:.2f} s"


def test_samples_of_agents_at_once_are_those_of_each_alone(tiny: Path) -> None:
    _, agents = agents_of(str(tiny), cpu=True, max_tokens=20)

    async def together() -> list[object]:
        found = await asyncio.gather(*(agents().propose(ASKED) for _ in range(3)))
        return [reply.message for (reply,) in found]

    first, *others = asyncio.run(together())
    assert others == [first, first]
