"""Several people speak at the same time: each has a dialogue, a guard and a consent of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from serving import OtherHome, Says, call_of

from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
from homerl.envs.assistant.serving.exchange import AgentJournal
from homerl.envs.homeenv.sim.home import Home

DOOR, TV = "lock.front_door", "media_player.tv"


class Meeting(Says):
    """An agent that waits until as many think at once as are to meet."""

    def __init__(self, here: list[asyncio.Event], meet: int, *messages: Any) -> None:
        super().__init__(*messages)
        self.here, self.meet = here, meet

    async def propose(self, observation: Any, n: int = 1) -> Any:
        if not self.heard:
            self.here.append(asyncio.Event())
            async with asyncio.timeout(10):
                while len(self.here) < self.meet:
                    await asyncio.sleep(0.001)
        return await super().propose(observation, n)


@pytest.fixture
def keeper(house: Home, tmp_path):
    real = OtherHome(house.fork())

    def made(mode: str, *agents: Any) -> tuple[Caretaker, OtherHome]:
        queue = list(agents)
        settings = CaretakerSettings(mode, "smh", "en", settle=0.05)  # type: ignore[arg-type]
        return Caretaker(house, lambda: queue.pop(0), real, AgentJournal(tmp_path / "a.jsonl"), settings, "script"), real

    return made


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_nobody_waits_for_the_thoughts_of_another(keeper):
    here: list[asyncio.Event] = []
    agents = [Meeting(here, 5, f"Answer {number}.") for number in range(5)]
    caretaker, _ = keeper("act", *agents)

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(caretaker.answer_dialogue(said(f"question {number}")) for number in range(5)))

    assert sorted(asyncio.run(all_at_once())) == [f"Answer {number}." for number in range(5)]
    told = {agent.heard[0].messages[-1]["content"] for agent in agents}
    assert told == {f"question {number}" for number in range(5)}, "each reads its own dialogue"


def test_who_says_the_same_has_a_proposal_of_its_own(keeper):
    here: list[asyncio.Event] = []
    unlock = call_of(DOOR, "unlock")
    caretaker, real = keeper("act", *(Meeting(here, 2, unlock, "Unlocked.") for _ in range(2)), Says("What do you mean?"))

    async def talk() -> list[str]:
        one, two = await asyncio.gather(
            caretaker.answer_dialogue(said("open"), speaker="Ann"), caretaker.answer_dialogue(said("open"), speaker="Ben")
        )
        assert one == two and "consent" in one and not real.made
        dialogue = [*said("open"), {"role": "assistant", "content": one}]
        no = await caretaker.answer_dialogue([*dialogue, *said("no")], speaker="Ben")
        stranger = await caretaker.answer_dialogue([*dialogue, *said("yes")], speaker="Cem")
        assert not real.made
        return [no, stranger, await caretaker.answer_dialogue([*dialogue, *said("yes")], speaker="Ann")]

    no, stranger, yes = asyncio.run(talk())
    assert "leave it" in no and stranger == "What do you mean?" and yes == "Done."
    assert [one.did for one in real.made] == [DOOR]


def test_what_another_did_meanwhile_is_seen_before_the_calls(keeper):
    """The second call runs again in the home that the first has left, and only then in the real one."""
    here: list[asyncio.Event] = []
    caretaker, real = keeper("act", *(Meeting(here, 2, call_of(TV, "media_play"), "Here.") for _ in range(2)))
    looks: list[int] = []
    refreshed = real.refresh_twin

    async def looking(twin: Home) -> Home:
        looks.append(len(real.made))
        return await refreshed(twin)

    real.refresh_twin = looking  # type: ignore[method-assign]

    async def talk() -> list[str]:
        return await asyncio.gather(*(caretaker.answer_dialogue(said(f"play {number}")) for number in range(2)))

    asyncio.run(talk())
    assert len(real.made) == 2 and looks.count(1) >= 2, "after the first call the home is looked at twice: by both"
