"""Makes rules (automations) from what an agent writes or what a file contains, and checks them against the home.

Invariant: a rule that was made is executable. Its devices, services and arguments exist, its conditions and expressions
compile, and its cron line is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from homerl.envs.homeenv.sim.conditions import Condition, ConditionError, compile_condition
from homerl.envs.homeenv.sim.cron_times import next_cron_time, read_cron
from homerl.envs.homeenv.sim.home_plan import LATEST, FixedPlan, Hidden
from homerl.envs.homeenv.sim.home_state import HomeState, replace_rooms_by_ids
from homerl.envs.homeenv.sim.rules import (
    MOST_STEPS,
    Action,
    CallStep,
    CompiledRule,
    DelayStep,
    HomeRule,
    Instruction,
    JumpStep,
    Rule,
    RuleProgress,
    SwitchStep,
    WaitStep,
)
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value, refuse_lone_surrogates

LONGEST_WAIT = 100 * 366 * 86400  # the most seconds of a delay or hold
FORMS = (  # the keys of a step
    {"did", "locator"},
    {"if", "then"},
    {"repeat", "do"},
    {"while", "do"},
    {"do", "until"},
    {"only_if"},
    {"stop"},
    {"delay"},
    {"wait"},
    {"switch"},
)

Trigger = Callable[[Any], HomeRule]


END = 1 << 30  # a place behind the last instruction of any program: to go on there ends all


def compile_program(steps: Any, plan: FixedPlan, trigger: Trigger) -> tuple[Instruction, ...]:
    """Compile steps to a program. `trigger` makes what they wait for. Raises `Refused` if a step is invalid."""
    made = _StepCompiler(plan, trigger).compile_steps(steps, 0)
    # The place at which a run goes on is a part of state keys, in which the end has always been the program's length.
    size = len(made)
    return tuple(replace(one, late=size) if isinstance(one, WaitStep) and one.late == END else one for one in made)


@dataclass(frozen=True)
class _StepCompiler:
    """Compiles steps to instructions. `at` is the place of the first of them in the program."""

    plan: FixedPlan
    trigger: Trigger

    def compile_steps(self, steps: Any, at: int) -> list[Instruction]:
        """The instructions of a list of steps. A step that ends the list leads behind it."""
        if not isinstance(steps, Sequence) or isinstance(steps, str):
            raise Refused("wrong_type", "steps are a list")
        made: list[Instruction] = []
        ends: list[tuple[int, Condition]] = []
        for step in steps:
            if not isinstance(step, Mapping) or not any(form <= set(step) for form in FORMS):
                raise Refused("wrong_type", f"{quote_value(step)} is no step")
            if "only_if" in step:
                ends.append((len(made), self._compile_text(step["only_if"])))
                made.append(JumpStep(END))  # until it is known where the list ends
            else:
                made += self._compile_step(step, at + len(made))
            if at + len(made) > MOST_STEPS:
                raise Refused("out_of_range", f"an automation has at most {MOST_STEPS} steps")
        for place, condition in ends:
            made[place] = JumpStep(at + len(made), condition)
        return made

    def _compile_step(self, step: Mapping[str, Any], at: int) -> list[Instruction]:
        if "did" in step:
            texts = step.get("told") or {}
            told = tuple((name, self._compile_text(text)) for name, text in texts.items())
            action = {key: value for key, value in step.items() if key not in ("told", "anyway")}
            return [CallStep(check_action(self.plan, action, tuple(texts)), told, bool(step.get("anyway")))]
        if "if" in step:
            return self._compile_branch(step, at)
        if "repeat" in step:
            if not isinstance(step["repeat"], int) or not 0 <= step["repeat"] <= MOST_STEPS:
                raise Refused("out_of_range", f"steps are repeated 0 to {MOST_STEPS} times")
            made: list[Instruction] = []
            for _ in range(step["repeat"]):
                made += self.compile_steps(step["do"], at + len(made))
            return made
        if "while" in step:
            body = self.compile_steps(step["do"], at + 1)
            return [JumpStep(at + len(body) + 2, self._compile_text(step["while"])), *body, JumpStep(at)]
        if "do" in step:
            return [*self.compile_steps(step["do"], at), JumpStep(at, self._compile_text(step["until"]))]
        if "delay" in step:
            delay = step["delay"]
            if isinstance(delay, str):
                return [DelayStep(compile_rule_condition(delay, self.plan))]
            return [DelayStep(check_wait_seconds("delay", delay))]
        if "wait" in step:
            waited, timeout = step["wait"], step.get("timeout")
            until = self._compile_text(waited) if isinstance(waited, str) else None
            triggers = tuple(self.trigger(one) for one in ([{"conditions": [waited]}] if until is not None else waited))
            late = None if timeout is None else check_wait_seconds("timeout", timeout)
            return [WaitStep(until, triggers, late, END if step.get("stop") else at + 1)]
        if "switch" in step:
            return [SwitchStep(tuple(map(str, step["switch"])), step.get("to"))]
        return [JumpStep(END)]

    def _compile_branch(self, step: Mapping[str, Any], at: int) -> list[Instruction]:
        then = self.compile_steps(step["then"], at + 1)
        condition = self._compile_text(step["if"])
        if not step.get("else"):
            return [JumpStep(at + len(then) + 1, condition), *then]
        otherwise = self.compile_steps(step["else"], at + len(then) + 2)
        after = at + len(then) + len(otherwise) + 2
        return [JumpStep(at + len(then) + 2, condition), *then, JumpStep(after), *otherwise]

    def _compile_text(self, text: Any) -> Condition:
        return compile_rule_condition(check_condition_text(text), self.plan)


def check_action(plan: FixedPlan, action: Mapping[str, Any], told: Sequence[str] = ()) -> Action:
    """The action `{did, locator, arguments}` as an `Action`. Its precondition is checked only when it runs.

    Arguments that are `told` later need not be given.

    Raises `Refused` if the device, the service or an argument does not exist, or if a value is invalid.
    """
    if not isinstance(action, Mapping) or not {"did", "locator"} <= set(action) <= {"did", "locator", "arguments"}:
        raise Refused("wrong_type", "an action is {did, locator, arguments}")
    did, locator, arguments = str(action["did"]), str(action["locator"]), action.get("arguments") or {}
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise Refused("wrong_type", "the arguments of an action are an object")
    device = plan.find_device(did)
    if (did, locator) not in plan.compiled_services:
        known = ", ".join(device.spec.service_index) or "no services"
        raise Refused("unknown_service", f"{device.name} {did} has no service '{locator}' (it has {known})")
    compiled = plan.compiled_services[did, locator][0]
    if told:
        taken = {one.name: one for one in compiled.service.arguments}
        if unknown := {*told, *arguments} - taken.keys():
            raise Refused("unknown_argument", f"{locator} has no argument {quote_value(min(unknown))}")
        return Action(did, locator, tuple((key, taken[key].check_value(value, key)) for key, value in arguments.items()))
    given = replace_rooms_by_ids(plan, compiled.service, compiled.bind_arguments((), arguments))
    return Action(did, locator, tuple((key, given[key]) for key in arguments))


def compile_rule_condition(text: str, plan: FixedPlan) -> Condition:
    """A compiled condition. Raises `Refused` if it does not compile."""
    try:
        return compile_condition(text, plan)
    except ConditionError as error:
        raise Refused("wrong_type", str(error)) from None


def check_condition_text(condition: Any) -> str:
    """The text of a condition. Raises `Refused` if it is none."""
    if not isinstance(condition, str) or not condition.strip():
        raise Refused("wrong_type", 'a condition is text, such as device("1001").state == "on"')
    return refuse_lone_surrogates(condition.strip())


def check_wait_seconds(name: str, value: float) -> int:
    """A number of seconds as an int; JSON may have written it as 5.0. Raises `Refused` if it is out of range."""
    if not 0 <= value <= LONGEST_WAIT:
        raise Refused("out_of_range", f"{name} is {quote_value(value)}; nothing waits longer than {LONGEST_WAIT} seconds")
    return int(value)


CONDITIONS = ("when", "given", "before", "becomes")  # parts of a rule that are conditions
# parts of a trigger that are lines of their own
LINES = {"cron": "time_cron", "watch": "changed", "before": "before", "becomes": "becomes"}
LINE = re.compile(rf"({'|'.join(LINES.values())})\s*={{1,2}}(.+)$")
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
) -> HomeRule:
    """A rule for `home` from what an agent writes. The home is not changed. Raises `Refused` if the rule is invalid.

    `conditions` are expressions over the home, and at most one `time_cron = ...` line. All of them must hold. With a line
    `changed = ...`, of a device or an attribute, a change of it triggers the rule, if they hold then; a line `before = ...`
    must have held till then, and a line `becomes = ...` must hold where the change before found that it did not. `actions`
    are `{did, locator, arguments}`, or steps (`rules.py`). With `delay` the rule acts once, this many seconds from now. With
    `hold` its conditions must have held for this many seconds. `id` is by default the smallest free number. What is `given`
    must hold when the rule acts, and triggers nothing; with a time it is a condition as others are. `runs` are the fields
    `of`, `most` and `restart` of the rule.
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
    if said["becomes"] and not said["watch"]:
        raise Refused("missing_argument", "`becomes = ...` needs a line `changed = ...`, which says when it is looked at")
    if hold and (said["cron"] or delay is not None):
        raise Refused("wrong_type", "hold_seconds goes with a condition alone, not with a time")
    if delay is not None and home.clock + (delay := check_wait_seconds("delay_seconds", delay)) > LATEST:
        raise Refused("out_of_range", f"delay_seconds is {delay}, and the clock ends at {LATEST}")
    steps = [dict(action) if isinstance(action, Mapping) else action for action in actions]
    plain = all(isinstance(step, dict) and "did" in step and not step.keys() & {"told", "anyway"} for step in steps)
    rule = Rule(
        id=id or next_rule_id(home),
        actions=tuple(check_action(home.plan, action) for action in steps) if plain else (),
        title=refuse_lone_surrogates(title),
        at=home.clock + delay if delay is not None else None,
        when=_join_conditions(states),
        hold=check_wait_seconds("hold_seconds", hold),
        given=_join_conditions(later),
        steps=None if plain else json.dumps(steps, ensure_ascii=False),
        cron=next(iter(said["cron"]), None),
        watch=next(iter(said["watch"]), None),
        before=next(iter(said["before"]), None),
        becomes=next(iter(said["becomes"]), None),
        **runs,
    )
    made = compile_rule(rule, home.plan)
    if not made.definition.actions and plain:
        raise Refused("missing_argument", "an automation needs an action")
    return arm_rule(made, home)


