"""The home as agents and environments use it: its state (`home_state.py`), in which time passes.

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
- Rules act in the order of `HomeState.rules`, and each sees what those before it did.
- When `advance` returns, the air of every room accounts for all weather up to the clock.
- A home whose clock never moves computes no air.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import ceil, inf
from typing import Any, NamedTuple

from homerl.envs.homeenv.sim.devices.air_physics import LIGHT, RoomAir
from homerl.envs.homeenv.sim.devices.self_changing_attributes import CountingAttribute, MovingAttribute
from homerl.envs.homeenv.sim.home_plan import LATEST, AirReading
from homerl.envs.homeenv.sim.home_state import (
    HomeState,
    advance_counters,
    update_air,
    weather_at,
    write_readings,
)
from homerl.envs.homeenv.sim.rule_firing import FiredRule, RuleAgenda
from homerl.envs.homeenv.sim.rules import NEVER, HomeRule
from homerl.envs.homeenv.sim.values.expressions import Numbers

LONGEST = 366 * 86400  # the most seconds of one `advance`


class Home(HomeState):
    """A `HomeState` (plan, values, clock, service calls, fork, diff, state key) in which time passes."""

    __slots__ = ()

    def advance(self, seconds: int) -> list[FiredRule]:
        """Let `seconds` pass (an int, 0..`LONGEST`). Returns what the rules did, in order.

        Raises `ValueError` if the number is outside these bounds, or if the clock would pass `LATEST`.
        """
        if not isinstance(seconds, int) or not 0 <= seconds <= LONGEST:
            raise ValueError(f"the clock moves forward by 0 to {LONGEST} seconds, not by {seconds!r}")
        if self.clock + seconds > LATEST:
            raise ValueError(f"the clock ends at {LATEST}")
        agenda, end = RuleAgenda(self), self.clock + seconds
        fired = agenda.fire_due_rules()
        if self.clock < end:
            air = update_air(self)
            watches = _watches_of_rules(self, agenda.remaining_rules())
            while self.clock < end:
                if agenda.grown:  # a rule waits, perhaps for what none waited for before
                    watches, agenda.grown = _watches_of_rules(self, agenda.remaining_rules()), False
                _move_clock(self, air, _next_event(self, air, end, watches, agenda), end, watches)
                fired += agenda.fire_due_rules()
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
