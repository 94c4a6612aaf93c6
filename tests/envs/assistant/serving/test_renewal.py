"""A home that is set up anew while people speak: it stays, whatever was begun in the home before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from serving import OtherHome, Says, call_of
from written_home import Row, written_home

from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
from homerl.envs.assistant.serving.exchange import AgentJournal
from homerl.envs.assistant.serving.real_home import remove_devices
from homerl.envs.homeenv.sim.home import Home
from homerl.play.chat_messages import Observation
from homerl.play.situation import Reply


class Changing(OtherHome):
    """A real home that is set up anew when a test says so, and tells it once."""

    fresh: Home | None = None

    async def take_renewed_home(self) -> Home | None:  # type: ignore[override]
        fresh, self.fresh = self.fresh, None
        self.home = fresh.fork() if fresh else self.home
        return fresh

    async def refresh_twin(self, twin: Home) -> Home:
        gone = twin.plan.devices_by_did.keys() - self.home.plan.devices_by_did.keys()
        return remove_devices(twin, gone)


class Slow(Says):
    """An agent that thinks until a test lets it go."""

    def __init__(self, *messages: Any) -> None:
        super().__init__(*messages)
        self.thinks, self.go = asyncio.Event(), asyncio.Event()

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        self.thinks.set()
        async with asyncio.timeout(10):
            await self.go.wait()
        return await super().propose(observation, n)


def renewing(tmp_path: Path, *agents: Any) -> tuple[Caretaker, Changing, Home]:
    """A caretaker, its real home, and the home as which that may be set up anew."""
    light = Row("light.hall", "Hall Light")
    before = written_home(tmp_path, light, Row("light.attic", "Attic Light"), Row("switch.relay", "Fan"))
    after = written_home(tmp_path, light, Row("switch.relay", "Garage Door"), Row("lock.new", "Gate"))
    queue, real = [*agents], Changing(before.fork())
    house = CaretakerSettings("act", "smh", "en", settle=0.05)
    return (
        Caretaker(before, lambda: queue.pop(0), real, AgentJournal(tmp_path / "agent.jsonl"), house, "script"),
        real,
        after,
    )


def sentence(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("did", "says", "made"),
    [
        ("light.hall", "On.", 1),
        ("light.attic", "I could not do this: Attic Light: turn on, because I found no device that fits", 0),
        ("switch.relay", "This needs your consent", 0),
    ],
)
def test_who_began_in_the_home_before_acts_in_the_new_one_and_does_not_bring_it_back(tmp_path, did, says, made):
    slow = Slow(call_of(did, "turn_on"), "On.")
    caretaker, real, after = renewing(tmp_path, slow, Says("Fine."), Says(call_of("switch.relay", "turn_on"), "Fanned."))

    async def talk() -> list[str]:
        first = asyncio.create_task(caretaker.answer_dialogue(sentence("on")))
        await slow.thinks.wait()
        real.fresh = after
        await caretaker.answer_dialogue(sentence("how is it?"))
        slow.go.set()
        return [await first, await caretaker.answer_dialogue(sentence("relay on"))]

    first, last = asyncio.run(talk())
    assert first.startswith(says) and len(real.made) == made
    assert set(caretaker.home.plan.devices_by_did) == set(after.plan.devices_by_did), "the new home stays"
    assert "needs your consent: Garage Door" in last and len(real.made) == made


@pytest.mark.parametrize("busy", ["refresh_twin", "carry_out_call"])
def test_who_is_busy_in_the_home_before_does_not_bring_it_back(tmp_path, busy):
    caretaker, real, after = renewing(tmp_path, Says(call_of("light.hall", "turn_on"), "On."), Says("Fine."))
    begun, go, quickly = asyncio.Event(), asyncio.Event(), getattr(real, busy)

    async def slowly(*given: Any) -> Any:
        setattr(real, busy, quickly)
        begun.set()
        async with asyncio.timeout(10):
            await go.wait()
        return await quickly(*given)

    setattr(real, busy, slowly)

    async def talk() -> None:
        first = asyncio.create_task(caretaker.answer_dialogue(sentence("on")))
        await begun.wait()
        real.fresh = after
        await caretaker.answer_dialogue(sentence("how is it?"))
        go.set()
        await first

    asyncio.run(talk())
    assert real.made and set(caretaker.home.plan.devices_by_did) == set(after.plan.devices_by_did)


def test_a_new_home_is_not_lost_with_who_hangs_up_when_it_comes(tmp_path):
    caretaker, real, after = renewing(tmp_path)
    real.fresh = after
    answers = [False, True]

    async def gone() -> bool:
        await asyncio.sleep(0.01)
        return answers.pop(0)

    asyncio.run(caretaker.answer_dialogue(sentence("hello"), gone=gone))
    assert not answers and real.fresh is None and set(caretaker.home.plan.devices_by_did) == set(after.plan.devices_by_did)
