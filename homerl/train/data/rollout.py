"""Rollouts: the policy plays many blueprints concurrently, with rewards at every step.

Invariants:
- The same blueprints, weights and seeds give the same rollouts.
- An episode that ends by a fault that is not the agent's is retried in a fresh world, from where it began. After the last
  retry it is marked, and does not count.
- A rollout always has a prompt and a completion; the completion may be masked.
- A blueprint's world is made once; its episodes are forks of it, since to fork is hundreds of times faster than to make.
- No episode waits for another.

`WaitTimes` measures what concurrent episodes wait for, and for how long. Each moment of waiting counts to one thing: to the
policy if any episode waits for it, else to the user. An episode does not yield between two waits, but while slow code of its
agent runs (`ordered_async_work.py`). So that time is this process's own work: world, rewards, rendering and bookkeeping.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from homerl.models.endpoint.endpoint_settings import AT_ONCE, Behaviours
from homerl.models.policy.policy_agent import Engine, PolicyAgent, Sample, Thoughts, TokenLedger
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import User, play
from homerl.play.replay import add_step_rewards
from homerl.play.situation import BlueprintProtocol, Utterance
from homerl.play.trajectory import Trajectory
from homerl.play.words.grammar import Split
from homerl.rewards.composite import RewardWeights
from homerl.train.agents.capture_proxy import CaptureProxy, open_capture_proxy
from homerl.train.agents.captured_dialogues import CapturedDialogues
from homerl.train.agents.program_player import play_program
from homerl.train.agents.program_settings import ProgramSettings
from homerl.train.credit.contract import CreditInput
from homerl.train.engines.contract import TrainedEngine
from homerl.worlds.registry import begin_episode, blueprint_with_behaviours, make_blueprint_of_seed
from homerl.worlds.sources import AnyBlueprintSource
from homerl.worlds.users import UserFactory

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class WaitTimes:
    """The wait times of all episodes: `open` counts current waits by cause, `spent` has their seconds.

    `own` has the seconds of this process's own work, and `rewarding` those of computing rewards.
    """

    clock: Callable[[], float] = time.perf_counter
    open: Counter[str] = field(default_factory=Counter)
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    own: float = 0.0
    rewarding: float = 0.0
    _since: float = 0.0

    @contextmanager
    def measure_wait(self, whom: str) -> Iterator[None]:
        """One episode waits for `whom` within the context."""
        self._settle_wait()
        self.open[whom] += 1
        try:
            yield
        finally:
            self._settle_wait()
            self.open[whom] -= 1

    def take_wait_seconds(self) -> dict[str, float]:
        """The seconds by cause since the last call; then start again from zero."""
        self._settle_wait()
        seconds = {"policy": self.spent["policy"], "user": self.spent["user"], "world": self.own, "reward": self.rewarding}
        self.spent.clear()
        self.own = self.rewarding = 0.0
        return seconds

    def __str__(self) -> str:
        waits = [f"{count} of its episodes wait for the {whom}" for whom, count in sorted(self.open.items()) if count]
        return ", ".join(waits) or "no episode waits for anybody"

    def _settle_wait(self) -> None:
        now = self.clock()
        whom = next((name for name in ("policy", "user") if self.open[name]), None)
        if whom:
            self.spent[whom] += now - self._since
        self._since = now


class EpisodeTimer:
    """Measures the waits of one episode, and its work between them."""

    def __init__(self, waiting: WaitTimes) -> None:
        self.waiting, self.since = waiting, waiting.clock()

    @contextmanager
    def measure_wait(self, whom: str) -> Iterator[None]:
        """The episode waits for `whom` within the context."""
        self.count_own_work()
        try:
            with self.waiting.measure_wait(whom):
                yield
        finally:
            self.since = self.waiting.clock()

    def count_own_work(self) -> None:
        """Count the time since the last wait as own work."""
        self.waiting.own += self.waiting.clock() - self.since


RETRIES = 2
MakeUser = Callable[[int], User]
Start = Callable[[Episode], Awaitable[Episode]]  # where the rollouts of a blueprint begin


@dataclass(frozen=True)
class Rollout:
    """A played blueprint with its tokens. `trajectory.rewards` has each step's parts by name.

    A program that plays (`homerl/train/agents`) may have several dialogues with the model: `others` are all but the first.
    """

    trajectory: Trajectory
    ledger: TokenLedger
    others: tuple[TokenLedger, ...] = ()

    @property
    def ledgers(self) -> tuple[TokenLedger, ...]:
        """The tokens of every dialogue with the model."""
        return self.ledger, *self.others

    @property
    def prefix_steps(self) -> int:
        """The number of first steps that are the expert's (`prefixes.py`), which the policy only read."""
        return self.ledger.shared

    @property
    def rewards_by_step(self) -> list[float]:
        """The reward r_t of every step."""
        return [sum(parts.values()) for parts in self.trajectory.rewards]

    @property
    def sampled_lengths(self) -> list[int]:
        """The number of tokens sampled in each step; 0 for the expert's."""
        return self._count_by_step(lambda ledger, start, end: end - start)

    @property
    def trained_lengths(self) -> list[int]:
        """The number of tokens of each step that have a loss; those that are masked have none."""
        return self._count_by_step(lambda ledger, start, end: sum(ledger.mask[start:end]))

    def _count_by_step(self, count: Callable[[TokenLedger, int, int], int]) -> list[int]:
        found: Counter[int] = Counter(dict.fromkeys(range(len(self.trajectory.steps)), 0))
        for ledger in self.ledgers:
            for at, (step, (start, end)) in enumerate(zip(ledger.span_steps, ledger.spans, strict=True)):
                found[step] += 0 if at < ledger.shared else count(ledger, start, end)
        return [found[step] for step in sorted(found)]

    @property
    def credit_input(self) -> CreditInput:
        """What a credit mode needs to know of the rollout."""
        own = slice(self.prefix_steps, None)
        states = [step.decision for step in self.trajectory.steps[own]]
        return CreditInput(self.rewards_by_step[own], self.trajectory.outcome.is_counted, states)


