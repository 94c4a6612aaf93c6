"""Rules (automations): what a home does by itself, when it does so, and how far each rule has come (SMH-Bench TC4).

Four classes tell of a rule:
- `Rule` is the definition: what the rule says, as texts and calls.
- `CompiledRule` is the definition compiled against the plan of a home.
- `RuleProgress` is how far the rule has come: whether its condition held, since when it waits, where its run stands.
- `HomeRule` is a rule in a home: all three together.

A rule has one of four triggers:
- a cron line: the rule acts at each of its times;
- one moment (`at`): the rule acts once and is then deleted;
- a condition: the rule acts when the condition becomes true, or once it has been true for `hold` seconds;
- a change of what it watches: the rule acts when that changes, and its conditions hold before (`before`) and after (`when`).
  With `becomes` it acts at such a change alone that finds this condition to hold where the last one found that it did not.

A rule may combine a time with a condition. It then acts at that time if the condition holds. Any rule may have another
condition (`given`) that must hold when it acts. That this condition begins to hold triggers nothing.

A rule makes calls, or carries out steps, which may wait. A rule that waits leaves rules behind that go on with its run and
are then deleted. `automation.py` makes rules. `home.py` runs them.

Steps are JSON, one of these forms each:
- `{did, locator, arguments}`, a call; `told` has arguments as expressions, which are evaluated when the call is made; with
  `anyway` the steps go on if it is refused;
- `{if, then, else}`; `{repeat, do}` with a number; `{while, do}`; `{do, until}`;
- `{only_if}`, which ends the list that it is in, unless it holds; `{stop: true}`, which ends all;
- `{delay}`, seconds or an expression of seconds;
- `{wait, timeout, stop}`: `wait` is a condition, or a list of triggers `{conditions, hold}`, one of which must come. After
  `timeout` seconds, if there is one, all ends (`stop`), or the steps go on;
- `{switch, to}`: automations by id are enabled, disabled (and their runs end), or, where `to` is null, the other.

Steps are compiled to a program, which is a flat list of instructions.

Invariants:
- A rule never changes. Progress makes a new `HomeRule`, so forks of a home share their rules.
- A rule acts at most once in a second of simulated time, so rules that undo each other cannot loop.
- A jump leads to an instruction of the same program or to its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from homerl.envs.core.state_encoding import AddedField, written_as
from homerl.envs.homeenv.sim.conditions import Condition, ValuedHome
from homerl.envs.homeenv.sim.cron_times import next_cron_time

NEVER = 1 << 62  # seconds
MOST_STEPS = 1000  # instructions of a program, and those that it carries out at a time: a loop that never waits ends there


@written_as("Action", did="did", service="service", arguments="arguments")
@dataclass(frozen=True)
class Action:
    """One service call of a rule. `arguments` are (name, canonical value) pairs."""

    did: str
    service: str
    arguments: tuple[tuple[str, Any], ...] = ()

    def describe_action(self) -> dict[str, Any]:
        """The call in the form in which agents write it: `{did, locator, arguments}`."""
        return {"did": self.did, "locator": self.service, "arguments": dict(self.arguments)}


@dataclass(frozen=True)
class Rule:
    """What a rule says: what to do (`actions` or `steps`), and when (the other fields).

    `when`, `given`, `before` and `becomes` are conditions, `watch` is a device or an attribute, and `steps` are JSON. With
    steps, `actions` are the calls in them. `at` is in seconds since the epoch (local time), and `hold` in seconds. `of` is
    the automation of which the rule is one trigger. An automation has at most `most` runs at a time; with `restart` a new
    run ends those before.
    """

    id: str
    actions: tuple[Action, ...]
    title: str = ""
    cron: str | None = None
    at: int | None = None
    when: str | None = None
    hold: int = 0
    given: str | None = None
    watch: str | None = None
    before: str | None = None
    steps: str | None = None
    most: int | None = None
    restart: bool = False
    of: str | None = None
    becomes: str | None = None

    @property
    def is_timed(self) -> bool:
        """Whether the rule is triggered by the clock (`cron` or `at`) and not by a condition."""
        return self.cron is not None or self.at is not None

    @property
    def trigger_texts(self) -> list[str]:
        """What triggers the rule, but for `at`, as `make_rule` takes it."""
        parts = (self.cron, self.watch, self.before, self.becomes)
        lines = zip(("time_cron", "changed", "before", "becomes"), parts)
        return [f"{name} = {text}" for name, text in lines if text] + ([self.when] if self.when else [])


@dataclass(frozen=True)
class CompiledRule:
    """The texts of a rule, compiled against a plan.

    `condition`, `proviso`, `earlier` and `edge` are the rule's `when`, `given`, `before` and `becomes`. `watched` are the
    slots of its `watch`, and `program` are its `steps`.
    """

    condition: Condition | None = None
    proviso: Condition | None = None
    earlier: Condition | None = None
    watched: tuple[int, ...] = ()
    program: tuple[Instruction, ...] = ()
    edge: Condition | None = None

    @property
    def trigger_slots(self) -> frozenset[int]:
        """The slots whose change may make the rule act."""
        return frozenset(self.watched) | (self.condition.slots if self.condition is not None else frozenset())

    @property
    def slots_it_reads(self) -> frozenset[int]:
        """The slots on which it depends whether and how the rule acts."""
        parts = [self.proviso, self.edge, *(part for step in self.program for part in _conditions_of_step(step))]
        return self.trigger_slots.union(*(part.slots for part in parts if part is not None))

    @property
    def arming_slots(self) -> frozenset[int]:
        """The slots whose change lets the next change of what the rule watches make it act."""
        return (self.edge.slots if self.edge is not None else frozenset[int]()) - frozenset(self.watched)

    @property
    def awaited_slots(self) -> frozenset[int]:
        """The slots whose change a run may wait for."""
        triggers = (trigger for step in self.program if isinstance(step, WaitStep) for trigger in step.triggers)
        return frozenset(slot for trigger in triggers for slot in trigger.compiled.trigger_slots)


@dataclass(frozen=True)
class RuleProgress:
    """How far a rule has come. Times are in seconds since the epoch (local time).

    - `enabled` says whether the rule may act.
    - `held` says whether the condition (`when` or `becomes`) held when it was last evaluated, and `last` has the watched
      values at that time.
    - `since` is when the rule was triggered, `due` the next time by `cron` or `at`, and `fired` when the rule last acted.
    - `run` is the number of the run that the rule goes on with, and `start` the place in its program.
    - `tried` is when the steps last came to each of the actions. A refused one counts, and so do those after it, since
      another home may not refuse it. No behaviour depends on `tried`, so no key and no file has it.
    """

    enabled: bool = True
    held: bool = False
    since: int | None = None
    due: int | None = None
    fired: int | None = None
    last: tuple[Any, ...] | None = None
    run: int | None = None
    start: int = 0
    tried: Mapping[Action, int] = field(default_factory=dict, compare=False, repr=False)


# State keys are older than the added fields.
@written_as(
    "Rule",
    id="definition.id",
    actions="definition.actions",
    title="definition.title",
    cron="definition.cron",
    at="definition.at",
    when="definition.when",
    hold="definition.hold",
    enabled="progress.enabled",
    held="progress.held",
    since="progress.since",
    due="progress.due",
    fired="progress.fired",
    given=AddedField("definition.given"),
    watch=AddedField("definition.watch"),
    before=AddedField("definition.before"),
    last=AddedField("progress.last"),
    steps=AddedField("definition.steps"),
    most=AddedField("definition.most"),
    restart=AddedField("definition.restart", False),
    of=AddedField("definition.of"),
    becomes=AddedField("definition.becomes"),
    run=AddedField("progress.run"),
    start=AddedField("progress.start", 0),
)
@dataclass(frozen=True)
class HomeRule:
    """A rule in a home: its definition, the definition compiled against the home's plan, and how far the rule has come."""

    definition: Rule
    compiled: CompiledRule = field(default=CompiledRule(), compare=False, repr=False)
    progress: RuleProgress = RuleProgress()

    @property
    def id(self) -> str:
        """The rule's id. `<id>#<run>.<number>` goes on with a run of the rule `<id>`."""
        return self.definition.id

    @property
    def next_look_time(self) -> int:
        """The next second at which the rule must be looked at although nothing else changed; `NEVER` if there is none.

        This is its due time, or the end of its `hold`. The rule need not act then: its condition may be false.
        """
        progress = self.progress
        if self.definition.is_timed:
            return NEVER if progress.due is None else progress.due
        return progress.since + self.definition.hold if progress.enabled and progress.since is not None else NEVER

    def is_due(self, clock: int) -> bool:
        """Whether the rule should act at `clock` (s).

        A timed rule acts at its due time if its condition, if any, holds. Any other acts once its condition has held for
        `hold` seconds. A disabled rule does not act, and neither does one that has already acted in this second.
        """
        progress = self.progress
        if not progress.enabled or progress.fired == clock:
            return False
        if self.definition.is_timed:
            return progress.due == clock and (self.compiled.condition is None or progress.held)
        return self.next_look_time <= clock

    def with_progress(self, **progress: Any) -> HomeRule:
        """A copy of the rule with these fields of its progress replaced."""
        return HomeRule(self.definition, self.compiled, replace(self.progress, **progress))

    def begun_in(self, home: ValuedHome) -> HomeRule:
        """The rule with its initial progress in `home`, but for its due time: what already holds does not trigger it."""
        condition, watched = self.compiled.edge or self.compiled.condition, self.compiled.watched
        last = tuple([home.values[slot] for slot in watched]) if watched else None
        return self.with_progress(held=condition is not None and condition.holds_in(home), last=last, since=None)

    def after_time(self, clock: int, **progress: Any) -> HomeRule | None:
        """The rule once its time `clock` (s) has passed, with the next due time; None for an `at` rule, which is done."""
        if self.definition.at is not None:
            return None
        cron = self.definition.cron
        return self.with_progress(since=None, due=next_cron_time(cron, clock) if cron else None, **progress)

    def describe_rule(self) -> dict[str, Any]:
        """The rule as agents see it, as plain JSON data."""
        rule = self.definition
        times = [datetime.fromtimestamp(rule.at, UTC).strftime("at %Y-%m-%d %H:%M:%S")] if rule.at is not None else []
        return {
            "id": rule.id,
            "title": rule.title,
            "enabled": self.progress.enabled,
            "conditions": times + rule.trigger_texts,
            **({"only_if": rule.given} if rule.given else {}),
            **({"hold_seconds": rule.hold} if rule.hold else {}),
            "actions": json.loads(rule.steps) if rule.steps else [action.describe_action() for action in rule.actions],
        }


