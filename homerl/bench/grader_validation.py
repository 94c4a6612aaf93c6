"""Whether the grader of a suite is right: what it says of plays whose result is known.

An instance is played by the expert (gold), by an agent that does nothing, and by agents with one mistake each (near misses).
Gold must succeed, and all others must fail.

Invariants:
- An instance is played as `homerl bench run` plays it, with the scripted user.
- What is left out of gold for a near miss is chosen by what changed in the home, never by what the grader says of it. A play
  that ends in the same state as gold is no near miss, since the act was not needed.
- An instance of which no near miss can be made is counted, and never passed over in silence.
- A wish that holds from the start is wrong wherever it stands: nobody has to do it, and the user never tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from homerl.bench.runner import EpisodeSpec, episode_of_instance
from homerl.bench.suites import read_suite, resolve_setting, resolve_suite, spread_evenly
from homerl.envs.core.messages import Message
from homerl.host.terminal import count_with_noun
from homerl.play.episode import Episode
from homerl.play.faults import describe_escaped_error
from homerl.play.loop import Agent, play
from homerl.play.situation import Reply
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import EXPERT, ExpertConfig, Suite, SuiteInstance
from homerl.worlds.registry import begin_episode, world_of
from homerl.worlds.users import ScriptedUser

STEPWISE = ExpertConfig(mistakes=0.0, styles={"stepwise": 1.0})  # one act in each message, so that each can be left out
NOTHING = "nothing"  # the baseline of worlds in which an agent that does nothing says so in a form of its own


@dataclass(frozen=True)
class InstanceValidation:
    """What the grader got wrong in an instance, in words, and how many near misses were played."""

    id: str
    flaws: tuple[str, ...]
    near_misses: int


@dataclass(frozen=True)
class GraderValidation:
    """The validation of a suite in a setting, by instance in the suite's order."""

    suite: str
    setting: str
    grader: int
    instances: tuple[InstanceValidation, ...]

    @property
    def flawed(self) -> list[InstanceValidation]:
        """The instances that the grader judges wrongly."""
        return [instance for instance in self.instances if instance.flaws]

    @property
    def without_near_miss(self) -> int:
        """The number of instances of which no near miss can be made."""
        return sum(not instance.near_misses for instance in self.instances)

    def describe(self, most: int = 20) -> str:
        """The counts, and what is wrong in the first `most` flawed instances."""
        played = sum(instance.near_misses for instance in self.instances)
        counts = f"{count_with_noun(len(self.instances), 'instance')}, {count_with_noun(played, 'near miss')}"
        lines = [f"{self.suite}, {self.setting}, grader version {self.grader}: {counts}"]
        if self.without_near_miss:
            lines.append(f"no near miss can be made of {count_with_noun(self.without_near_miss, 'instance')}")
        lines += [f"{one.id}: {flaw}" for one in self.flawed[:most] for flaw in one.flaws]
        if len(self.flawed) > most:
            lines.append(f"and {count_with_noun(len(self.flawed) - most, 'other instance')}: --out FILE has all")
        if not self.flawed:
            lines.append("gold passes, nothing fails, and near misses fail")
        return "\n".join(lines)

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """Each instance as plain data."""
        about = {"suite": self.suite, "setting": self.setting, "grader": self.grader}
        return (about | asdict(instance) for instance in self.instances)


