"""A slow message stops no other: its code runs beside the event loop, and nothing depends on which messages were slow."""

import asyncio
import json
import random
import threading
import time
from functools import partial
from itertools import product

import pytest

from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.toolset import Limits, RunResult
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.models.policy.policy_agent import Sample
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import play
from homerl.play.ordered_async_work import GRACE, begin_task_group, run_beside_loop
from homerl.play.situation import Reply
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed
from homerl.worlds.users import ScriptedUser

ENDLESS = "while 1: pass"
ESCAPED = '{"\\u0063ode": "while 1: pass"}'


def message(*codes: str) -> Reply:
    """A message of snippets."""
    texts = [code if code.startswith("{") else json.dumps({"code": code}) for code in codes]
    calls = [{"type": "function", "function": {"name": "pyexec", "arguments": text}} for text in texts]
    return Reply({"role": "assistant", "content": "", "tool_calls": calls})


def started() -> Episode:
    episode = begin_episode(make_blueprint_of_seed(BlueprintRecipe(home={"devices": (3, 3)}), "train", 1), EpisodeLimits())
    episode.add_utterance("go on", 1)
    return episode


class Loops:
    """An agent whose messages are snippets."""

    name = "loops"

    def __init__(self, *codes: str) -> None:
        self.reply = message(*codes)

    async def propose(self, observation, n=1):
        return [self.reply]


@pytest.mark.parametrize("code", [ENDLESS, ESCAPED], ids=["plain", "escaped"])
def test_others_go_on_while_a_message_loops(code):
    async def both() -> tuple[int, str]:
        ticks, over = 0, asyncio.Event()

        async def ticker() -> None:
            nonlocal ticks
            while not over.is_set():
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(ticker())
        limits = EpisodeLimits(turns=1, steps=1, steps_per_turn=1)
        episode = begin_episode(make_blueprint_of_seed(BlueprintRecipe(home={"devices": (3, 3)}), "train", 1), limits)
        trajectory = await play(episode, Loops(code, code, code), ScriptedUser())
        over.set()
        await ticking
        return ticks, trajectory.outcome.value

    ticks, outcome = asyncio.run(both())
    assert ticks >= 5 and outcome == "step_limit", "it stood still all the time if there was one tick"


def test_after_a_snippet_that_was_stopped_no_other_of_its_message_runs():
    episode = started()
    did = episode.situation.home.plan.devices[0].did
    key = episode.situation.state_key()
    step = episode.apply_reply(message(ENDLESS, ENDLESS, f"device('{did}').turn_on()", "print(1)"))
    assert step.facts.blocked == ("time_limit",) * 4 and len(set(step.observations)) == 1
    assert episode.situation.state_key() == key
    assert episode.apply_reply(message("print(1)")).observations == ("1",), "the next message has time of its own"


def test_the_snippets_of_a_message_share_its_time():
    env, granted = HomeEnv(HomeSampler.sample_test(), limits=Limits(seconds=1.0, message=3.0)), []

    class Slow:
        def run(self, home, arguments, limits):
            granted.append(limits.seconds)
            return RunResult("", seconds=0.875)

    env._tools = {"pyexec": Slow()}
    for _ in range(2):
        env.begin_message()
        for _ in range(5):
            env.fork().step({"name": "pyexec", "code": ""})
            env.step({"name": "pyexec", "code": ""})
    assert granted == 2 * [g for left in (1.0, 1.0, 1.0, 0.375, -0.5) for g in (left, left)]


def test_without_messages_each_step_has_its_own_time():
    env = HomeEnv(HomeSampler.sample_test(), limits=Limits(seconds=0.1, message=0.1))
    for _ in range(2):
        assert env.step({"name": "pyexec", "code": ENDLESS})[4]["blocked"]["rule"] == "time_limit"
    assert env.step({"name": "pyexec", "code": "print(1)"})[0] == "1"


def test_the_same_loop_is_told_the_same_each_time():
    told = {
        HomeEnv(HomeSampler.sample_test(), limits=Limits(seconds=s)).step({"name": "pyexec", "code": ENDLESS})[0]
        for s in (0.1, 0.2)
    }
    assert len(told) == 1


class Batches(TransformersEngine):
    """An engine that keeps its batches, and samples nothing."""

    def __init__(self) -> None:
        super().__init__(None, None, 1, tokens=1 << 30)
        self.batches = []

    def _generate_or_shrink(self, prompts):
        self.batches.append(prompts)
        return [Sample((), (), 0)] * len(prompts)


def batches(slow: tuple[bool, ...]) -> list:
    """The batches of three episodes that act twice, some of them slowly, the later the faster."""
    engine = Batches()

    async def one(number: int) -> None:
        for turn in range(2):
            await engine.sample((number, turn))
            if number == 1:
                continue  # this one has no code
            await run_beside_loop(lambda: time.sleep((4 - number) * 2 * GRACE if slow[number] else 0))
        await engine.sample((number, 2))

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, range(3)))

    asyncio.run(all_of_them())
    return engine.batches


def test_the_batches_of_a_sampler_do_not_depend_on_which_messages_were_slow():
    expected = [[(number, turn) for number in range(3)] for turn in range(3)]
    for slow in product((False, True), repeat=3):
        assert batches(slow) == expected, slow


def batches_of_groups(slow: random.Random | None) -> list:
    """The batches of groups that are replaced and forked when their last episode has ended, whenever that is."""
    engine = Batches()

    async def one(*name: int) -> None:
        rng = random.Random(str(name))
        for turn in range(rng.randint(1, 4)):
            await engine.sample((*name, turn))
            await run_beside_loop(partial(time.sleep, slow.choice((0, 0, GRACE, 2 * GRACE, 3 * GRACE)) if slow else 0))

    async def group(number: int) -> None:
        begin_task_group()
        for replaced in range(3 if number % 2 else 1):
            await asyncio.gather(*(one(number, replaced, 0, i) for i in range(3)))
            await asyncio.gather(*(one(number, replaced, 1, i) for i in range(2)))

    async def every() -> None:
        await asyncio.gather(*map(group, range(4)))

    asyncio.run(every())
    return engine.batches


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_nor_do_those_of_groups_that_begin_when_others_have_ended(seed):
    assert batches_of_groups(random.Random(seed)) == batches_of_groups(None)


def failing(seconds: float) -> None:
    time.sleep(seconds)
    raise ZeroDivisionError


def test_fast_work_keeps_the_loop_s_turn_and_its_errors_reach_the_caller():
    async def run() -> list[str]:
        seen = []

        async def other() -> None:
            seen.append("other")

        task = asyncio.create_task(other())
        seen.append(await run_beside_loop(lambda: "work"))
        await task
        for seconds in (0, 3 * GRACE):
            with pytest.raises(ZeroDivisionError):
                await run_beside_loop(partial(failing, seconds))
        return seen

    assert asyncio.run(run()) == ["work", "other"]


def test_work_that_was_cancelled_keeps_nobody_waiting():
    async def run() -> int:
        engine, done = Batches(), threading.Event()
        slow = asyncio.create_task(run_beside_loop(done.wait))
        await asyncio.sleep(0)
        asking = asyncio.create_task(engine.sample((1,)))
        await asyncio.sleep(0.01)
        assert not engine.batches, "it waits for the slow work"
        slow.cancel()
        await asking
        done.set()
        return len(engine.batches)

    assert asyncio.run(run()) == 1