# The instructions of programs


@dataclass(frozen=True)
class CallStep:
    """A call; `told` are the arguments that are worked out. `anyway` says that a refusal ends nothing."""

    action: Action
    told: tuple[tuple[str, Condition], ...] = ()
    anyway: bool = False


@dataclass(frozen=True)
class JumpStep:
    """Go on at `to`, or, with a condition, only if that does not hold."""

    to: int
    unless: Condition | None = None


@dataclass(frozen=True)
class DelayStep:
    """Wait for some seconds."""

    seconds: int | Condition


@dataclass(frozen=True)
class WaitStep:
    """Wait until `until` holds, or for the first of some triggers. After `timeout` (s) go on at `late`."""

    until: Condition | None
    triggers: tuple[HomeRule, ...]
    timeout: int | None
    late: int


@dataclass(frozen=True)
class SwitchStep:
    """Enable or disable automations; without `to`, the other of both."""

    ids: tuple[str, ...]
    to: bool | None


Instruction = CallStep | JumpStep | DelayStep | WaitStep | SwitchStep


def _conditions_of_step(step: Instruction) -> Iterator[Condition | None]:
    """The conditions and expressions on which an instruction depends."""
    match step:
        case CallStep(told=told):
            yield from (condition for _, condition in told)
        case JumpStep(unless=unless):
            yield unless
        case DelayStep(seconds=Condition() as seconds):
            yield seconds
        case WaitStep(until=until, triggers=triggers):
            yield until
            yield from (part for trigger in triggers for part in (trigger.compiled.condition, trigger.compiled.edge))


def seconds_of_delay(value: int | Condition, values: list[Any], clock: int) -> float:
    """A number of seconds that is told or worked out; 0 where it cannot be, or is less."""
    if not isinstance(value, Condition):
        return value
    try:
        return max(float(value.compute_value(values, clock)), 0.0)
    except (TypeError, ValueError, ArithmeticError):
        return 0.0
