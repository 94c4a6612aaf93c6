"""Sampled states of a home that distinguish conditions: around each number that a condition compares, and far from it.

Invariants: deterministic; the first state is that of the home itself; slots that show one quantity of a room (its own
state and its sensors) agree in every state; a counter is 0 unless what it counts holds.

Whether a home has a wanted automation (SMH-Bench TC4), judged by what its rules do and not by their text.

Two rules have the same trigger if they act at the same times (`_same_times`) and if their conditions agree in sampled
states or in simulated courses of events (`_same_truth`, `_same_beginnings`). In these, sensors and rooms that show one
quantity change together, and counters count. The actions of a rule are right if the wanted effects hold after them from
every sampled state of its devices, and if they touch no other device.

Invariants: pure; results are cached, so that the same question costs microseconds; an unusual rule raises no error and
is merely not accepted.
"""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, cast

from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.conditions import Condition, compile_condition
from homerl.envs.homeenv.sim.state.rules_and_programs import HomeRule
from homerl.envs.homeenv.sim.state.time_passing import advance_clock
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.cron_times import next_time
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.envs.homeenv.tasks.blueprint import Automation, Call

MOST = 1500  # states; from more combinations, this many are drawn
COUNTER_STEP = 2  # seconds: counters are sampled this far from a compared number, as one second decides nothing
SELF = re.compile(r"self\.(\w+)")

Values = dict[int, Any]  # by slot


def counters_read_by(home: Home, conditions: Sequence[Condition]) -> list[int]:
    """The slots of counters that the conditions read."""
    return [slot for slot in _slots(conditions) if slot in home.plan.time_wiring.counter_of]


def sample_home_states(home: Home, conditions: Sequence[Condition], counting: bool = True) -> Iterator[Home]:
    """Copies of the home that differ in what the conditions read.

    With `counting`, counters are set as well. Up to `MOST` combinations are all yielded; of more, `MOST` are drawn.
    """
    yield home.fork()
    groups = [
        group_values for group in _groups(home, conditions) if (group_values := _values(home, group, conditions, counting))
    ]
    for combination in _combinations(groups):
        state = home.fork()
        for values in combination:
            for slot, value in values.items():
                state.write_slot(slot, value)
        for slot in counters_read_by(home, conditions) if counting else ():
            if not state.plan.time_wiring.counter_of[slot].is_counting(state.values):
                state.write_slot(slot, 0)
        yield state


def _combinations(groups: list[list[Values]]) -> Iterator[Sequence[Values]]:
    if math.prod(map(len, groups)) <= MOST:
        yield from product(*groups)
        return
    rng = random.Random(0)
    for _ in range(MOST):
        yield [rng.choice(group) for group in groups]


def _slots(conditions: Sequence[Condition]) -> list[int]:
    return sorted({slot for condition in conditions for slot in condition.slots})


def _groups(home: Home, conditions: Sequence[Condition]) -> list[list[int]]:
    """Groups of slots that change together: those that the conditions and their counters read.

    Slots that show one quantity of a room form one group; each other slot is a group of its own.
    """
    groups: dict[Any, list[int]] = {}
    read = _slots(conditions)
    for slot in dict.fromkeys(
        (*read, *(s for counter in counters_read_by(home, conditions) for s in _counted(home, counter)))
    ):
        view = home.plan.time_wiring.reading_of.get(slot)
        groups.setdefault((view.room, view.quantity) if view else slot, []).append(slot)
    return list(groups.values())


def _counted(home: Home, counter: int) -> list[int]:
    """The slots of the counter's device that its counting condition reads."""
    place = home.plan.slots[counter]
    prefix = place.path.rpartition(".")[0]
    prefix += "." if prefix else ""
    attributes = home.plan.devices_by_did[place.owner].spec.readable_attributes
    paths = [prefix + name for name in SELF.findall(attributes[place.path].counts or "")]
    return [home.plan.slot_of(place.owner, path) for path in paths if path in attributes]


