"""Rules (automations): what a home does by itself, when it does so, and the progress of each rule (SMH-Bench TC4).

A rule has one of four triggers:
- a cron line: the rule acts at each of its times;
- one moment (`at`): the rule acts once and is then deleted;
- a condition: the rule acts when the condition becomes true, or once it has been true for `hold` seconds;
- a change of what it watches: the rule acts when that changes, and its conditions hold before (`before`) and after (`when`).

A rule may combine a time with a condition. It then acts at that time if the condition holds. Any rule may have another one
(`given`) that must hold when it acts, and whose beginning triggers nothing.

What a rule does are calls, or steps (`program.py`), which may wait. A rule that waits leaves rules of its run behind, which
go on with it and are then deleted. `automation.py` makes rules, `clock.py` and `agenda.py` run them.

Invariants:
- A rule is immutable. Progress makes a new `Rule` object.
- A rule acts at most once in a second of simulated time, so rules that undo each other cannot loop.
- State keys hash the `repr` of rules: the names of `Rule`, `Action` and their fields are part of every stored key. Keys are
  older than the fields from `given` on, so a rule does not show those that are as they are by default.

Steps of a rule that do more than calls: they branch, repeat, wait. A program is a flat list of instructions.

Steps are JSON, one of these forms each:
- `{did, locator, arguments}`, a call; `told` has arguments as expressions, which are worked out when the call is made;
- `{if, then, else}`; `{repeat, do}` with a number; `{while, do}`; `{do, until}`;
- `{only_if}`, which ends the list that it is in, unless it holds; `{stop: true}`, which ends all;
- `{delay}`, seconds or an expression of seconds;
- `{wait, timeout, stop}`: `wait` is a condition, or a list of triggers `{conditions, hold}`, one of which must come. After
  `timeout` seconds, if there is one, all ends (`stop`), or the steps go on.

- `{switch, to}`: automations by id are enabled, disabled (and their runs end), or, where `to` is null, the other.

Invariants: an instruction never changes; a jump leads to an instruction or to the end of the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Protocol

from homerl.envs.homeenv.sim.plan.conditions import Condition
from homerl.envs.homeenv.sim.values.cron_times import next_time

NEVER = 1 << 62  # seconds
LATER = frozenset("given watch before last steps most restart of run start".split())  # fields that old keys do not know


@dataclass(frozen=True)
class Action:
    """One service call of a rule. `arguments` are (name, canonical value) pairs."""

    did: str
    service: str
    arguments: tuple[tuple[str, Any], ...] = ()

    def describe_action(self) -> dict[str, Any]:
        """The call in the form in which agents write it: `{did, locator, arguments}`."""
        return {"did": self.did, "locator": self.service, "arguments": dict(self.arguments)}


class Instruction(Protocol):
    """A part of a rule's program (`program.py`)."""

    @property
    def reads(self) -> tuple[Condition | None, ...]:
        """What it depends on."""

    @property
    def awaits(self) -> frozenset[int]:
        """The slots whose change it waits for."""