def compile_rule(rule: Rule, plan: FixedPlan, progress: RuleProgress = RuleProgress()) -> HomeRule:
    """The rule in a home of this plan. Raises `Refused` if one of its texts does not compile.

    If the rule has steps, its `actions` become the calls in them.
    """
    texts = (getattr(rule, name) for name in CONDITIONS)
    condition, proviso, earlier, edge = (None if text is None else compile_rule_condition(text, plan) for text in texts)
    if condition is not None and condition.timed:
        raise Refused("wrong_type", "the clock triggers nothing: write a time_cron line, and the clock in what is given")
    watched = () if rule.watch is None else _watched_slots(rule.watch, plan)
    program: tuple[Instruction, ...] = ()
    if rule.steps is not None:
        program = compile_program(json.loads(rule.steps), plan, partial(_compile_trigger, plan))
        calls = dict.fromkeys(step.action for step in program if isinstance(step, CallStep))
        rule = replace(rule, actions=tuple(calls), of=rule.of or rule.id)
    return HomeRule(rule, CompiledRule(condition, proviso, earlier, watched, program, edge), progress)


def _compile_trigger(plan: FixedPlan, told: Any) -> HomeRule:
    """What a step waits for, as a rule that does nothing: `{conditions, hold}`."""
    if not isinstance(told, Mapping) or not {"conditions"} <= set(told) <= {"conditions", "hold"}:
        raise Refused("wrong_type", "a step waits for a condition, or for triggers {conditions, hold}")
    texts = [check_condition_text(text) for text in told["conditions"]]
    lines = {match[1]: match[2].strip() for text in texts if (match := LINE.match(text))}
    when = _join_conditions([text for text in texts if not LINE.match(text)])
    if "time_cron" in lines or (when is None and "changed" not in lines):
        raise Refused("wrong_type", "a step waits for a condition or a change, not for a time")
    hold = check_wait_seconds("hold_seconds", told.get("hold", 0))
    watch, before, becomes = (lines.get(LINES[name]) for name in ("watch", "before", "becomes"))
    return compile_rule(Rule("", (), when=when, hold=hold, watch=watch, before=before, becomes=becomes), plan)