def _values(home: Home, group: list[int], conditions: Sequence[Condition], counting: bool) -> list[Values]:
    """Values for the slots of a group, set together; none for a counter unless `counting`.

    If one is null in the home, the values that the slots have there are among them.
    """
    wiring, slots = home.plan.time_wiring, home.plan.slots
    kinds = [slots[slot].type for slot in group]
    counter = group[0] in wiring.counter_of
    if counter and not counting:
        return []
    present = {slot: home.values[slot] for slot in group}
    unknown = [present] if None in present.values() else []
    if kinds[0].type not in ("int", "float"):
        return [*unknown, *({group[0]: value} for value in _options(home, group[0], conditions) if value is not None)]
    by_shown: dict[tuple[Any, ...], Values] = {tuple(present.values()): present for present in unknown}
    for number in _numbers(home, group, conditions, COUNTER_STEP if counter else 0):
        shown = {
            s: wiring.reading_of[s].value_of_quantity(number) if s in wiring.reading_of else _fit(slots[s].type, number)
            for s in group
        }
        by_shown.setdefault(tuple(shown.values()), shown)
    return list(by_shown.values())


def _numbers(home: Home, group: list[int], conditions: Sequence[Condition], around: int) -> list[float]:
    """The home's value (unless it is null), the ends of the range, each compared number, and its neighbours."""
    kinds = [home.plan.slots[slot].type for slot in group]
    step = around or max(kind.precision or (1 if kind.type == "int" else 0.1) for kind in kinds)
    numbers = [
        *(value for value in (home.values[group[0]],) if value is not None),
        *(end for kind in kinds for end in kind.range or ()),
    ]
    for number in sorted(_compared(group, conditions)):
        numbers += [number - step, number + step] if around else [number - step, number, number + step]
    return numbers


def _compared(group: list[int], conditions: Sequence[Condition]) -> set[float]:
    """The numbers that the slots of a group are compared with.

    If a condition calculates with a slot, these are all numbers of the condition.
    """
    numbers: set[float] = set()
    for condition in conditions:
        for slot in condition.slots.intersection(group):
            plain = condition.slot_thresholds[slot]
            numbers |= plain if plain is not None else _constants(condition)
    return {number for number in numbers if math.isfinite(number)}


def _constants(condition: Condition) -> set[float]:
    """All numbers of a condition, and their negatives."""
    constants = {node.value for node in ast.walk(condition.tree) if isinstance(node, ast.Constant)}
    numbers = {value for value in constants if isinstance(value, (int, float)) and not isinstance(value, bool)}
    return numbers | {-number for number in numbers}


def _options(home: Home, slot: int, conditions: Sequence[Condition]) -> list[Any]:
    """All options; for text without options, the current value and the values that it is compared with."""
    kind = home.plan.slots[slot].type
    if kind.type == "bool":
        return [False, True]
    if kind.options is not None:
        return list(kind.options)
    named = [value for condition in conditions for at, value in condition.comparisons if at == slot]
    return list(dict.fromkeys((home.values[slot], *(value for value in named if _fits(kind, value)))))


def _fits(kind: ValueType, value: Any) -> bool:
    try:
        return bool(kind.check_value(value) == value)
    except Refused:
        return False


def _fit(kind: ValueType, number: float) -> Any:
    """The nearest number that the type allows."""
    low, high = kind.range or (-math.inf, math.inf)
    if kind.options is not None:
        return min(cast(tuple[float, ...], kind.options), key=lambda option: abs(option - number))
    number = min(max(number, low), high)
    return kind.check_value(round(number) if kind.type == "int" else float(number))


DAY = 86400
FIRST = 16  # first times compared: they distinguish days of the week and of the month
# Offsets in seconds; the next time after each is compared as well, which distinguishes months and years.
PROBES = (*range(19 * DAY, 800 * DAY, 19 * DAY + 7201), *(years * 365 * DAY for years in (4, 9, 20, 40)))
JITTER = 1  # seconds: a counter passes 900 one second after a hold of 900 has ended
REST = 60  # seconds before and after the event in a simulated course of events
SHUFFLES = 6  # number of random states of the devices that a rule acts on
MOST_COURSES = 200


