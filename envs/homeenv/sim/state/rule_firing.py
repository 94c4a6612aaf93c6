"""The rules of a home while they run. `clock.py` says when.

Invariants:
- Rules act in the order of `HomeState.rules`, and each sees what those before it did. Those of a run come last.
- An automation has no more runs at a time than it admits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from homerl.envs.homeenv.sim.plan.conditions import Condition
from homerl.envs.homeenv.sim.plan.fixed_plan import LATEST
from homerl.envs.homeenv.sim.state.air_and_counters import advance_counters, update_air, write_readings
from homerl.envs.homeenv.sim.state.home_state import HomeState, call_service
from homerl.envs.homeenv.sim.state.rules_and_programs import (
    MOST_STEPS,
    NEVER,
    Action,
    CallStep,
    DelayStep,
    JumpStep,
    Rule,
    SwitchStep,
    WaitStep,
    seconds_of_delay,
)
from homerl.envs.homeenv.sim.values.auditor import Refused

BARE: dict[str, Any] = {  # a rule that goes on with a run has nothing of what triggered it
    "cron": None, "at": None, "when": None, "hold": 0, "held": False, "since": None, "due": None, "fired": None,
    "given": None, "watch": None, "before": None, "last": None,
    "condition": None, "proviso": None, "earlier": None, "watched": (),
}  # fmt: skip
TRIGGER = ("when", "hold", "watch", "before", "condition", "earlier", "watched")  # what it has of what it waits for


@dataclass(frozen=True)
class FiredRule:
    """A record that a rule acted: the rule's id and the `clock` (s).

    `refused` is the refusal of one of its calls, if any. The calls after that one were not made.
    """

    rule: str
    clock: int
    refused: str | None = None


def unset_progress(rule: Rule, home: HomeState) -> Rule:
    """The rule with its initial progress in `home`, but for its due time: what already holds does not trigger it."""
    held = rule.condition is not None and rule.condition.holds_in(home)
    last = tuple([home.values[slot] for slot in rule.watched]) if rule.watched else None
    return rule.with_progress(held=held, last=last, since=None)


class RuleAgenda:
    """The rules of a home while they run: the progress of each, and the next time of each.

    A rule keeps its index in `rules`; None marks a deleted one. `times` holds `Rule.time` of each rule. `readers` are the
    indices of the enabled rules that something of the home may trigger. `slots` are the slots that do so, and `seen` their
    values when the rules last looked at them. `grown` says that rules were added since a caller last set it to False.
    """

    def __init__(self, home: HomeState) -> None:
        self.home = home
        self.rules: list[Rule | None] = [*home.rules]
        self.times = [rule.next_look_time for rule in home.rules]
        self.grown = False
        self._read()

    def _read(self) -> None:
        rules = [(index, rule) for index, rule in enumerate(self.rules) if rule is not None and rule.enabled]
        self.readers = [index for index, rule in rules if rule.condition is not None or rule.watched]
        self.slots = sorted({slot for _, rule in rules for slot in rule.trigger_slots})
        self.seen: list[Any] | None = None

    def remaining_rules(self) -> tuple[Rule, ...]:
        """The rules that were not deleted, in order."""
        return tuple([rule for rule in self.rules if rule is not None])

    def fire_due_rules(self) -> list[FiredRule]:
        """Let the rules act on the present state until none is due. Returns what they did, in order."""
        fired: list[FiredRule] = []
        if self.rules:
            while (due := self._first_due()) is not None:
                fired.append(self._act(*due))
            for index, rule in self._reached():  # due, but its condition does not hold
                self._put(index, rule.after_time(self.home.clock))
        return fired

    def _first_due(self) -> tuple[int, Rule] | None:
        """The index and rule of the first rule that is due, after the conditions of all rules have been evaluated."""
        advance_counters(self.home, 0)
        values = self.home.values
        if (now := [values[slot] for slot in self.slots]) != self.seen:
            self._observe()
            self.seen = now
        for index, rule in self._reached():
            if rule.is_due(self.home.clock):
                if (rule.proviso is None or rule.proviso.holds_in(self.home)) and self._admits(rule):
                    return index, rule
                self._put(index, rule.after_time(self.home.clock) if rule.is_timed else rule.with_progress(since=None))
        return None

    def _admits(self, rule: Rule) -> bool:
        """Whether the automation of a rule may begin one more run, or goes on with one."""
        return rule.run is not None or rule.most is None or rule.restart or len({*self._runs(rule)}) < rule.most

    def _runs(self, rule: Rule) -> Iterator[int]:
        """The numbers of the runs of a rule's automation."""
        yield from (one.run for one in self.rules if one is not None and one.run is not None and one.of == rule.of)

    def _reached(self) -> list[tuple[int, Rule]]:
        """The (index, rule) pairs of the rules whose time has been reached."""
        clock = self.home.clock
        if min(self.times) > clock:
            return []
        places = enumerate(zip(self.times, self.rules))
        return [(index, rule) for index, (time, rule) in places if time <= clock and rule is not None]

    def _observe(self) -> None:
        """Record for every rule whether its condition holds now. This is done for all rules before any acts."""
        for index in self.readers:
            if (rule := self.rules[index]) is not None:
                (self._watch if rule.watched else self._hold)(index, rule)

    def _hold(self, index: int, rule: Rule) -> None:
        holds, clock = rule.condition is not None and rule.condition.holds_in(self.home), self.home.clock
        if holds != rule.held:
            begins = holds and not rule.is_timed and rule.fired != clock
            self._put(index, rule.with_progress(held=holds, since=clock if begins else None))

    def _watch(self, index: int, rule: Rule) -> None:
        values, clock = self.home.values, self.home.clock
        now, old = tuple([values[slot] for slot in rule.watched]), values.copy()
        if now == rule.last:
            return
        for slot, value in zip(rule.watched, rule.last or ()):
            old[slot] = value
        begins = rule.fired != clock and (rule.earlier is None or rule.earlier.is_true_of(old, clock))
        begins = begins and (rule.condition is None or rule.condition.holds_in(self.home))
        self._put(index, rule.with_progress(last=now, since=clock if begins else None))

    def _put(self, index: int, rule: Rule | None) -> None:
        self.rules[index], self.times[index] = rule, NEVER if rule is None else rule.next_look_time

    def _act(self, index: int, rule: Rule) -> FiredRule:
        """Do what the rule at an index does, up to its first wait, or to the first call that is refused."""
        home, wiring = self.home, self.home.plan.time_wiring
        dids = {action.did for action in rule.actions}
        rooms = {wiring.room_of[did] for did in dids}
        self._put(index, rule.after_time(home.clock, fired=home.clock) if rule.run is None else None)
        if home.air is not None:  # service code and steps may read sensors
            read = wiring.readings if rule.program else [reading for did in dids for reading in wiring.readings_of[did]]
            write_readings(home, home.air, rooms, read)
        try:
            if rule.steps is None:
                for action in rule.actions:
                    self._call(action)
            else:
                self._go_on(rule)
            refused = None
        except Refused as error:
            refused = str(error)
        if home.air is not None:
            update_air(home, rooms)
        return FiredRule(rule.id.partition("#")[0], home.clock, refused)

    def _call(self, action: Action, told: dict[str, Any] | None = None) -> None:
        call_service(self.home, action.did, action.service, (), dict(action.arguments) | (told or {}))

    def _go_on(self, rule: Rule) -> None:
        """Carry out the program of a rule, from where its run stands to the next wait. Raises `Refused` if a call is."""
        ended = [place for place, one in enumerate(self.rules) if one is not None and self._ends(rule, one)]
        for place in ended:
            self._put(place, None)
        run = rule.run if rule.run is not None else max(self._runs(rule), default=0) + 1
        at, home, own = rule.start, self.home, self._place(rule)
        for _ in range(MOST_STEPS):
            if at >= len(rule.program):
                return
            step, at = rule.program[at], at + 1
            match step:
                case CallStep(action, told):
                    self._trace(own, action)
                    try:
                        self._call(action, {name: _worked_out(value, home) for name, value in told})
                    except Refused:
                        self._trace(own, *(one.action for one in rule.program[at:] if isinstance(one, CallStep)))
                        raise
                    advance_counters(home, 0)
                case SwitchStep():
                    self._switch(step)
                case JumpStep(to, unless):
                    at = to if unless is None or not unless.holds_in(home) else at
                case DelayStep(seconds):
                    self._wait(
                        rule, run, at, WaitStep(None, (), round(seconds_of_delay(seconds, home.values, home.clock)), at)
                    )
                    return
                case WaitStep() if step.until is None or not step.until.holds_in(home):
                    self._wait(rule, run, at, step)
                    return

    def _place(self, rule: Rule) -> int | None:
        """The index of a rule, or of the one whose run it goes on with; None if that was deleted."""
        own = rule.id.partition("#")[0]
        return next((place for place, one in enumerate(self.rules) if one is not None and one.id == own), None)

    def _trace(self, place: int | None, *actions: Action) -> None:
        """Keep when the steps of the rule at an index came to these calls."""
        if place is not None and (rule := self.rules[place]) is not None:
            self.rules[place] = rule.with_progress(tried={**rule.tried, **dict.fromkeys(actions, self.home.clock)})

    def _switch(self, step: SwitchStep) -> None:
        """Enable or disable automations; the runs of one that is disabled end."""
        for place, rule in enumerate(self.rules):
            if rule is not None and (rule.of or rule.id) in step.ids:
                enabled = step.to if step.to is not None else not rule.enabled
                self._put(place, None if rule.run is not None and not enabled else rule.with_progress(enabled=enabled))
        self._read()

    @staticmethod
    def _ends(rule: Rule, other: Rule) -> bool:
        """Whether another rule is of a run that ends when a rule acts: the run's others, or all if that begins anew."""
        if other.run is None or other.of != rule.of:
            return False
        return other.run == rule.run if rule.run is not None else rule.restart

    def _wait(self, rule: Rule, run: int, start: int, wait: WaitStep) -> None:
        """Leave rules behind that go on with a run: at a time, and for what else it waits for."""
        clock = self.home.clock
        id, bare = f"{rule.id.partition('#')[0]}#{run}", rule.with_progress(**BARE, run=run)
        left = [
            bare.with_progress(id=f"{id}.{number}", start=start, **{name: getattr(one, name) for name in TRIGGER})
            for number, one in enumerate(wait.triggers, 1)
        ]
        if wait.timeout is not None and (at := clock + wait.timeout) <= LATEST:
            left.append(bare.with_progress(id=id, at=at, due=at, start=wait.late))
        added = [unset_progress(one, self.home) for one in left]
        self.rules += added
        self.times += [one.next_look_time for one in added]
        self.grown = True
        self._read()


def _worked_out(value: Condition, home: HomeState) -> Any:
    try:
        return value.compute_value(home.values, home.clock)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Refused("wrong_type", f"an argument cannot be worked out: {error}") from None