def _watched_slots(text: str, plan: FixedPlan) -> tuple[int, ...]:
    """The slots of attributes, with commas between them, or of all that a device shows."""
    slots: list[int] = []
    for part in text.split(", "):
        if (match := DEVICE.fullmatch(part)) is None or match[1] not in plan.devices_by_did:
            raise Refused("unknown_device", f'there is no device {quote_value(part)}: write changed = device("1001").state')
        did, path = match[1], match[2]
        slots += [plan.slot_of(did, one) for one in ([path] if path else plan.devices_by_did[did].spec.readable_attributes)]
    return tuple(dict.fromkeys(slots))


def refuse_never_due_rule(rule: HomeRule, home: HomeState) -> None:
    """Raise `Refused` for a rule whose cron line is never due: its day or its year does not come."""
    cron = rule.definition.cron
    if cron is not None and rule.progress.due is None:
        today = datetime.fromtimestamp(home.clock, UTC).date()
        raise Refused("out_of_range", f"{quote_value(cron)} is never due from {today} on: give a day and a year that come")


def restore_rule(home: HomeState, record: Mapping[str, Any], actions: Iterable[Mapping[str, Any]]) -> HomeRule:
    """A rule of `home` from a file. Raises `Refused` if it is invalid.

    `record` has the fields of `Rule` but for `actions`, and of `RuleProgress`. If its `held` is None, the rule begins now.
    """
    plan, clock = home.plan, home.clock
    acts = tuple(check_action(plan, action) for action in actions)
    texts = {key: check_condition_text(record[key]) for key in CONDITIONS if record.get(key) is not None}
    saved = {part.name: record[part.name] for part in fields(RuleProgress) if part.name in record}
    defined = {key: value for key, value in record.items() if key not in saved} | texts
    rule = compile_rule(Rule(**defined, actions=acts), plan, RuleProgress(**saved))
    says, compiled, progress = rule.definition, rule.compiled, rule.progress
    if says.cron is not None:
        read_cron(says.cron)
    if not (says.actions or says.steps) or not says.id or not (says.is_timed or compiled.condition or compiled.watched):
        raise Refused(
            "missing_argument", f"automation {quote_value(says.id)} needs an id, an action, and a condition or a time"
        )
    if (says.cron is not None and says.at is not None) or (says.is_timed and says.hold):
        raise Refused("wrong_type", f"automation {quote_value(says.id)} may have only one of cron, at and hold")
    if says.is_timed and compiled.proviso is not None and not compiled.proviso.timed:
        raise Refused(
            "wrong_type", f"automation {quote_value(says.id)} acts at a time: write its condition as `when`, not as `given`"
        )
    check_wait_seconds("hold_seconds", says.hold)
    refuse_lone_surrogates(says.title)
    over, ahead = (progress.since, progress.fired), (says.at, progress.due)
    if not all(0 <= (at or 0) <= clock for at in over) or not all(0 <= (at or 0) <= LATEST for at in ahead):
        what = f"since and fired must lie in 0..{clock} (the clock), at and due in 0..{LATEST}"
        raise Refused("out_of_range", f"automation {quote_value(says.id)}: {what}")
    if progress.last is not None:
        types = [plan.slots[slot].type for slot in compiled.watched]
        rule = rule.with_progress(last=tuple(kind.check_value(value) for kind, value in zip(types, progress.last)))
    return arm_rule(rule, home) if progress.held is None else rule


