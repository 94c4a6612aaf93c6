"""Automations: rules of a home that act while its clock moves (SMH-Bench TC4).

A rule acts at the times of a cron line, at one moment (`at`, then it is gone), or when a condition begins to hold
(and, with `hold`, has held for so many seconds). With a time and a condition it acts at the time if the condition
holds then. A condition that holds when the rule is made is not a beginning.

Invariants: rules are immutable, their progress included; a rule that was made is executable (its devices,
services and arguments exist, its condition compiles, its cron line has a next time or says so); a rule acts once a
second at most, so rules that undo each other come to rest; times are a function of the cron line and the clock.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from typing import Any

from croniter import CroniterBadCronError, CroniterBadDateError, croniter

from envs.homeenv.audit import Refused
from envs.homeenv.conditions import Condition, ConditionError, compile_condition
from envs.homeenv.home import LATEST, Home, Plan
from envs.homeenv.types import SHOWN, clip, shown, whole_characters

TIME_CRON = re.compile(r"time_cron\s*={1,2}(.+)$")
DAY = 86400
NEVER = 1 << 62  # seconds
QUARTZ_DAY = re.compile(r"(?<![#\w])([1-7])(?!\w)")
ANY_TIME = re.compile(r"(?i)(?<![a-z])[hr](?![a-z])")  # a time that croniter draws, another in every process
LONGEST_WAIT = 100 * 366 * 86400  # seconds: nobody waits longer


@dataclass(frozen=True)
class Action:
    """One service call of a rule; `arguments` by name."""

    did: str
    service: str
    arguments: tuple[tuple[str, Any], ...] = ()

    def describe(self) -> dict[str, Any]:
        return {"did": self.did, "locator": self.service, "arguments": dict(self.arguments)}


@dataclass(frozen=True)
class Rule:
    """What to do (`actions`) and when (`cron`, `at`, `when`, `hold`); the rest is how far it has come.

    `held`: whether its condition held when last looked at, `since` from when; `due`: its next time by the clock;
    `fired`: when it last acted.
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
        """When it next acts, or passes a time, by the clock alone."""
        if self.timed:
            return NEVER if self.due is None else self.due
        return self.since + self.hold if self.enabled and self.since is not None else NEVER

    def is_due(self, clock: int) -> bool:
        """Whether it should act now: its time has come and its condition holds, or has held for long enough."""
        if not self.enabled or self.fired == clock:
            return False
        return self.due == clock and (self.condition is None or self.held) if self.timed else self.time <= clock

    def further(self, **progress: Any) -> Rule:
        """The rule when it has come further: `replace` for what needs no check."""
        rule = object.__new__(Rule)
        vars(rule).update(vars(self), **progress)
        return rule

    def over(self, clock: int, **progress: Any) -> Rule | None:
        """The rule after its time has come; None if that was its only one."""
        if self.at is not None:
            return None
        return self.further(since=None, due=next_time(self.cron, clock) if self.cron else None, **progress)

    def describe(self) -> dict[str, Any]:
        """As agents see it."""
        times = [f"time_cron = {self.cron}"] if self.cron else []
        times += [datetime.fromtimestamp(self.at, UTC).strftime("at %Y-%m-%d %H:%M:%S")] if self.at is not None else []
        return {
            "id": self.id, "title": self.title, "enabled": self.enabled,
            "conditions": times + ([self.when] if self.when else []),
            **({"hold_seconds": self.hold} if self.hold else {}),
            "actions": [action.describe() for action in self.actions],
        }  # fmt: skip


def make_rule(
    home: Home,
    conditions: Sequence[str],
    actions: Iterable[Mapping[str, Any]],
    title: str = "",
    delay: int | None = None,
    hold: int = 0,
    id: str | None = None,
) -> Rule:
    """A rule for `home` from what an agent writes, or `Refused`.

    `conditions`: expressions over the home and at most one `time_cron = ...`; `delay`: act once, so many seconds
    from now; `actions`: `{did, locator, arguments}`.
    """
    texts = [_text(text) for text in conditions]
    crons = [found[1].strip() for text in texts if (found := TIME_CRON.match(text))]
    states = [text for text in texts if not TIME_CRON.match(text)]
    if len(crons) > 1 or (crons and delay is not None):
        raise Refused("wrong_type", "an automation has one time at most: give each time an automation of its own")
    if not crons and delay is None and not states:
        raise Refused("missing_argument", "an automation needs a condition, a time_cron or a delay")
    if hold and (crons or delay is not None):
        raise Refused("wrong_type", "hold_seconds goes with a condition alone, not with a time")
    if delay is not None and home.clock + (delay := _seconds("delay_seconds", delay)) > LATEST:
        raise Refused("out_of_range", f"delay_seconds is {delay}, and the clock ends at {LATEST}")
    when = " and ".join(f"({text})" for text in states) if len(states) > 1 else (states or [None])[0]
    condition = _compiled(when, home.plan) if when else None
    rule = Rule(
        id=id or next_id(home),
        actions=tuple(checked_action(home.plan, action) for action in actions),
        title=whole_characters(title),
        cron=crons[0] if crons else None,
        at=home.clock + delay if delay is not None else None,
        when=when,
        hold=_seconds("hold_seconds", hold),
        condition=condition,
    )
    if not rule.actions:
        raise Refused("missing_argument", "an automation needs an action")
    return armed(rule, home)


