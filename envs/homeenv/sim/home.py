"""The home as agents and environments use it: its state (`home_state.py`), in which time passes and rules act.

The clock leaps from event to event; air, sensors, counters and rules are updated at each event. Events are:
- a change of the weather;
- a time of a rule's cron line or `at`, and the end of a rule's `hold`;
- a moment at which a quantity crosses a threshold of some rule (for `temperature > 25`, the second at which it passes 25).

Between events the air of a room follows a closed form (`devices/air_physics.py`), a counter grows by one each second, and
an attribute moves by whole steps, so no step of one second is ever simulated. The air of a room that no rule reads is
computed once, at the end of `advance`, unless a rule's action needs it before.

Invariants:
- Agents change device values through `Home.call` alone; a refused call changes nothing.
- `advance(a); advance(b)` leaves the same home as `advance(a + b)`, and the rules act at the same seconds in the same order.
- Rules act in the order of `HomeState.rules`, and each sees what those before it did. Those of a run come last.
- An automation has no more runs at a time than it admits.
- A rule calls services by `HomeState.call` itself: a home that records the calls of agents does not record those of rules.
- When `advance` returns, the air of every room accounts for all weather up to the clock.
- A home whose clock never moves computes no air.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, NamedTuple

from homerl.envs.homeenv.sim.conditions import Condition
from homerl.envs.homeenv.sim.devices.air_physics import LIGHT, RoomAir
from homerl.envs.homeenv.sim.devices.self_changing_attributes import CountingAttribute, MovingAttribute
from homerl.envs.homeenv.sim.home_plan import LATEST, AirReading
from homerl.envs.homeenv.sim.home_state import HomeState, advance_counters, update_air, weather_at, write_readings
from homerl.envs.homeenv.sim.rules import (
    MOST_STEPS,
    NEVER,
    Action,
    CallStep,
    CompiledRule,
    DelayStep,
    HomeRule,
    JumpStep,
    RuleProgress,
    SwitchStep,
    WaitStep,
    seconds_of_delay,
)
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import Numbers

LONGEST = 366 * 86400  # the most seconds of one `advance`


@dataclass(frozen=True)
class FiredRule:
    """A record that a rule acted: the rule's id and the `clock` (s).

    `refused` is the refusal of one of its calls, if any. The calls after that one were not made.
    """

    rule: str
    clock: int
    refused: str | None = None


class Home(HomeState):
    """A `HomeState` (plan, values, clock, service calls, fork, diff, state key) in which time passes."""

    __slots__ = ()

    def advance(self, seconds: int, most: int | None = None) -> list[FiredRule]:
        """Let `seconds` pass (an int, 0..`LONGEST`), or fewer, until `most` events. Returns what the rules did, in order.

        Where several rules act at an event, each of them counts as one.
        Raises `ValueError` if the number is outside these bounds, or if the clock would pass `LATEST`.
        """
        if not isinstance(seconds, int) or not 0 <= seconds <= LONGEST:
            raise ValueError(f"the clock moves forward by 0 to {LONGEST} seconds, not by {seconds!r}")
        if self.clock + seconds > LATEST:
            raise ValueError(f"the clock ends at {LATEST}")
        agenda, end, events = RuleAgenda(self), self.clock + seconds, 0
        fired = agenda.fire_due_rules()
        if self.clock < end:
            air = update_air(self)
            watches = _watches_of_rules(self, agenda.remaining_rules())
            while self.clock < end:
                if agenda.grown:  # a rule waits, perhaps for what none waited for before
                    watches, agenda.grown = _watches_of_rules(self, agenda.remaining_rules()), False
                to, events = _next_event(self, air, end, watches, agenda), events + 1
                end = to if most is not None and events >= most else end
                _move_clock(self, air, to, end, watches)
                acted = agenda.fire_due_rules()
                fired += acted
                events += max(len(acted) - 1, 0)
            self.air_stale = False  # each rule that acted has already updated the air of its rooms
        self.rules = agenda.remaining_rules()
        return fired

    def settle_rules(self) -> list[FiredRule]:
        """Let the rules act on the present state, for example after a service call. Returns what they did, in order."""
        agenda = RuleAgenda(self)
        fired = agenda.fire_due_rules()
        self.rules = agenda.remaining_rules()
        return fired


def _move_clock(home: HomeState, air: list[RoomAir], to: int, end: int, watches: TimeWatches) -> None:
    """Move clock, weather, air, sensors and counters to the moment `to` (s).

    Readings that no rule needs are written only if `to` is `end`, the end of the whole advance.
    """
    advance_counters(home, to - home.clock)
    home.clock = to
    if weather := weather_at(home, to):
        for slot, value in enumerate(weather):
            home.write_slot(slot, value + 0.0)  # turns -0.0 into 0.0: equal values need equal hashes
    if to == end:
        write_readings(home, air, range(len(air)), home.plan.time_wiring.readings)
    else:
        turned = {watch.room for watch in watches.readings} if weather else set()
        seen = [w.reading for w in watches.readings if w.at == to or (weather and w.reading.quantity == LIGHT)]
        write_readings(home, air, turned, seen)


# The next event


class ThresholdWatch:
    """Predicts when a slot that the air changes next crosses a threshold of the rules that read it.

    Example: a rule says `temperature > 25` and the slot shows 23. Then `at` is the second at which the slot first shows
    more than 25. `at` is `NEVER` if no threshold is crossed before the weather changes. The prediction is valid as long as
    the room keeps the object `air` and the slot keeps the object `value`. `low` and `high` are the nearest thresholds.
    """

    __slots__ = ("air", "at", "high", "low", "numbers", "reading", "room", "slot", "value")

    def __init__(self, reading: AirReading, numbers: Numbers) -> None:
        self.reading, self.numbers, self.slot, self.room = reading, numbers, reading.slot, reading.room
        self.air: RoomAir | None = None
        self.value: Any = None
        self.low, self.high = _nearest_thresholds(None, numbers)
        self.at = 0

    def predict_crossing(self, home: HomeState, air: list[RoomAir], end: int) -> None:
        """Predict `at` anew. `end` (s) is when the weather next changes or the advance ends, whichever comes first."""
        value = home.values[self.slot]
        # A jump is possible for light, which follows at once, and for a slot that a service call has overwritten.
        jumps = value is not self.value or self.at <= home.clock or self.reading.quantity == LIGHT
        if value is not self.value:
            self.value, (self.low, self.high) = value, _nearest_thresholds(value, self.numbers)
        self.air = air[self.room]
        if jumps and not self._keeps_comparisons(air, home.clock + 1):
            self.at = home.clock + 1
        elif self._keeps_comparisons(air, end):
            self.at = NEVER
        else:
            self.at = self._find_crossing(air, home.clock, end)

    def _keeps_comparisons(self, air: Sequence[RoomAir], clock: int) -> bool:
        """Whether all comparisons have the same result at `clock` (s) as they have now."""
        value = self.reading.value_at(air, clock)
        return bool(value == self.value or self.low < value < self.high)

    def _find_crossing(self, air: Sequence[RoomAir], now: int, end: int) -> int:
        """The first second at which some comparison changes, given that one has changed by `end`.

        The closed form gives the seconds at which the rounded reading should reach and pass the threshold. They are tried
        first. If they are off, bisection finds the second.
        """
        up = self.reading.value_at(air, end) > self.value
        edge, half = (self.high, self.reading.half) if up else (self.low, -self.reading.half)
        sides = (self.reading.quantity_of(number) for number in (edge - half, edge + half))
        near, far = (air[self.room].time_of_value(self.reading.quantity, number) for number in sides)
        tries = [far, far - 1, near, near - 1]
        while end - now > 1:
            middle = min(max(tries.pop(), now + 1), end - 1) if tries else (now + end) // 2
            now, end = (middle, end) if self._keeps_comparisons(air, middle) else (now, middle)
        return end


class TimeWatches(NamedTuple):
    """The slots that change with time alone and that rules read: readings of the air, and others with their thresholds."""

    readings: list[ThresholdWatch]
    counters: list[tuple[CountingAttribute, Numbers]]
    movers: list[tuple[MovingAttribute, Numbers]]


def _watches_of_rules(home: HomeState, rules: Iterable[HomeRule]) -> TimeWatches:
    """The watches of all slots that change with time and that conditions or counters read, with their thresholds."""
    wiring = home.plan.time_wiring
    numbers: dict[int, Numbers] = {slot: None for counter in wiring.counters for slot in counter.reads.values()}
    for rule in rules:
        if not rule.progress.enabled:
            continue
        numbers |= dict.fromkeys(rule.compiled.watched)
        for condition in (rule.compiled.condition, rule.compiled.proviso):
            for slot, thresholds in condition.slot_thresholds.items() if condition is not None else ():
                numbers[slot] = _join_thresholds(numbers.get(slot, frozenset()), thresholds)
    for follower in reversed(wiring.followers):  # what a derived slot reads is read by those who read it
        if follower.slot in numbers:
            for slot, thresholds in follower.slot_thresholds.items():
                numbers[slot] = _join_thresholds(numbers.get(slot, frozenset()), thresholds)
    readings, counters, movers = wiring.reading_of, wiring.counter_of, wiring.mover_of
    return TimeWatches(
        [ThresholdWatch(readings[slot], thresholds) for slot, thresholds in numbers.items() if slot in readings],
        [(counters[slot], thresholds) for slot, thresholds in numbers.items() if slot in counters],
        [(movers[slot], thresholds) for slot, thresholds in numbers.items() if slot in movers],
    )


def _join_thresholds(some: Numbers, others: Numbers) -> Numbers:
    """The thresholds of two readers of a slot; None if one of them may change at any number."""
    return None if some is None or others is None else some | others


def _next_event(home: HomeState, air: list[RoomAir], end: int, watches: TimeWatches, agenda: RuleAgenda) -> int:
    """The clock (s) of the next event, at most `end`: nothing that a rule reads changes before it."""
    now, moments = home.clock, home.plan.time_wiring.moments
    index = bisect_right(moments, now)
    weather = min(end, moments[index]) if index < len(moments) else end
    at = max(min(agenda.times, default=end), now + 1)
    values = home.values
    for watch in watches.readings:
        if watch.at <= now or values[watch.slot] is not watch.value or air[watch.room] is not watch.air:
            watch.predict_crossing(home, air, weather)
        if watch.at < at:
            at = watch.at
    for counter, numbers in watches.counters:
        at = min(at, _counter_crossing(home, counter, numbers))
    for mover, numbers in watches.movers:
        reached = mover.next_time_outside(home.values, now, *_nearest_thresholds(home.values[mover.slot], numbers))
        at = at if reached is None else min(at, reached)
    return min(at, weather)


def _counter_crossing(home: HomeState, counter: CountingAttribute, numbers: Numbers) -> int:
    """The clock (s) at which a counter next reaches or passes one of its thresholds; `NEVER` if it does not grow so far."""
    value = home.values[counter.slot]
    high = _nearest_thresholds(value, numbers)[1]
    next_one = value + 1 if high == value else high
    passes = next_one <= counter.largest_value and counter.is_counting(home.values)
    return home.clock + ceil(next_one) - value if passes else NEVER


def _nearest_thresholds(value: Any, numbers: Numbers) -> tuple[Any, Any]:
    """The nearest thresholds below and above a value. Between them no comparison changes.

    If the value is a threshold, or the thresholds are unknown (None), both are the value itself. Around a null lies nothing.
    """
    if value is None:
        return inf, -inf
    if numbers is None or value in numbers:
        return value, value
    return max((n for n in numbers if n < value), default=-inf), min((n for n in numbers if n > value), default=inf)


# The rules while they run


class RuleAgenda:
    """The rules of a home while they run: the progress of each, and the next time of each.

    A rule keeps its index in `rules`; None marks a deleted one. `times` holds `HomeRule.next_look_time` of each rule.
    `readers` are the indices of the enabled rules that something of the home may trigger. `slots` are the slots that do so,
    and `seen` their values when the rules last looked at them. `grown` says that rules were added since a caller last set it
    to False.
    """

    def __init__(self, home: HomeState) -> None:
        self.home = home
        # Positions stay valid while rules are deleted and added, so a deleted one leaves None.
        self.rules: list[HomeRule | None] = [*home.rules]
        self.times = [rule.next_look_time for rule in home.rules]
        self.grown = False
        self._find_readers()

    def _find_readers(self) -> None:
        rules = [(index, rule.compiled) for index, rule in self._present_rules() if rule.progress.enabled]
        self.readers = [index for index, compiled in rules if compiled.condition is not None or compiled.watched]
        self.slots = sorted({slot for _, compiled in rules for slot in compiled.trigger_slots})
        self.seen: list[Any] | None = None

    def _present_rules(self) -> list[tuple[int, HomeRule]]:
        """The rules that were not deleted, with their indices."""
        return [(index, rule) for index, rule in enumerate(self.rules) if rule is not None]

    def remaining_rules(self) -> tuple[HomeRule, ...]:
        """The rules that were not deleted, in order."""
        return tuple([rule for rule in self.rules if rule is not None])

    def fire_due_rules(self) -> list[FiredRule]:
        """Let the rules act on the present state until none is due. Returns what they did, in order."""
        fired: list[FiredRule] = []
        if self.rules:
            while (due := self._find_first_due()) is not None:
                fired.append(self._act(*due))
            for index, rule in self._reached_rules():  # due, but its condition does not hold
                self._put_rule(index, rule.after_time(self.home.clock))
        return fired

    def _find_first_due(self) -> tuple[int, HomeRule] | None:
        """The index and rule of the first rule that is due, after the conditions of all rules have been evaluated."""
        home = self.home
        advance_counters(home, 0)
        # Conditions depend on these slots alone, so they are evaluated again only if one of them has changed.
        if (now := [home.values[slot] for slot in self.slots]) != self.seen:
            for index in self.readers:  # all conditions are evaluated before any rule acts
                if (rule := self.rules[index]) is not None:
                    (self._note_watched if rule.compiled.watched else self._note_condition)(index, rule)
            self.seen = now
        for index, rule in self._reached_rules():
            if rule.is_due(home.clock):
                proviso = rule.compiled.proviso
                if (proviso is None or proviso.holds_in(home)) and self._admits_run(rule):
                    return index, rule
                timed = rule.definition.is_timed
                self._put_rule(index, rule.after_time(home.clock) if timed else rule.with_progress(since=None))
        return None

    def _admits_run(self, rule: HomeRule) -> bool:
        """Whether the automation of a rule may begin one more run, or goes on with one."""
        says = rule.definition
        if rule.progress.run is not None or says.most is None or says.restart:
            return True
        return len(self._runs_of_automation(rule)) < says.most

    def _runs_of_automation(self, rule: HomeRule) -> set[int]:
        """The numbers of the runs of a rule's automation."""
        others = (other for _, other in self._present_rules() if other.definition.of == rule.definition.of)
        return {other.progress.run for other in others if other.progress.run is not None}

    def _reached_rules(self) -> list[tuple[int, HomeRule]]:
        """The (index, rule) pairs of the rules whose time has been reached."""
        clock = self.home.clock
        if min(self.times) > clock:
            return []
        places = enumerate(zip(self.times, self.rules))
        return [(index, rule) for index, (time, rule) in places if time <= clock and rule is not None]

    def _note_condition(self, index: int, rule: HomeRule) -> None:
        """Record whether the condition of a rule holds now."""
        condition, progress, clock = rule.compiled.condition, rule.progress, self.home.clock
        holds = condition is not None and condition.holds_in(self.home)
        if holds != progress.held:
            begins = holds and not rule.definition.is_timed and progress.fired != clock
            self._put_rule(index, rule.with_progress(held=holds, since=clock if begins else None))

    def _note_watched(self, index: int, rule: HomeRule) -> None:
        """Record what a rule watches. A change triggers the rule if its conditions held before and hold now."""
        compiled, progress, clock = rule.compiled, rule.progress, self.home.clock
        values = self.home.values
        now, old = tuple([values[slot] for slot in compiled.watched]), values.copy()
        if now == progress.last:
            return
        for slot, value in zip(compiled.watched, progress.last or ()):
            old[slot] = value
        begins = progress.fired != clock and (compiled.earlier is None or compiled.earlier.is_true_of(old, clock))
        begins = begins and (compiled.condition is None or compiled.condition.holds_in(self.home))
        if compiled.edge is None:
            self._put_rule(index, rule.with_progress(last=now, since=clock if begins else None))
            return
        holds = compiled.edge.holds_in(self.home)
        since = progress.since if progress.held else clock if begins else None
        self._put_rule(index, rule.with_progress(last=now, held=holds, since=since if holds else None))

    def _put_rule(self, index: int, rule: HomeRule | None) -> None:
        self.rules[index], self.times[index] = rule, NEVER if rule is None else rule.next_look_time

    def _act(self, index: int, rule: HomeRule) -> FiredRule:
        """Do what the rule at an index does, up to its first wait, or to the first call that is refused."""
        home, wiring, actions = self.home, self.home.plan.time_wiring, rule.definition.actions
        dids = {action.did for action in actions}
        rooms = {wiring.room_of[did] for did in dids}
        # Before the calls, so that a rule whose calls change what it reads does not act again in this second.
        self._put_rule(index, rule.after_time(home.clock, fired=home.clock) if rule.progress.run is None else None)
        if home.air is not None:  # service code and steps may read sensors
            read = wiring.readings if rule.compiled.program else [one for did in dids for one in wiring.readings_of[did]]
            write_readings(home, home.air, rooms, read)
        try:
            if rule.definition.steps is None:
                for action in actions:
                    HomeState.call(home, action.did, action.service, (), dict(action.arguments))
            else:
                self._run_program(rule)
            refused = None
        except Refused as error:
            refused = str(error)
        if home.air is not None:
            update_air(home, rooms)
        return FiredRule(rule.id.partition("#")[0], home.clock, refused)

    def _run_program(self, rule: HomeRule) -> None:
        """Carry out the program of a rule, from where its run stands to the next wait. Raises `Refused` if a call is."""
        self._end_runs(rule)
        home, run, at, program = self.home, rule.progress.run, rule.progress.start, rule.compiled.program
        if run is None:
            run = max(self._runs_of_automation(rule), default=0) + 1
        own_id = rule.id.partition("#")[0]
        own = next((index for index, other in self._present_rules() if other.id == own_id), None)  # None: it was deleted
        for _ in range(MOST_STEPS):
            if at >= len(program):
                return
            step, at = program[at], at + 1
            match step:
                case CallStep(action, told, anyway):
                    self._note_tried(own, action)
                    try:
                        arguments = dict(action.arguments) | {name: _argument_value(text, home) for name, text in told}
                        HomeState.call(home, action.did, action.service, (), arguments)
                    except Refused:
                        if anyway:
                            continue
                        self._note_tried(own, *(later.action for later in program[at:] if isinstance(later, CallStep)))
                        raise
                    advance_counters(home, 0)
                case SwitchStep():
                    self._switch_automations(step)
                case JumpStep(to, unless):
                    at = to if unless is None or not unless.holds_in(home) else at
                case DelayStep(seconds):
                    delay = round(seconds_of_delay(seconds, home.values, home.clock))
                    self._leave_waiting(rule, run, at, WaitStep(None, (), delay, at))
                    return
                case WaitStep() if step.until is None or not step.until.holds_in(home):
                    self._leave_waiting(rule, run, at, step)
                    return

    def _end_runs(self, rule: HomeRule) -> None:
        """End what a rule ends by acting: the other waits of its run, or with `restart` all runs before a new one."""
        run = rule.progress.run
        for index, other in self._present_rules():
            same_automation = other.progress.run is not None and other.definition.of == rule.definition.of
            if same_automation and (rule.definition.restart if run is None else other.progress.run == run):
                self._put_rule(index, None)

    def _note_tried(self, index: int | None, *actions: Action) -> None:
        """Note that the steps of the rule at an index came to these calls now."""
        if index is not None and (rule := self.rules[index]) is not None:
            tried = {**rule.progress.tried, **dict.fromkeys(actions, self.home.clock)}
            self.rules[index] = rule.with_progress(tried=tried)

    def _switch_automations(self, step: SwitchStep) -> None:
        """Enable or disable automations; the runs of one that is disabled end."""
        for index, rule in self._present_rules():
            if (rule.definition.of or rule.id) in step.ids:
                enabled = step.to if step.to is not None else not rule.progress.enabled
                ends = rule.progress.run is not None and not enabled
                self._put_rule(index, None if ends else rule.with_progress(enabled=enabled))
        self._find_readers()

    def _leave_waiting(self, rule: HomeRule, run: int, start: int, wait: WaitStep) -> None:
        """Leave rules behind that go on with a run: one for each trigger that it waits for, and one at the timeout.

        They do what the rule does, and have nothing of what triggered it.
        """
        id = f"{rule.id.partition('#')[0]}#{run}"
        bare = replace(
            rule.definition, id=id, cron=None, at=None, when=None, hold=0, given=None,
            watch=None, before=None, becomes=None,
        )  # fmt: skip
        program, progress = rule.compiled.program, rule.progress
        waiting = RuleProgress(enabled=progress.enabled, run=run, start=start, tried=progress.tried)
        left = []
        for number, trigger in enumerate(wait.triggers, 1):
            says = trigger.definition
            until = replace(
                bare, id=f"{id}.{number}", when=says.when, hold=says.hold,
                watch=says.watch, before=says.before, becomes=says.becomes,
            )  # fmt: skip
            left.append(HomeRule(until, replace(trigger.compiled, program=program), waiting))
        if wait.timeout is not None and (at := self.home.clock + wait.timeout) <= LATEST:
            late = replace(waiting, due=at, start=wait.late)
            left.append(HomeRule(replace(bare, at=at), CompiledRule(program=program), late))
        added = [one.begun_in(self.home) for one in left]
        self.rules += added
        self.times += [one.next_look_time for one in added]
        self.grown = True
        self._find_readers()


def _argument_value(value: Condition, home: HomeState) -> Any:
    try:
        return value.compute_value(home.values, home.clock)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Refused("wrong_type", f"an argument cannot be worked out: {error}") from None