def has_wanted_automation(home: Home, start: Home, wanted: Automation) -> bool:
    """Whether rules made since the start do what is wanted."""
    return bool(rules_serving_wish(home, start, wanted))


def rules_serving_wish(home: Home, start: Home, wanted: Automation) -> frozenset[str]:
    """Ids of the rules made since the start that do what is wanted; empty if they do not.

    Either one rule does everything, or several rules with the right trigger share the actions. The time of a one-shot
    rule may be late by as much as the clock has advanced since the start, because "in an hour" counts from when the
    rule is made.
    """
    made = rules_made_since(home, start)
    if not made:
        return frozenset()
    task, late = AutomationTask.for_home(start, wanted), home.clock - start.clock
    bare = tuple(_bare(rule) for rule in made)
    indices = _serving(RuleCheck(f"{task.key}{late}{bare}", task, bare, late))
    return frozenset(made[index].id for index in indices)


def _bare(rule: HomeRule) -> HomeRule:
    """A rule without what says nothing of its meaning: its names and its progress."""
    definition = replace(rule.definition, id="", title="")
    return replace(rule, definition=definition).with_progress(held=False, since=None, due=None, fired=None)


def rules_made_since(home: Home, start: Home) -> tuple[HomeRule, ...]:
    """The enabled rules that did not exist at the start."""
    if not home.rules:
        return ()
    known = {rule.id for rule in start.rules}
    return tuple(rule for rule in home.rules if rule.progress.enabled and rule.id not in known)


def find_automation_flaw(home: Home, wanted: Automation) -> str | None:
    """Why the automation is no valid goal in this home, or None."""
    try:
        rule = _rule(home, wanted)
    except Refused as refusal:
        return f"automation refused: {refusal.rule}"
    due = rule.progress.due
    if rule.definition.is_timed and (due is None or due <= home.clock):
        return "automation: its time is past"
    if not rule.definition.is_timed and rule.progress.held:
        return "automation: its trigger holds already"
    task = AutomationTask("", home, wanted)
    after = home.fork()
    if any(effect.holds_in(home) for effect in task.effect_conditions):
        return "automation: an effect holds already"
    if not _calls(after, wanted.actions) or not all(effect.holds_in(after) for effect in task.effect_conditions):
        return "automation: its actions do not have the effects"
    return None if _does(task, (rule,)) else "automation: it does not do what it should"


@dataclass(frozen=True)
class AutomationTask:
    """A wanted automation in the home at the start, with what is derived from the two.

    Two tasks are equal if their `key` is equal.
    """

    key: str
    start: Home = field(compare=False, repr=False)
    wanted: Automation = field(compare=False, repr=False)

    @staticmethod
    def for_home(start: Home, wanted: Automation) -> AutomationTask:
        """The task for this home and automation: a cached equal one if there is one."""
        task: AutomationTask = _kept(AutomationTask(f"{start.state_key()}{wanted.model_dump_json()}", start, wanted))
        return task

    @cached_property
    def wanted_rule(self) -> HomeRule:
        """The wanted automation as a rule of the home."""
        return _rule(self.start, self.wanted)

    @cached_property
    def effect_conditions(self) -> tuple[Condition, ...]:
        """The compiled conditions that must hold after the rule has acted."""
        return tuple(compile_condition(text, self.start.plan) for text in self.wanted.effects)

    @cached_property
    def acted_devices(self) -> frozenset[str]:
        """Ids of the devices that the wanted actions touch."""
        return frozenset(call.did for call in self.wanted.actions)

    @cached_property
    def still_home(self) -> Home:
        """A copy of the home at the start in which only counters change by themselves."""
        plan = replace(self.start.plan, forecast=())
        for moving in (plan.time_wiring.rooms, plan.time_wiring.readings, plan.time_wiring.reading_of):
            moving.clear()
        return Home(plan, self.start.values, self.start.clock)

    @cached_property
    def homes_before_acting(self) -> tuple[Home, ...]:
        """States from which the rule may have to act.

        These are the start, a state in which its condition holds, the state after it has acted once, and `SHUFFLES`
        random states of its devices.
        """
        begun = self.start.fork()
        condition = self.wanted_rule.compiled.condition
        if condition is not None:
            sampled = sample_home_states(self.start, [condition])
            begun = next((state for state in sampled if condition.holds_in(state)), begun)
        again = begun.fork()
        _calls(again, self.wanted.actions)
        return (self.start, begun, again, *(_shuffled(begun, self.acted_devices, seed) for seed in range(SHUFFLES)))


