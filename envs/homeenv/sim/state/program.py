"""Steps of a rule that do more than calls: they branch, repeat, wait. A program is a flat list of instructions.

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

from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.sim.plan.conditions import Condition
from homerl.envs.homeenv.sim.state.rules import Action, Rule

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
