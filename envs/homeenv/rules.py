"""Rules: what a home does by itself and when, and how far each rule has come (SMH-Bench TC4).

A rule acts at the times of a cron line, at one moment (`at`, then it is gone), or when a condition begins to hold. With
`hold`, the condition must have held for so many seconds. With a time and a condition, it acts at the time if the condition
holds then. `automation.py` makes rules; `clock.py` lets them act.

Invariants: a rule never changes, its progress included; it acts once a second at most, so that rules which undo each other
come to rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from envs.homeenv.conditions import Condition
from envs.homeenv.cron import next_time

NEVER = 1 << 62  # seconds


@dataclass(frozen=True)
class Action:
    """One service call of a rule; `arguments` by name."""

    did: str
    service: str
    arguments: tuple[tuple[str, Any], ...] = ()

    def describe(self) -> dict[str, Any]:
        """The call as agents write it."""
        return {"did": self.did, "locator": self.service, "arguments": dict(self.arguments)}


@dataclass(frozen=True)
class Rule:
    """What to do (`actions`), when (`cron`, `at`, `when`, `hold`), and how far the rule has come.

    `held` says whether its condition held when last looked at, `since` is from when on it has held, `due` is its next time
    by the clock, and `fired` is when it last acted. All times are in seconds since the epoch (local time).
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
    condition: Condition | None = field(default=None, compare=False, repr=False)

    @property
    def timed(self) -> bool:
        """Whether it acts at times of the clock rather than at the beginning of a condition."""
        return self.cron is not None or self.at is not None

    @property
    def time(self) -> int:
        """The second at which it next acts, or passes a time, by the clock alone; `NEVER` if there is none."""
        if self.timed:
            return NEVER if self.due is None else self.due
        return self.since + self.hold if self.enabled and self.since is not None else NEVER

    def is_due(self, clock: int) -> bool:
        """Whether it should act now: its time has come and its condition holds, or has held for long enough."""
        if not self.enabled or self.fired == clock:
            return False
        return self.due == clock and (self.condition is None or self.held) if self.timed else self.time <= clock

    def with_progress(self, **progress: Any) -> Rule:
        """The rule with this progress. Faster than `dataclasses.replace`, for fields that need no check."""
        rule = object.__new__(Rule)
        vars(rule).update(vars(self), **progress)
        return rule

    def after_time(self, clock: int, **progress: Any) -> Rule | None:
        """The rule after its time has come; None if that was its only one."""
        if self.at is not None:
            return None
        return self.with_progress(since=None, due=next_time(self.cron, clock) if self.cron else None, **progress)

    def describe(self) -> dict[str, Any]:
        """The rule as agents see it."""
        times = [f"time_cron = {self.cron}"] if self.cron else []
        times += [datetime.fromtimestamp(self.at, UTC).strftime("at %Y-%m-%d %H:%M:%S")] if self.at is not None else []
        return {
            "id": self.id, "title": self.title, "enabled": self.enabled,
            "conditions": times + ([self.when] if self.when else []),
            **({"hold_seconds": self.hold} if self.hold else {}),
            "actions": [action.describe() for action in self.actions],
        }  # fmt: skip