_kept = lru_cache(maxsize=256)(lambda task: task)  # equal tasks share one instance, and so its cached properties


@dataclass(frozen=True)
class RuleCheck:
    """The question whether the rules `made` fulfil a task, as a cache key.

    `late` is in seconds. Two checks are equal if their `key` is equal.
    """

    key: str
    task: AutomationTask = field(compare=False, repr=False)
    made: tuple[HomeRule, ...] = field(compare=False, repr=False)
    late: int = field(compare=False, repr=False)


@lru_cache(maxsize=1024)
def _serving(question: RuleCheck) -> tuple[int, ...]:
    """Indices of the rules that fulfil the task together; empty if they do not."""
    task, made = question.task, question.made
    right = [index for index, rule in enumerate(made) if _same_trigger(task, rule, question.late)]
    for index in right:
        if _does(task, (made[index],)):
            return (index,)
    dids = {index: {action.did for action in made[index].definition.actions} for index in right}
    parts = tuple(index for index in right if dids[index] <= task.acted_devices)
    return parts if len(parts) > 1 and _does(task, [made[index] for index in parts]) else ()


# Triggers


def _same_trigger(task: AutomationTask, made: HomeRule, late: int) -> bool:
    wanted, said = task.wanted_rule.definition, made.definition
    if wanted.is_timed != said.is_timed:
        return False
    if said.is_timed:
        return _same_times(task.wanted_rule, made, task.start.clock, late) and _same_truth(task, made)
    if wanted.hold or said.hold or counters_read_by(task.start, _conditions(task, made)):
        return _same_beginnings(task, made)
    return _same_truth(task, made)


def _same_times(wanted: HomeRule, made: HomeRule, now: int, late: int) -> bool:
    ours, theirs = _times(wanted, now), _times(made, now)
    if len(ours) == 1 == len(theirs) and ours[0] is not None and theirs[0] is not None:
        return 0 <= theirs[0] - ours[0] <= late
    return bool(theirs) and ours == theirs


def _times(rule: HomeRule, now: int) -> tuple[int | None, ...]:
    said = rule.definition
    return (said.at,) if said.at is not None else _cron_times(said.cron or "", now)


@lru_cache(maxsize=4096)
def _cron_times(cron: str, now: int) -> tuple[int | None, ...]:
    """The times of a cron line after `now`, in seconds since the epoch.

    These are all times if there are fewer than `FIRST`. Otherwise they are the first ones, and the next time after each
    of `PROBES`.
    """
    times: list[int] = []
    while len(times) < FIRST and (moment := next_time(cron, times[-1] if times else now)) is not None:
        times.append(moment)
    return tuple(times) if len(times) < FIRST else (*times, *(next_time(cron, now + ahead) for ahead in PROBES))


def _same_truth(task: AutomationTask, made: HomeRule) -> bool:
    """Whether both conditions hold in the same sampled states."""
    ours, theirs = task.wanted_rule.compiled.condition, made.compiled.condition
    if ours is None and theirs is None:
        return True
    sampled = sample_home_states(task.start, _conditions(task, made))
    return all((ours is None or ours.holds_in(s)) == (theirs is None or theirs.holds_in(s)) for s in sampled)


