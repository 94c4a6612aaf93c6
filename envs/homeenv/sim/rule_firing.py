"""The rules of a home while they run. `home.py` says when.

Invariants:
- A rule calls services by `HomeState.call` itself: a home that records the calls of agents does not record those of rules.
- Rules act in the order of `HomeState.rules`, and each sees what those before it did. Those of a run come last.
- An automation has no more runs at a time than it admits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.homeenv.sim.conditions import Condition
from homerl.envs.homeenv.sim.home_plan import LATEST
from homerl.envs.homeenv.sim.home_state import HomeState, advance_counters, update_air, write_readings
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


@dataclass(frozen=True)
class FiredRule:
    """A record that a rule acted: the rule's id and the `clock` (s).

    `refused` is the refusal of one of its calls, if any. The calls after that one were not made.
    """

    rule: str
    clock: int
    refused: str | None = None


class RuleAgenda:
    """The rules of a home while they run: the progress of each, and the next time of each.

    A rule keeps its index in `rules`; None marks a deleted one. `times` holds `HomeRule.next_look_time` of each rule.
    `readers` are the indices of the enabled rules that something of the home may trigger. `slots` are the slots that do so,
    and `seen` their values when the rules last looked at them. `grown` says that rules were added since a caller last set it
    to False.
    """

    def __init__(self, home: HomeState) -> None:
        self.home = home
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
        self._put_rule(index, rule.with_progress(last=now, since=clock if begins else None))

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
                case CallStep(action, told):
                    self._note_tried(own, action)
                    try:
                        arguments = dict(action.arguments) | {name: _argument_value(text, home) for name, text in told}
                        HomeState.call(home, action.did, action.service, (), arguments)
                    except Refused:
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
            rule.definition, id=id, cron=None, at=None, when=None, hold=0, given=None, watch=None, before=None
        )  # fmt: skip
        program, progress = rule.compiled.program, rule.progress
        waiting = RuleProgress(enabled=progress.enabled, run=run, start=start, tried=progress.tried)
        left = []
        for number, trigger in enumerate(wait.triggers, 1):
            says = trigger.definition
            until = replace(bare, id=f"{id}.{number}", when=says.when, hold=says.hold, watch=says.watch, before=says.before)
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
