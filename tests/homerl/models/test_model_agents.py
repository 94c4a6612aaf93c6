"""Agents of a model that this process loads: whoever serves them stays awake while they sample."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from homerl.app.served.model_agents import LoadedModel, ThreadedEngine, load_local_model, make_model_agents
from homerl.envs.core.messages import Message
from homerl.models.policy.policy_agent import PolicyAgent
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.situation import Observation

ASKED = Observation("live", ({"role": "user", "content": "light please"},), ())


def test_the_event_loop_goes_on_while_a_local_model_samples(tiny: Path) -> None:
    _, agents = make_model_agents(str(tiny), cpu=True, max_tokens=200)
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
    _, agents = make_model_agents(str(tiny), cpu=True, max_tokens=20)

    async def together() -> list[object]:
        found = await asyncio.gather(*(agents().propose(ASKED) for _ in range(3)))
        return [reply.message for (reply,) in found]

    first, *others = asyncio.run(together())
    assert others == [first, first]


def test_a_dialogue_goes_on_with_the_tokens_that_were_sampled(model: Any, tokenizer: Any) -> None:
    """One agent keeps its tokens. Agents that are sent the whole dialogue again say the same."""
    found = LoadedModel("tiny", ThreadedEngine(TransformersEngine(model, tokenizer, 1)), tokenizer)

    def talk(propose: Callable[[Observation], Any]) -> list[str]:
        messages: tuple[Message, ...] = ({"role": "system", "content": "a home"},)
        for turn in range(4):
            messages = (*messages, {"role": "user", "content": f"sentence {turn}"})
            (reply,) = asyncio.run(propose(Observation("x", messages, ())))
            messages = (*messages, reply.message)
        return [message["content"] for message in messages if message["role"] == "assistant"]

    engine = found.engine.with_sampling(12, 1.5, 3)
    one, fresh = PolicyAgent(engine.engine, tokenizer), lambda: PolicyAgent(engine.engine, tokenizer)
    expected = talk(lambda seen: engine.run_in_thread(lambda: one.propose(seen)))
    assert talk(lambda seen: found.make_agents(12, 1.5, 3)().propose(seen)) == expected
    assert (
        talk(lambda seen: engine.run_in_thread(lambda: fresh().propose(seen))) != expected
    )  # text alone was tokenised otherwise


def test_a_sample_that_nobody_waits_for_ends(tiny: Path) -> None:
    found = load_local_model(str(tiny), cpu=True)
    passes = count(1)
    made = 0

    def note(*_: object) -> None:
        nonlocal made
        made = next(passes)

    found.engine.engine.model.register_forward_hook(note)

    async def left() -> None:
        waiting = asyncio.ensure_future(found.make_agents(5000)().propose(ASKED))
        while made < 3:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await found.make_agents(1)().propose(ASKED)  # its turn comes when the other one has ended

    asyncio.run(left())
    assert 3 <= made < 1000