def make_hidden_rules(home: HomeState) -> tuple[HomeRule, ...]:
    """The automations that agents are not told of, for a home in which they act. Raises `Refused` if one is invalid."""
    hidden = home.plan.origin.hidden if home.plan.origin else ()
    return tuple(make_recorded_rule(home, one) for one in hidden)


def make_recorded_rule(home: HomeState, one: Hidden, title: str = "") -> HomeRule:
    """The rule that a record of an origin stands for. Raises `Refused` if it is invalid."""
    return make_rule(home, one.conditions, one.actions, title, hold=one.hold, id=one.id, given=one.given, **one.runs)


def arm_rule(rule: HomeRule, home: HomeState) -> HomeRule:
    """The rule with its initial progress in `home`. A condition that already holds does not trigger it."""
    says = rule.definition
    due = says.at if says.at is not None else next_cron_time(says.cron, home.clock) if says.cron else None
    return rule.begun_in(home).with_progress(due=due)


def replace_rule(home: HomeState, index: int, rule: HomeRule | None) -> None:
    """Replace the rule at an index of `home.rules`, or delete it if `rule` is None."""
    home.rules = (*home.rules[:index], *([rule] if rule else []), *home.rules[index + 1 :])


def next_rule_id(home: HomeState) -> str:
    """The smallest number, from 1, that is no id of a rule of the home, as text."""
    taken = {rule.id for rule in home.rules}
    return next(str(n) for n in range(1, len(taken) + 2) if str(n) not in taken)


def _join_conditions(texts: Sequence[str]) -> str | None:
    """Conditions as one, or None if there is none."""
    return " and ".join(f"({text})" for text in texts) if len(texts) > 1 else texts[0] if texts else None