@dataclass(frozen=True)
class Rule:
    """What to do (`actions`, `steps`), when to do it (`cron`, `at`, `when`, `hold`, `watch`), and the progress of the rule.

    `when`, `given`, `before`, `watch` and `steps` are texts; `condition`, `proviso`, `earlier`, `watched` (slots) and
    `program` are their compiled forms. With `steps` (JSON), `actions` are the calls in them. `of` is the automation that a
    rule is one trigger of; it has at most `most` runs at a time, or `restart` ends those before. `run` is the number of the
    run that a rule goes on with, and `start` the place in its program.

    Five fields are progress: `held` (whether the condition held when it was last evaluated), `last` (the watched values
    then), `since` (when the rule was triggered), `due` (the next time by cron or `at`) and `fired` (when the rule last
    acted). Times are in seconds since the epoch (local time). `hold` is in seconds.

    `tried` is a trace that no behaviour depends on, so no key and no file has it: when the steps last came to each of the
    `actions`. A refused one counts, and so do those after it, since another home may not refuse it.
    """

    id: str
    actions: tuple[Action, ...]
    title: str = ""
    cron: str | None = None
    at: int | None = None
    when: str | None = None
    hold: int = 0
    enabled: bool = True
    held: bool = False
    since: int | None = None
    due: int | None = None
    fired: int | None = None
    given: str | None = None
    watch: str | None = None
    before: str | None = None
    last: tuple[Any, ...] | None = None
    steps: str | None = None
    most: int | None = None
    restart: bool = False
    of: str | None = None
    run: int | None = None
    start: int = 0
    tried: Mapping[Action, int] = field(default_factory=dict, compare=False, repr=False)
    condition: Condition | None = field(default=None, compare=False, repr=False)
    proviso: Condition | None = field(default=None, compare=False, repr=False)
    earlier: Condition | None = field(default=None, compare=False, repr=False)
    watched: tuple[int, ...] = field(default=(), compare=False, repr=False)
    program: tuple[Instruction, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        told = (f.name for f in fields(self) if f.repr and (f.name not in LATER or getattr(self, f.name) != f.default))
        return f"Rule({', '.join(f'{name}={getattr(self, name)!r}' for name in told)})"

    @property
    def is_timed(self) -> bool:
        """Whether the rule is triggered by the clock (`cron` or `at`) and not by a condition."""
        return self.cron is not None or self.at is not None

    @property
    def next_look_time(self) -> int:
        """The next second at which the rule must be looked at although nothing else changed; `NEVER` if there is none.

        This is its due time, or the end of its `hold`. The rule need not act then: its condition may be false.
        """
        if self.is_timed:
            return NEVER if self.due is None else self.due
        return self.since + self.hold if self.enabled and self.since is not None else NEVER

    def is_due(self, clock: int) -> bool:
        """Whether the rule should act at `clock` (s).

        A timed rule acts at its due time if its condition, if any, holds. Any other acts once its condition has held for
        `hold` seconds. A disabled rule does not act, and neither does one that has already acted in this second.
        """
        if not self.enabled or self.fired == clock:
            return False
        return self.due == clock and (self.condition is None or self.held) if self.is_timed else self.next_look_time <= clock

    def with_progress(self, **progress: Any) -> Rule:
        """A copy of the rule with some progress fields replaced. It skips `__init__`, so it is faster than `replace`."""
        rule = object.__new__(Rule)
        vars(rule).update(vars(self), **progress)
        return rule

    def after_time(self, clock: int, **progress: Any) -> Rule | None:
        """The rule once its time `clock` (s) has passed, with the next due time; None for an `at` rule, which is done."""
        if self.at is not None:
            return None
        return self.with_progress(since=None, due=next_time(self.cron, clock) if self.cron else None, **progress)

    @property
    def trigger_slots(self) -> frozenset[int]:
        """The slots whose change may make the rule act."""
        return frozenset(self.watched) | (self.condition.slots if self.condition is not None else frozenset())

    @property
    def slots_it_reads(self) -> frozenset[int]:
        """The slots on which it depends whether and how the rule acts."""
        parts = [self.proviso, *(part for step in self.program for part in step.reads)]
        return self.trigger_slots.union(*(part.slots for part in parts if part is not None))

    @property
    def awaited_slots(self) -> frozenset[int]:
        """The slots whose change a run may wait for."""
        return frozenset(slot for step in self.program for slot in step.awaits)

    @property
    def trigger_texts(self) -> list[str]:
        """What triggers the rule, but for `at`, as `make_rule` takes it."""
        lines = (("time_cron", self.cron), ("changed", self.watch), ("before", self.before))
        return [f"{name} = {text}" for name, text in lines if text] + ([self.when] if self.when else [])

    def describe_rule(self) -> dict[str, Any]:
        """The rule as agents see it, as plain JSON data."""
        times = [datetime.fromtimestamp(self.at, UTC).strftime("at %Y-%m-%d %H:%M:%S")] if self.at is not None else []
        return {
            "id": self.id,
            "title": self.title,
            "enabled": self.enabled,
            "conditions": times + self.trigger_texts,
            **({"only_if": self.given} if self.given else {}),
            **({"hold_seconds": self.hold} if self.hold else {}),
            "actions": json.loads(self.steps) if self.steps else [action.describe_action() for action in self.actions],
        }


MOST_STEPS = 1000  # instructions of a program, and those that it carries out at a time: a loop that never waits ends there


class ProgramStep:
    """What most instructions are: they wait for nothing that changes."""

    awaits: frozenset[int] = frozenset()


@dataclass(frozen=True)
class CallStep(ProgramStep):
    """A call; `told` are the arguments that are worked out."""

    action: Action
    told: tuple[tuple[str, Condition], ...] = ()

    @property
    def reads(self) -> tuple[Condition, ...]:
        """What it depends on."""
        return tuple(part for _, part in self.told)


@dataclass(frozen=True)
class JumpStep(ProgramStep):
    """Go on at `to`, or, with a condition, only if that does not hold."""

    to: int
    unless: Condition | None = None

    @property
    def reads(self) -> tuple[Condition | None, ...]:
        """What it depends on."""
        return (self.unless,)


@dataclass(frozen=True)
class DelayStep(ProgramStep):
    """Wait for some seconds."""

    seconds: int | Condition

    @property
    def reads(self) -> tuple[Condition, ...]:
        """What it depends on."""
        return (self.seconds,) if isinstance(self.seconds, Condition) else ()


@dataclass(frozen=True)
class WaitStep:
    """Wait until `until` holds, or for the first of some triggers. After `timeout` (s) go on at `late`."""

    until: Condition | None
    triggers: tuple[Rule, ...]
    timeout: int | None
    late: int

    @property
    def reads(self) -> tuple[Condition | None, ...]:
        """What it depends on."""
        return (self.until, *(one.condition for one in self.triggers))

    @property
    def awaits(self) -> frozenset[int]:
        """The slots whose change it waits for."""
        return frozenset[int]().union(*(one.trigger_slots for one in self.triggers))


@dataclass(frozen=True)
class SwitchStep(ProgramStep):
    """Enable or disable automations; without `to`, the other of both."""

    ids: tuple[str, ...]
    to: bool | None
    reads: tuple[Condition, ...] = ()


def seconds_of_delay(value: int | Condition, values: list[Any], clock: int) -> float:
    """A number of seconds that is told or worked out; 0 where it cannot be, or is less."""
    if not isinstance(value, Condition):
        return value
    try:
        return max(float(value.compute_value(values, clock)), 0.0)
    except (TypeError, ValueError, ArithmeticError):
        return 0.0
