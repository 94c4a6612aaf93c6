"""Time: the clock leaps from event to event, and what depends on it follows.

Events are: a change of the weather, a time of a rule, the end of a rule's `hold`, and every moment at which a
quantity that some rule watches passes a number the rule compares it with. Between events the air of a room is a
closed form (`physics.py`) and a counter grows by the second, so nothing is ever ticked.

Invariants: `advance(a); advance(b)` leaves what `advance(a + b)` leaves, and the rules have acted at the same
seconds in the same order; rules act in the order in which the home lists them, and what one does the next one
sees; a home whose clock never moves pays nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from envs.homeenv.audit import Refused
from envs.homeenv.automation import Rule, next_time, put_rule
from envs.homeenv.home import LATEST, Home
from envs.homeenv.physics import Air, Inputs, Outdoors

LONGEST = 366 * 86400
Watched = dict[int, frozenset | None]


@dataclass(frozen=True)
class Fired:
    """A rule that acted: when, and what was refused, if anything (the calls after it were not made)."""

    rule: str
    clock: int
    refused: str | None = None


def advance(home: Home, seconds: int) -> list[Fired]:
    """Let `seconds` pass; what the rules did, in order."""
    if not isinstance(seconds, int) or not 0 <= seconds <= LONGEST:
        raise ValueError(f"the clock moves forward by 0 to {LONGEST} seconds, not by {seconds!r}")
    if home.clock + seconds > LATEST:
        raise ValueError(f"the clock ends at {LATEST}")
    fired, end = settle(home), home.clock + seconds
    watched = _watched(home)
    while home.clock < end:
        breathe(home)
        _move(home, _next_event(home, end, watched), end, watched)
        fired += settle(home)
    return fired


def settle(home: Home) -> list[Fired]:
    """Let the rules see the present state and act on it: after calls, and at every event."""
    fired: list[Fired] = []
    if home.rules:
        _count(home, 0)
        while (index := _first_due(home)) is not None:
            fired.append(_act(home, index))
        _pass_times(home)
    return fired


# Rules


def _first_due(home: Home) -> int | None:
    """The index of the first rule that should act now."""
    _observe(home)
    for index, rule in enumerate(home.rules):
        if not rule.enabled or rule.fired == home.clock:
            continue
        if rule.timed and rule.due == home.clock and (rule.condition is None or rule.held):
            return index
        if not rule.timed and rule.since is not None and home.clock >= rule.since + rule.hold:
            return index
    return None


def _observe(home: Home) -> None:
    """Tell every rule whether its condition holds now, all of them before any acts."""
    for index, rule in enumerate(home.rules):
        if rule.enabled and rule.condition is not None and (holds := rule.condition.holds(home)) != rule.held:
            since = home.clock if holds and not rule.timed and rule.fired != home.clock else None
            put_rule(home, index, replace(rule, held=holds, since=since))


def _pass_times(home: Home) -> None:
    """A time that came while its condition did not hold is over; a moment that comes once is gone."""
    for rule in [rule for rule in home.rules if rule.due is not None and rule.due <= home.clock]:
        index = home.rules.index(rule)
        if rule.at is not None:
            put_rule(home, index, None)
        else:
            put_rule(home, index, _rearmed(rule, home.clock))


def _rearmed(rule: Rule, clock: int) -> Rule:
    """The rule after its time has come: `at` has no other."""
    return replace(rule, due=next_time(rule.cron, clock) if rule.cron else None)


def _act(home: Home, index: int) -> Fired:
    """Make a rule's calls, up to the first that is refused."""
    rule, refused = home.rules[index], None
    if rule.at is not None:
        put_rule(home, index, None)
    else:
        after = _rearmed(rule, home.clock) if rule.timed else replace(rule, since=None)
        put_rule(home, index, replace(after, fired=home.clock))
    for action in rule.actions:
        try:
            home.call(action.did, action.service, (), dict(action.arguments))
        except Refused as error:
            refused = str(error)
            break
    return Fired(rule.id, home.clock, refused)


# Air, sensors, counters