def validate_suite(
    source: str,
    setting: str | None = None,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> GraderValidation:
    """Validate the grader of a suite on each instance, or on as many as `limit`, spread evenly.

    `source` is a name or a file, and the setting is the suite's first by default. `progress` is called with (done, total).
    Raises `InputError` if there is no such suite, instance or setting.
    """
    world, suite = resolve_suite(source)
    setting = resolve_setting(suite, setting, "--setting")
    found = read_suite(source)
    found = found if limit is None else spread_evenly(found, limit)
    validated = list[InstanceValidation]()
    for instance in found:
        validated.append(validate_instance(suite, instance, setting))
        progress(len(validated), len(found))
    return GraderValidation(suite.name, setting, world.grader, tuple(validated))


def validate_instance(suite: Suite, instance: SuiteInstance, setting: str) -> InstanceValidation:
    """Play an instance by gold, by nothing and by near misses."""
    spec = episode_of_instance(instance, setting)
    world = world_of(spec.blueprint)
    baselines = world.baselines
    flaws = list[str]()
    played = -1  # nothing is no near miss
    intents = spec.blueprint.intents

    def must_fail(what: str, trajectory: Trajectory) -> None:
        nonlocal played
        played += 1
        if trajectory.success:
            flaws.append(f"{what} passes")
        elif not trajectory.outcome.is_counted:
            flaws.append(f"{what} is not graded: it ended as {_describe_end(trajectory)}")

    try:
        gold = _play_spec(spec, baselines[EXPERT]())
        if not gold.success:
            flaws.append(f"gold does not pass: it ended as {_describe_end(gold)}")
        must_fail(NOTHING, _play_spec(spec, baselines[NOTHING]() if NOTHING in baselines else RepeatedMessages()))
        wanted = {one.id for one in begin_episode(spec.blueprint, spec.limits).situation.open_intents()}
        if 0 < len(wanted) < len(intents):
            flaws += [f"{NOTHING} passes wish {at} of it" for at, one in enumerate(intents, 1) if one.id not in wanted]
        for what, agent in suite.near_misses(instance, setting) or ():
            must_fail(f"a near miss ({what})", _play_spec(spec, agent))
        stepwise = _play_spec(spec, world.expert(STEPWISE, 0))  # it may need more steps than there are
        right = [gold, stepwise] if stepwise.success else [gold]
        for what, trajectory in _play_without_one_act(spec, max(right, key=lambda played: len(_list_acts(played)))):
            must_fail(f"a near miss ({what})", trajectory)
    except Exception as error:  # of a stranger's code: it is a flaw of this instance, and the others are checked
        flaws.append(f"the world or its expert fails: {describe_escaped_error(error)}")
    return InstanceValidation(instance.id, tuple(flaws), max(0, played))


class RepeatedMessages:
    """An agent that says these messages in order, and then nothing."""

    name = "repeated"

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._left = list(messages)

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """The next message."""
        return [Reply(self._left.pop(0) if self._left else {"role": "assistant", "content": ""})]


def _play_without_one_act(spec: EpisodeSpec, gold: Trajectory) -> Iterator[tuple[str, Trajectory]]:
    """Gold without one call that changed something, for each such call; if none did, gold without its last words."""
    messages, acts = [step.message for step in gold.steps], _list_acts(gold)
    for at, call in acts:
        calls = [other for other in _calls_of(messages[at]) if other is not call]
        rest = [{**messages[at], "tool_calls": calls}] if calls else []
        played = _play_spec(spec, RepeatedMessages([*messages[:at], *rest, *messages[at + 1 :]]))
        if not played.steps or played.steps[-1].state_key != gold.steps[-1].state_key:
            name = call["function"]["name"] if call else "what it says"
            yield f"gold without {name} in message {at + 1}", played
    if not acts and messages:
        yield "gold without its last words", _play_spec(spec, RepeatedMessages(messages[:-1]))


def _list_acts(played: Trajectory) -> list[tuple[int, Any]]:
    """The calls that changed something, each with the index of its message."""
    changing = [(at, step) for at, step in enumerate(played.steps) if step.facts.changed and not step.facts.closes]
    return [(at, call) for at, step in changing for call in _calls_of(step.message)]


def _calls_of(message: Message) -> list[Any]:
    """The calls of a message; None stands for what its words do."""
    return message.get("tool_calls") or [None]


def _play_spec(spec: EpisodeSpec, agent: Agent) -> Trajectory:
    """Play an episode as `homerl bench run` does."""
    seed = spec.blueprint.seed
    return asyncio.run(play(begin_episode(spec.blueprint, spec.limits), agent, ScriptedUser(seed), seed))


def _describe_end(played: Trajectory) -> str:
    """How a play ended, in words."""
    why = f" ({played.fault.reason})" if played.fault else ""
    return f"{played.outcome}{why}, with {100 * played.progress:.0f} % of the goals met"