def restored_rule(plan: Plan, clock: int, told: Mapping[str, Any], actions: Iterable[Mapping[str, Any]]) -> Rule:
    """A rule and how far it had come by `clock`, as a file tells it, or `Refused`: executable like any other."""
    condition = _compiled(_text(told["when"]), plan) if told["when"] is not None else None
    rule = Rule(**told, actions=tuple(checked_action(plan, action) for action in actions), condition=condition)
    if rule.cron is not None:
        _cron(rule.cron)
    if not rule.actions or not rule.id or (not rule.timed and condition is None):
        raise Refused("missing_argument", f"automation {shown(rule.id)} needs an id, an action, and a condition or a time")
    if (rule.cron is not None and rule.at is not None) or (rule.timed and rule.hold):
        raise Refused("wrong_type", f"automation {shown(rule.id)} has one time, or a condition that must have held")
    _seconds("hold_seconds", rule.hold)
    whole_characters(rule.title)
    over, ahead = (rule.since, rule.fired), (rule.at, rule.due)
    if not all(0 <= (at or 0) <= clock for at in over) or not all(0 <= (at or 0) <= LATEST for at in ahead):
        raise Refused("out_of_range", f"automation {shown(rule.id)} has seen a time that the clock ({clock}) has not")
    return rule


def armed(rule: Rule, home: Home) -> Rule:
    """The rule as it begins to watch: what holds now is no beginning."""
    held = rule.condition is not None and rule.condition.holds(home)
    due = rule.at if rule.at is not None else next_time(rule.cron, home.clock) if rule.cron else None
    return replace(rule, held=held, since=None, due=due)


def put_rule(home: Home, index: int, rule: Rule | None) -> None:
    """Replace the rule at a place of the home's list, or take it out."""
    home.rules = (*home.rules[:index], *([rule] if rule else []), *home.rules[index + 1 :])


def next_id(home: Home) -> str:
    """The smallest number that no rule of the home has."""
    taken = {rule.id for rule in home.rules}
    return next(str(n) for n in range(1, len(taken) + 2) if str(n) not in taken)


def checked_action(plan: Plan, action: Mapping[str, Any]) -> Action:
    """A call whose device, service and arguments exist, or `Refused`; whether it may run is asked when it runs."""
    if not isinstance(action, Mapping) or not {"did", "locator"} <= set(action) <= {"did", "locator", "arguments"}:
        raise Refused("wrong_type", "an action is {did, locator, arguments}")
    did, locator, arguments = str(action["did"]), str(action["locator"]), action.get("arguments") or {}
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise Refused("wrong_type", "the arguments of an action are an object")
    if did not in plan.by_did:
        raise Refused("unknown_device", f"there is no device {shown(did)}")
    if (did, locator) not in plan.services:
        known = ", ".join(plan.by_did[did].spec.service_index) or "no services"
        raise Refused("unknown_service", f"{plan.by_did[did].name} {did} has no service '{locator}' (it has {known})")
    bound = plan.services[did, locator][0].bind((), arguments)
    return Action(did, locator, tuple((key, bound[key]) for key in arguments))


def next_time(cron: str, after: int) -> int | None:
    """The first time of a cron line after a moment (seconds since the epoch), or None where it has none left."""
    day, first = after - after % DAY, _first_time(cron, after - after % DAY)
    if first is None or first > after:
        return first
    times = _times_of_day(cron)
    index = bisect_right(times, after - day)
    return day + times[index] if index < len(times) else _first_time(cron, day + DAY)


@lru_cache(maxsize=1 << 12)
def _first_time(cron: str, day: int) -> int | None:
    """The first time from the beginning of a day on: which days a line means is croniter's business."""
    try:
        return int(copy(_cron(cron)).get_next(float, start_time=day - 1))
    except (CroniterBadDateError, OverflowError, ValueError):  # none within croniter's 50 years, or none on the calendar
        return None


@lru_cache(maxsize=64)
def _times_of_day(cron: str) -> array[int]:
    """The seconds of a day that a line names, where it names the day."""
    minutes, hours, _, _, _, seconds, *_ = *_cron(cron).expanded, [0]
    fields = [range(n) if field == ["*"] else field for field, n in ((hours, 24), (minutes, 60), (seconds, 60))]
    return array("i", (3600 * hour + 60 * minute + second for hour, minute, second in product(*fields)))


@lru_cache(maxsize=4096)
def _cron(text: str) -> croniter:
    """A cron line of 5, 6 (seconds first) or 7 fields (year last, Sunday is day 1), read once: copy it to use it."""
    fields = text.split()
    if len(fields) == 7:
        fields[5] = QUARTZ_DAY.sub(lambda day: str(int(day[1]) - 1), fields[5])
    line = " ".join(fields)
    try:
        if ANY_TIME.search(line):
            raise CroniterBadCronError("a time must not be left to chance")
        return croniter(line, second_at_beginning=True)
    except (CroniterBadCronError, ValueError, LookupError, AttributeError, TypeError) as error:
        reason = clip(str(error), SHOWN)
        raise Refused("wrong_type", f"{shown(text)} is no cron line of 5, 6 or 7 fields: {reason}") from None


def _compiled(text: str, plan: Plan) -> Condition:
    try:
        return compile_condition(text, plan)
    except ConditionError as error:
        raise Refused("wrong_type", str(error)) from None


def _text(condition: Any) -> str:
    if not isinstance(condition, str) or not condition.strip():
        raise Refused("wrong_type", 'a condition is text, such as device("1001").state == "on"')
    return whole_characters(condition.strip())


def _seconds(name: str, value: float) -> int:
    """A number of seconds, which JSON may have written as 5.0."""
    if not 0 <= value <= LONGEST_WAIT:
        raise Refused("out_of_range", f"{name} is {shown(value)}; nothing waits longer than {LONGEST_WAIT} seconds")
    return int(value)
