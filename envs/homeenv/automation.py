"""Makes rules (automations) from what an agent writes or what a file contains, and checks them against the home.

Invariant: a rule that was made is executable. Its devices, services and arguments exist, its condition compiles, and its
cron line is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from envs.homeenv.plan.conditions import Condition, ConditionError, compile_condition
from envs.homeenv.plan.origin import Hidden
from envs.homeenv.plan.plan import LATEST, Plan
from envs.homeenv.state.rules import Action, Rule
from envs.homeenv.state.state import HomeState, bound
from envs.homeenv.values.audit import Refused
from envs.homeenv.values.cron import next_time, read_cron
from envs.homeenv.values.types import quoted, whole_characters

TIME_CRON = re.compile(r"time_cron\s*={1,2}(.+)$")
LONGEST_WAIT = 100 * 366 * 86400  # the most seconds of a delay or hold


def make_rule(
    home: HomeState,
    conditions: Sequence[str],
    actions: Iterable[Mapping[str, Any]],
    title: str = "",
    delay: int | None = None,
    hold: int = 0,
    id: str | None = None,
    given: Sequence[str] = (),
) -> Rule:
    """A rule for `home` from what an agent writes. The home is not changed. Raises `Refused` if the rule is invalid.

    `conditions` are expressions over the home, and at most one `time_cron = ...` line. All of them must hold. `actions` are
    `{did, locator, arguments}`. With `delay` the rule acts once, this many seconds from now. With `hold` its conditions must
    have held for this many seconds. `id` is by default the smallest free number. What is `given` must hold when the rule
    acts, and triggers nothing; with a time it is a condition as others are.
    """
    texts, later = [_text(text) for text in conditions], [_text(text) for text in given]
    crons = [match[1].strip() for text in texts if (match := TIME_CRON.match(text))]
    if crons or delay is not None:
        texts, later = texts + later, []
    states = [text for text in texts if not TIME_CRON.match(text)]
    if len(crons) > 1 or (crons and delay is not None):
        raise Refused("wrong_type", "an automation has one time at most: give each time an automation of its own")
    if not crons and delay is None and not states:
        raise Refused("missing_argument", "an automation needs a condition, a time_cron or a delay")
    if hold and (crons or delay is not None):
        raise Refused("wrong_type", "hold_seconds goes with a condition alone, not with a time")
    if delay is not None and home.clock + (delay := _seconds("delay_seconds", delay)) > LATEST:
        raise Refused("out_of_range", f"delay_seconds is {delay}, and the clock ends at {LATEST}")
    when, proviso = _joined(states), _joined(later)
    rule = Rule(
        id=id or next_id(home),
        actions=tuple(checked_action(home.plan, action) for action in actions),
        title=whole_characters(title),
        cron=crons[0] if crons else None,
        at=home.clock + delay if delay is not None else None,
        when=when,
        hold=_seconds("hold_seconds", hold),
        condition=_compiled(when, home.plan) if when else None,
        given=proviso,
        proviso=_compiled(proviso, home.plan) if proviso else None,
    )
    if not rule.actions:
        raise Refused("missing_argument", "an automation needs an action")
    return armed(rule, home)


def refuse_never(rule: Rule, home: HomeState) -> None:
    """Raise `Refused` for a rule whose cron line is never due: its day or its year does not come."""
    if rule.cron is not None and rule.due is None:
        today = datetime.fromtimestamp(home.clock, UTC).date()
        raise Refused("out_of_range", f"{quoted(rule.cron)} is never due from {today} on: give a day and a year that come")


def restored_rule(home: HomeState, told: Mapping[str, Any], actions: Iterable[Mapping[str, Any]]) -> Rule:
    """A rule of `home` from a file. Raises `Refused` if it is invalid.

    `told` are the fields of the `Rule` but for `actions` and `condition`. If `held` is None, the rule begins now.
    """
    plan, clock = home.plan, home.clock
    condition, proviso = (
        _compiled(_text(text), plan) if (text := told[key]) is not None else None for key in ("when", "given")
    )
    acts = tuple(checked_action(plan, action) for action in actions)
    rule = Rule(**told, actions=acts, condition=condition, proviso=proviso)
    if rule.cron is not None:
        read_cron(rule.cron)
    if not rule.actions or not rule.id or (not rule.timed and condition is None):
        raise Refused("missing_argument", f"automation {quoted(rule.id)} needs an id, an action, and a condition or a time")
    if (rule.cron is not None and rule.at is not None) or (rule.timed and rule.hold):
        raise Refused("wrong_type", f"automation {quoted(rule.id)} may have only one of cron, at and hold")
    if rule.timed and rule.given is not None:
        raise Refused(
            "wrong_type", f"automation {quoted(rule.id)} acts at a time: write its condition as `when`, not as `given`"
        )
    _seconds("hold_seconds", rule.hold)
    whole_characters(rule.title)
    over, ahead = (rule.since, rule.fired), (rule.at, rule.due)
    if not all(0 <= (at or 0) <= clock for at in over) or not all(0 <= (at or 0) <= LATEST for at in ahead):
        what = f"since and fired must lie in 0..{clock} (the clock), at and due in 0..{LATEST}"
        raise Refused("out_of_range", f"automation {quoted(rule.id)}: {what}")
    return armed(rule, home) if rule.held is None else rule


def hidden_rules(home: HomeState) -> tuple[Rule, ...]:
    """The automations that agents are not told of, for a home in which they act. Raises `Refused` if one is invalid."""
    hidden = home.plan.origin.hidden if home.plan.origin else ()
    return tuple(recorded_rule(home, one) for one in hidden)


def recorded_rule(home: HomeState, one: Hidden, title: str = "") -> Rule:
    """The rule that a record of an origin stands for. Raises `Refused` if it is invalid."""
    return make_rule(home, one.conditions, one.actions, title, hold=one.hold, id=one.id, given=one.given)


def armed(rule: Rule, home: HomeState) -> Rule:
    """The rule with its initial progress in `home`. A condition that already holds does not trigger it."""
    held = rule.condition is not None and rule.condition.holds(home)
    due = rule.at if rule.at is not None else next_time(rule.cron, home.clock) if rule.cron else None
    return replace(rule, held=held, since=None, due=due)


def put_rule(home: HomeState, index: int, rule: Rule | None) -> None:
    """Replace the rule at an index of `home.rules`, or delete it if `rule` is None."""
    home.rules = (*home.rules[:index], *([rule] if rule else []), *home.rules[index + 1 :])


def next_id(home: HomeState) -> str:
    """The smallest number, from 1, that is no id of a rule of the home, as text."""
    taken = {rule.id for rule in home.rules}
    return next(str(n) for n in range(1, len(taken) + 2) if str(n) not in taken)


def checked_action(plan: Plan, action: Mapping[str, Any]) -> Action:
    """The action `{did, locator, arguments}` as an `Action`. Its precondition is checked only when it runs.

    Raises `Refused` if the device, the service or an argument does not exist, or if a value is invalid.
    """
    if not isinstance(action, Mapping) or not {"did", "locator"} <= set(action) <= {"did", "locator", "arguments"}:
        raise Refused("wrong_type", "an action is {did, locator, arguments}")
    did, locator, arguments = str(action["did"]), str(action["locator"]), action.get("arguments") or {}
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise Refused("wrong_type", "the arguments of an action are an object")
    if did not in plan.by_did:
        raise Refused("unknown_device", f"there is no device {quoted(did)}")
    if (did, locator) not in plan.services:
        known = ", ".join(plan.by_did[did].spec.service_index) or "no services"
        raise Refused("unknown_service", f"{plan.by_did[did].name} {did} has no service '{locator}' (it has {known})")
    given = bound(plan, plan.services[did, locator][0], (), arguments)
    return Action(did, locator, tuple((key, given[key]) for key in arguments))


def _joined(texts: Sequence[str]) -> str | None:
    """Conditions as one, or None if there is none."""
    return " and ".join(f"({text})" for text in texts) if len(texts) > 1 else texts[0] if texts else None


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
    """A number of seconds as an int; JSON may have written it as 5.0. Raises `Refused` if it is out of range."""
    if not 0 <= value <= LONGEST_WAIT:
        raise Refused("out_of_range", f"{name} is {quoted(value)}; nothing waits longer than {LONGEST_WAIT} seconds")
    return int(value)