def breathe(home: Home) -> None:
    """Give every room whose devices have changed the air that they now make, just before the clock moves on.

    Not sooner: what is undone within the same second leaves no trace, and whoever looks at a home changes nothing.
    """
    wiring, outdoors = home.plan.wiring, Outdoors(*home.values[:3])
    if home.air is None:
        home.air = tuple(
            Air(home.clock, *home.values[room.slot : room.slot + 2], outdoors, Inputs(), bias, room.shell).changed(
                home.clock, outdoors, room.inputs(home.values)
            )
            for room, bias in zip(wiring.rooms, home.plan.bias)
        )
    elif home.stirred:
        new = list(home.air)
        for index, (room, air) in enumerate(zip(wiring.rooms, home.air)):
            if (devices := room.inputs(home.values)) != air.devices:
                changed = air.changed(home.clock, outdoors, devices)
                new[index] = changed if changed.goal != air.goal else air._replace(devices=devices)
        home.air = tuple(new)
    home.stirred = False


def _move(home: Home, to: int, end: int, watched: Watched) -> None:
    """Bring clock, weather, air, sensors and counters to a moment; what no rule watches, at the end alone."""
    _count(home, to - home.clock)
    home.clock = to
    if (weather := _weather_at(home, to)) is not None:
        for slot, value in enumerate(weather):
            home.set(slot, value + 0.0)  # one zero, not two
        home.air = tuple([air.changed(to, weather, air.devices) for air in home.air])
    _show(home, None if to == end else watched)
    home.stirred = False


def _weather_at(home: Home, clock: int) -> Outdoors | None:
    """The weather that begins at this very moment, if any does."""
    forecast = home.plan.forecast
    index = bisect_right(forecast, clock, key=lambda moment: moment.clock) - 1
    return forecast[index].outdoors if index >= 0 and forecast[index].clock == clock else None


def _count(home: Home, seconds: int) -> None:
    """Counters grow while what they count holds, and are 0 while it does not. They are nothing to the air."""
    stirred = home.stirred
    for counter in home.plan.wiring.counters:
        home.set(counter.slot, counter.after(home.values, seconds))
    home.stirred = stirred


def _show(home: Home, only: Watched | None) -> None:
    """Write what rooms and sensors show now: all of it, or the slots that are watched."""
    wiring = home.plan.wiring
    views = wiring.views if only is None else [wiring.view_of[slot] for slot in only if slot in wiring.view_of]
    for view in views:
        home.set(view.slot, view.at(home.air, home.clock))


# What comes next


def _next_event(home: Home, end: int, watched: Watched) -> int:
    """The next moment, `end` at most, at which anything may change that a rule could see."""
    at, now = end, home.clock
    forecast = home.plan.forecast
    index = bisect_right(forecast, now, key=lambda moment: moment.clock)
    if index < len(forecast):
        at = min(at, forecast[index].clock)
    for rule in home.rules:
        if rule.enabled and rule.due is not None and rule.due > now:
            at = min(at, rule.due)
        if rule.enabled and rule.since is not None and rule.since + rule.hold > now:
            at = min(at, rule.since + rule.hold)
    for slot, show in _moving(home, watched):
        at = _crossing(show, watched[slot], home.values[slot], now, at)
    return at


def _watched(home: Home) -> Watched:
    """Slots that conditions of rules read -> the numbers they are compared with; None where it is not so simple.
    What counters look at is watched as well."""
    watched: Watched = dict.fromkeys(home.plan.wiring.counted_views)
    for rule in home.rules:
        if rule.enabled and rule.condition is not None:
            for slot, numbers in rule.condition.thresholds.items():
                known = watched.get(slot, frozenset())
                watched[slot] = None if known is None or numbers is None else known | numbers
    return watched


def _moving(home: Home, watched: Watched) -> Iterator[tuple[int, Callable[[int], Any]]]:
    """What each watched slot that moves by itself will show, as a function of time."""
    wiring = home.plan.wiring
    for slot in watched:
        if slot in wiring.view_of:
            yield slot, lambda clock, view=wiring.view_of[slot], air=home.air: view.at(air, clock)
        elif slot in wiring.counter_of:
            counter, now = wiring.counter_of[slot], home.clock
            yield slot, lambda clock, c=counter, now=now: c.after(home.values, clock - now)


def _crossing(show: Callable[[int], Any], numbers: frozenset | None, shown: Any, now: int, end: int) -> int:
    """The first second after `now`, `end` at most, at which a quantity that moves one way stands otherwise to some
    number than what is shown, which light leaves at once.
    """

    def stands(value: Any) -> Any:
        return value if numbers is None else [(value > n) - (value < n) for n in numbers]

    before, low, high = stands(shown), now + 1, end
    if stands(show(low)) != before:
        return low
    if stands(show(end)) == before:
        return end
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if stands(show(middle)) == before else (low, middle)
    return high
