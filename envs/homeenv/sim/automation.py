"""Makes rules (automations) from what an agent writes or what a file contains, and checks them against the home.

Invariant: a rule that was made is executable. Its devices, services and arguments exist, its condition compiles, and its
cron line is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from homerl.envs.homeenv.sim.plan.origin import Hidden
from homerl.envs.homeenv.sim.plan.plan import LATEST, FixedPlan
from homerl.envs.homeenv.sim.state.agenda import unset_progress
from homerl.envs.homeenv.sim.state.program import CallStep
from homerl.envs.homeenv.sim.state.rules import Rule
from homerl.envs.homeenv.sim.state.state import HomeState
from homerl.envs.homeenv.sim.steps import (
    check_action,
    check_condition_text,
    check_wait_seconds,
    compile_program,
    compile_rule_condition,
)
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.sim.values.cron import next_time, read_cron
from homerl.envs.homeenv.sim.values.types import quote_value, refuse_lone_surrogates

LINES = {"cron": "time_cron", "watch": "changed", "before": "before"}  # parts of a trigger that are lines of their own
LINE = re.compile(r"(time_cron|changed|before)\s*={1,2}(.+)$")
DEVICE = re.compile(r"device\(\"([^\"]+)\"\)(?:\.([\w.]+))?")


def make_rule(
    home: HomeState,
    conditions: Sequence[str],
    actions: Iterable[Mapping[str, Any]],
    title: str = "",
    delay: int | None = None,
    hold: int = 0,
    id: str | None = None,
    given: Sequence[str] = (),
    **runs: Any,
) -> Rule:
    """A rule for `home` from what an agent writes. The home is not changed. Raises `Refused` if the rule is invalid.

    `conditions` are expressions over the home, and at most one `time_cron = ...` line. All of them must hold. With a line
    `changed = ...`, of a device or an attribute, a change of it triggers the rule, if they hold then; a line `before = ...`
    must have held till then. `actions` are `{did, locator, arguments}`, or steps (`program.py`). With `delay` the rule acts
    once, this many seconds from now. With `hold` its conditions must have held for this many seconds. `id` is by default
    the smallest free number. What is `given` must hold when the rule acts, and triggers nothing; with a time it is a
    condition as others are. `runs` are the fields `of`, `most` and `restart` of the rule.
    """
    texts, later = [check_condition_text(text) for text in conditions], [check_condition_text(text) for text in given]
    lines = [match for text in texts if (match := LINE.match(text))]
    said = {key: [line[2].strip() for line in lines if line[1] == name] for key, name in LINES.items()}
    if said["cron"] or delay is not None:
        now = [text for text in later if not compile_rule_condition(text, home.plan).timed]
        texts, later = texts + now, [text for text in later if text not in now]
    states = [text for text in texts if not LINE.match(text)]
    if any(len(found) > 1 for found in said.values()) or (said["cron"] and delay is not None):
        raise Refused("wrong_type", "an automation has one time at most: give each time an automation of its own")
    if not lines and delay is None and not states:
        raise Refused("missing_argument", "an automation needs a condition, a time_cron or a delay")
    if hold and (said["cron"] or delay is not None):
        raise Refused("wrong_type", "hold_seconds goes with a condition alone, not with a time")
    if delay is not None and home.clock + (delay := check_wait_seconds("delay_seconds", delay)) > LATEST:
        raise Refused("out_of_range", f"delay_seconds is {delay}, and the clock ends at {LATEST}")
    steps = [dict(action) if isinstance(action, Mapping) else action for action in actions]
    plain = all(isinstance(step, dict) and "did" in step and "told" not in step for step in steps)
    rule = Rule(
        id=id or next_rule_id(home),
        actions=tuple(check_action(home.plan, action) for action in steps) if plain else (),
        title=refuse_lone_surrogates(title),
        at=home.clock + delay if delay is not None else None,
        when=_joined(states),
        hold=check_wait_seconds("hold_seconds", hold),
        given=_joined(later),
        steps=None if plain else json.dumps(steps, ensure_ascii=False),
        cron=next(iter(said["cron"]), None),
        watch=next(iter(said["watch"]), None),
        before=next(iter(said["before"]), None),
        **runs,
    )
    rule = compile_rule(rule, home.plan)
    if not rule.actions and plain:
        raise Refused("missing_argument", "an automation needs an action")
    return arm_rule(rule, home)


def compile_rule(rule: Rule, plan: FixedPlan) -> Rule:
    """The rule with its texts compiled against a plan. Raises `Refused` if one does not compile."""
    parts = {"condition": rule.when, "proviso": rule.given, "earlier": rule.before}
    made: dict[str, Any] = {
        key: compile_rule_condition(text, plan) if text is not None else None for key, text in parts.items()
    }
    if made["condition"] is not None and made["condition"].timed:
        raise Refused("wrong_type", "the clock triggers nothing: write a time_cron line, and the clock in what is given")
    if rule.watch is not None:
        made["watched"] = _watched(rule.watch, plan)
    if rule.steps is not None:
        made["program"] = compile_program(json.loads(rule.steps), plan, partial(_trigger, plan))
        calls = [step.action for step in made["program"] if isinstance(step, CallStep)]
        made |= {"actions": tuple(dict.fromkeys(calls)), "of": rule.of or rule.id}
    return rule.with_progress(**made)


def _trigger(plan: FixedPlan, told: Any) -> Rule:
    """What a step waits for, as a rule that does nothing: `{conditions, hold}`."""
    if not isinstance(told, Mapping) or not {"conditions"} <= set(told) <= {"conditions", "hold"}:
        raise Refused("wrong_type", "a step waits for a condition, or for triggers {conditions, hold}")
    texts = [check_condition_text(text) for text in told["conditions"]]
    lines = {match[1]: match[2].strip() for text in texts if (match := LINE.match(text))}
    when = _joined([text for text in texts if not LINE.match(text)])
    if "time_cron" in lines or (when is None and "changed" not in lines):
        raise Refused("wrong_type", "a step waits for a condition or a change, not for a time")
    hold = check_wait_seconds("hold_seconds", told.get("hold", 0))
    rule = Rule("", (), when=when, hold=hold, watch=lines.get("changed"), before=lines.get("before"))
    return compile_rule(rule, plan)


def _watched(text: str, plan: FixedPlan) -> tuple[int, ...]:
    """The slots of an attribute, or of all that a device shows."""
    if (match := DEVICE.fullmatch(text)) is None or match[1] not in plan.devices_by_did:
        raise Refused("unknown_device", f'there is no device {quote_value(text)}: write changed = device("1001").state')
    did, path = match[1], match[2]
    return tuple(plan.slot_of(did, one) for one in ([path] if path else plan.devices_by_did[did].spec.readable_attributes))


def refuse_never_due_rule(rule: Rule, home: HomeState) -> None:
    """Raise `Refused` for a rule whose cron line is never due: its day or its year does not come."""
    if rule.cron is not None and rule.due is None:
        today = datetime.fromtimestamp(home.clock, UTC).date()
        raise Refused(
            "out_of_range", f"{quote_value(rule.cron)} is never due from {today} on: give a day and a year that come"
        )


def restore_rule(home: HomeState, told: Mapping[str, Any], actions: Iterable[Mapping[str, Any]]) -> Rule:
    """A rule of `home` from a file. Raises `Refused` if it is invalid.

    `told` are the fields of the `Rule` but for `actions` and `condition`. If `held` is None, the rule begins now.
    """
    plan, clock = home.plan, home.clock
    acts = tuple(check_action(plan, action) for action in actions)
    texts = {key: check_condition_text(told[key]) for key in ("when", "given", "before") if told[key] is not None}
    rule = compile_rule(Rule(**(dict(told) | texts), actions=acts), plan)
    if rule.cron is not None:
        read_cron(rule.cron)
    if not (rule.actions or rule.steps) or not rule.id or not (rule.is_timed or rule.condition or rule.watched):
        raise Refused(
            "missing_argument", f"automation {quote_value(rule.id)} needs an id, an action, and a condition or a time"
        )
    if (rule.cron is not None and rule.at is not None) or (rule.is_timed and rule.hold):
        raise Refused("wrong_type", f"automation {quote_value(rule.id)} may have only one of cron, at and hold")
    if rule.is_timed and rule.proviso is not None and not rule.proviso.timed:
        raise Refused(
            "wrong_type", f"automation {quote_value(rule.id)} acts at a time: write its condition as `when`, not as `given`"
        )
    check_wait_seconds("hold_seconds", rule.hold)
    refuse_lone_surrogates(rule.title)
    over, ahead = (rule.since, rule.fired), (rule.at, rule.due)
    if not all(0 <= (at or 0) <= clock for at in over) or not all(0 <= (at or 0) <= LATEST for at in ahead):
        what = f"since and fired must lie in 0..{clock} (the clock), at and due in 0..{LATEST}"
        raise Refused("out_of_range", f"automation {quote_value(rule.id)}: {what}")
    if rule.last is not None:
        types = [plan.slots[slot].type for slot in rule.watched]
        rule = rule.with_progress(last=tuple(kind.check_value(value) for kind, value in zip(types, rule.last)))
    return arm_rule(rule, home) if rule.held is None else rule


def make_hidden_rules(home: HomeState) -> tuple[Rule, ...]:
    """The automations that agents are not told of, for a home in which they act. Raises `Refused` if one is invalid."""
    hidden = home.plan.origin.hidden if home.plan.origin else ()
    return tuple(make_recorded_rule(home, one) for one in hidden)


def make_recorded_rule(home: HomeState, one: Hidden, title: str = "") -> Rule:
    """The rule that a record of an origin stands for. Raises `Refused` if it is invalid."""
    return make_rule(home, one.conditions, one.actions, title, hold=one.hold, id=one.id, given=one.given, **one.runs)


def arm_rule(rule: Rule, home: HomeState) -> Rule:
    """The rule with its initial progress in `home`. A condition that already holds does not trigger it."""
    due = rule.at if rule.at is not None else next_time(rule.cron, home.clock) if rule.cron else None
    return unset_progress(rule, home).with_progress(due=due)


def replace_rule(home: HomeState, index: int, rule: Rule | None) -> None:
    """Replace the rule at an index of `home.rules`, or delete it if `rule` is None."""
    home.rules = (*home.rules[:index], *([rule] if rule else []), *home.rules[index + 1 :])


def next_rule_id(home: HomeState) -> str:
    """The smallest number, from 1, that is no id of a rule of the home, as text."""
    taken = {rule.id for rule in home.rules}
    return next(str(n) for n in range(1, len(taken) + 2) if str(n) not in taken)


def _joined(texts: Sequence[str]) -> str | None:
    """Conditions as one, or None if there is none."""
    return " and ".join(f"({text})" for text in texts) if len(texts) > 1 else texts[0] if texts else None