@dataclass(frozen=True)
class RolloutPlayer:
    """Plays blueprints with everything that a rollout needs. With `mask_truncated`, samples that were truncated at their
    limit have no loss. With a `program`, it plays, and the engine samples what it asks for.
    """

    engine: TrainedEngine
    tokenizer: PreTrainedTokenizerBase
    make_user: MakeUser
    limits: EpisodeLimits
    weights: RewardWeights
    max_tokens: int
    thoughts: Thoughts = "kept"
    mask_truncated: bool = False
    program: ProgramSettings | None = None
    waiting: WaitTimes = field(default_factory=WaitTimes)

    def play_blueprints(self, blueprints: Sequence[BlueprintProtocol], seeds: Sequence[int]) -> list[Rollout]:
        """Play every blueprint once, all concurrently, each at its own pace."""
        return asyncio.run(self.play_concurrently(blueprints, seeds))

    async def play_concurrently(
        self, blueprints: Sequence[BlueprintProtocol], seeds: Sequence[int], start: Start | None = None
    ) -> list[Rollout]:
        """The same inside an event loop. With `start`, the blueprints are one, and all rollouts begin where it says."""
        timer, begun = EpisodeTimer(self.waiting), dict[int, Episode]()
        for blueprint in blueprints:
            if id(blueprint) not in begun:  # rollouts of one blueprint fork one episode
                begun[id(blueprint)] = begin_episode(blueprint, self.limits)
        timer.count_own_work()
        openings = [begun[id(blueprint)] for blueprint in blueprints]
        if start is not None:
            openings = [await start(openings[0])] * len(openings)
        if self.program is None:
            return list(await asyncio.gather(*map(self.play_rollout, openings, seeds)))
        async with open_capture_proxy() as proxy:
            plays = partial(self.play_program_rollout, self.program, proxy)
            return list(await asyncio.gather(*map(plays, openings, seeds)))

    def play_metrics(self) -> dict[str, float]:
        """What this process's users and engine report: requests and errors of users without a script so far (`user/...`),
        and the engine's own figures since the last call.
        """
        users = self.make_user.usage_metrics() if isinstance(self.make_user, UserFactory) else {}
        return {**users, **(self.engine.metrics() if hasattr(self.engine, "metrics") else {})}

    async def play_rollout(self, opening: Episode, seed: int) -> Rollout:
        """Play one rollout from a fork of an episode."""
        for attempt in range(RETRIES + 1):
            turns = EpisodeTimer(self.waiting)
            engine, prefix_steps = TimedEngine(self.engine, turns), len(opening.steps)
            agent = PolicyAgent(engine, self.tokenizer, self.max_tokens, prefix_steps, thoughts=self.thoughts)
            user = TimedUser(self.make_user(seed + attempt), turns)  # the same one might fail in the same way
            trajectory = await play(opening.fork(), agent, user, seed)
            turns.count_own_work()
            if trajectory.outcome.is_counted:
                break
        agent.ledger.mask_if_unsampled(self.tokenizer.eos_token_id)
        if self.mask_truncated:
            agent.ledger.mask_truncated()
        begun = time.perf_counter()
        rollout = Rollout(add_step_rewards(trajectory, self.weights), agent.ledger)
        self.waiting.rewarding += time.perf_counter() - begun
        return rollout

    async def play_program_rollout(
        self, program: ProgramSettings, proxy: CaptureProxy, opening: Episode, seed: int
    ) -> Rollout:
        """Play one rollout with a program from a fork of an episode that nobody has played."""
        for attempt in range(RETRIES + 1):
            engine = TimedEngine(self.engine, self.waiting)
            dialogues = CapturedDialogues(engine, self.tokenizer, self.max_tokens, self.thoughts)
            user = TimedUser(self.make_user(seed + attempt), self.waiting)
            trajectory = await play_program(opening.fork(), program, proxy, dialogues, user, seed)
            if trajectory.outcome.is_counted:
                break
        ledger, *others = dialogues.finish_ledgers(self.mask_truncated)
        return Rollout(add_step_rewards(trajectory, self.weights), ledger, tuple(others))


@dataclass(frozen=True)
class TimedEngine:
    """An engine that counts the time for which one episode waits for it."""

    engine: Engine
    turns: EpisodeTimer | WaitTimes

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample, and count the wait."""
        with self.turns.measure_wait("policy"):
            return await self.engine.sample(prompt)


@dataclass(frozen=True)
class TimedUser:
    """A user that counts the time for which one episode waits for it."""

    user: User
    turns: EpisodeTimer | WaitTimes

    @property
    def name(self) -> str:
        """The name of the user."""
        return self.user.name

    async def speak(self, episode: Episode) -> Utterance:
        """Let the user speak, and count the wait."""
        with self.turns.measure_wait("user"):
            return await self.user.speak(episode)


def make_blueprint_cache(
    recipe: AnyBlueprintSource, behaviours: Behaviours = AT_ONCE, split: Split = "train"
) -> Callable[[int], BlueprintProtocol]:
    """A cached function from a seed to its blueprint, of training or `heldout`. The rollouts of a group share one."""
    return lru_cache(maxsize=1024)(
        lambda seed: blueprint_with_behaviours(make_blueprint_of_seed(recipe, split, seed), behaviours, recipe)
    )