def _same_beginnings(task: AutomationTask, made: HomeRule) -> bool:
    """Whether both rules act at the same seconds, within `JITTER`, in sampled courses of events.

    In a course of events, the home rests, enters a state, stays in it for as long as the rules may have to wait, and
    returns.
    """
    watchers = tuple(
        replace(rule, definition=replace(rule.definition, id=id, actions=()))
        for id, rule in (("wanted", task.wanted_rule), ("made", made))
    )
    longest = max(_longest(task.wanted_rule), min(made.definition.hold, 2 * DAY)) + 2 * REST
    for state in _thinned(list(sample_home_states(task.still_home, _conditions(task, made), counting=False)), MOST_COURSES):
        home, fired = task.still_home.fork(), []
        conditions = [watcher.compiled.condition for watcher in watchers]
        held = [condition is not None and condition.holds_in(home) for condition in conditions]
        home.rules = tuple(watcher.with_progress(held=holds) for watcher, holds in zip(watchers, held))
        for seconds, other in ((REST, task.still_home), (longest, state), (REST, task.still_home)):
            _become(home, other)
            fired += advance_clock(home, seconds)
        ours, theirs = ([f.clock for f in fired if f.rule == id] for id in ("wanted", "made"))
        if len(ours) != len(theirs) or any(abs(a - b) > JITTER for a, b in zip(ours, theirs)):
            return False
    return True


def _become(home: Home, other: Home) -> None:
    """Set a home to another home's values, except for its counters, which keep counting."""
    for change in home.diff(other):
        if change.slot not in home.plan.time_wiring.counter_of:
            home.write_slot(change.slot, change.after)


def _longest(rule: HomeRule) -> int:
    """The longest wait in seconds before the rule acts: its hold, or a number that its counters are compared with."""
    condition = rule.compiled.condition
    counters = condition.plan.time_wiring.counter_of if condition else {}
    numbers = [n for slot in counters if condition for n in condition.slot_thresholds.get(slot) or ()]
    return min(max([rule.definition.hold, *map(int, numbers)]), 2 * DAY)


def _conditions(task: AutomationTask, made: HomeRule) -> list[Condition]:
    return [condition for rule in (task.wanted_rule, made) if (condition := rule.compiled.condition) is not None]


def _thinned(items: list[Any], most: int) -> list[Any]:
    return items if len(items) <= most else random.Random(0).sample(items, most)


# Actions


def _does(task: AutomationTask, rules: Sequence[HomeRule]) -> bool:
    """Whether the effects hold after the rules in every state where they can, and no other device is touched."""
    if any(action.did not in task.acted_devices for rule in rules for action in rule.definition.actions):
        return False
    for state in task.homes_before_acting:
        model, home = state.fork(), state.fork()
        possible = _calls(model, task.wanted.actions) and all(effect.holds_in(model) for effect in task.effect_conditions)
        for rule in rules:
            _calls(home, rule.definition.actions)
        if possible and not all(effect.holds_in(home) for effect in task.effect_conditions):
            return False
    return True


def _calls(home: Home, calls: Sequence[Any]) -> bool:
    """Make the calls in order, and stop at the first refusal; whether no call was refused."""
    try:
        for call in calls:
            if isinstance(call, Call):
                home.call(call.did, call.service, call.args)
            else:
                home.call(call.did, call.service, (), dict(call.arguments))
    except Refused:
        return False
    return True


def _shuffled(home: Home, dids: frozenset[str], seed: int) -> Home:
    """A copy of the home in which these devices have random values."""
    rng, shuffled = random.Random(seed), home.fork()
    for slot, place in enumerate(home.plan.slots):
        if place.owner in dids and not getattr(place.type, "read_only", False):
            shuffled.write_slot(slot, place.type.sample_value(rng))
    return shuffled


def _rule(home: Home, wanted: Automation) -> HomeRule:
    """The wanted rule as an agent would create it."""
    return make_rule(home, wanted.conditions, _described(home, wanted), "", wanted.delay_seconds, wanted.hold_seconds)


def _described(home: Home, wanted: Automation) -> Iterator[dict[str, Any]]:
    for call in wanted.actions:
        service = home.plan.compiled_services.get((call.did, call.service))
        names = [argument.name for argument in service[0].service.arguments] if service else []
        yield {"did": call.did, "locator": call.service, "arguments": dict(zip(names, call.args))}
