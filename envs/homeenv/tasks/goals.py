"""Φ: the goals of a blueprint, and when each goal is met.

Goals on the home (conditions, automations) are functions of its current state, so a met goal can become unmet. Goals on
the dialogue (answers, clarifying questions) are met by the words of an agent, and stay met.

Whether a home has a wanted automation (SMH-Bench TC4) is judged by what its rules do and not by their text. Two rules have
the same trigger if they act at the same times (`_act_at_same_times`) and if their conditions agree in sampled states or in
simulated courses of events (`_agree_in_states`, `_agree_in_events`). In these, sensors and rooms that show one quantity
change together, and counters count. The actions of a rule are right if the wanted effects hold after them from every sampled
state of its devices, and if they touch no other device. The sampled states of a home distinguish conditions: they lie around
each number that a condition compares, and far from it.

Invariants:
- Pure: nothing here is random or asks a model. Results are cached, so that the same question costs microseconds.
- An unusual rule raises no error and is merely not accepted.
- The first sampled state is that of the home itself. Slots that show one quantity of a room (its own state and its sensors)
  agree in every state. A counter is 0 unless what it counts holds.
"""

from __future__ import annotations

import ast
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Any, NamedTuple, cast

from homerl.envs.core.world import StepFacts
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.conditions import Condition, compile_condition
from homerl.envs.homeenv.sim.cron_times import next_cron_time
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.rules import HomeRule
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.envs.homeenv.tasks.blueprint import Automation, Blueprint, Call, Intent
from homerl.play.situation import WishStanding, standing_by_progress
from homerl.play.spoken_words import SpokenWords
from homerl.play.words.answer_rules import judge_answer_by_rules


@dataclass(frozen=True)
class HeardReplies:
    """What the agents have said so far, as sets of intent ids.

    `answered` are intents whose question was answered correctly. `asked` are intents for which the agent asked a
    clarifying question before it acted. `misled` are intents that were answered wrongly before any correct answer; a
    later correct answer does not count, so that an agent cannot try one answer after another.
    """

    answered: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    misled: frozenset[int] = frozenset()

    def after_message(self, intent: Intent, said: SpokenWords, untouched: bool) -> HeardReplies:
        """The state after one more message, in which `said` was said while the user spoke of `intent`.

        `untouched` says whether the agent has not yet done anything about the intent.
        """
        answered, asked, misled = self.answered, self.asked, self.misled
        if said.question and intent.clarify:
            asked |= {intent.id} if untouched and names_what_is_open(said.text, intent) else set()
        elif intent.answer is not None and intent.id not in misled:
            words = said.text if intent.answer.type == "talk" else said.claims  # to talk is to ask, too
            reading = judge_answer_by_rules(intent.answer, words)
            answered |= {intent.id} if reading == "right" else set()
            misled |= {intent.id} - answered if reading == "wrong" else set()
        return HeardReplies(answered, asked, misled)


def names_what_is_open(text: str, intent: Intent) -> bool:
    """Whether a question names what the candidates of a request differ in, or one of them; "?" and "what?" do not.

    A name in letters of ASCII begins with a word of the text and may have an ending: "light" is named by "lights".
    """
    text = text.casefold()
    starts = (rf"\b{re.escape(name)}" if name.isascii() else re.escape(name) for name in map(str.casefold, intent.names))
    return not intent.names or any(re.search(start, text) for start in starts)


@dataclass(frozen=True)
class Goal:
    """One goal of Φ: the id of its intent, a predicate, and whether the goal asks for an answer."""

    intent: int
    met: Callable[[Home, HeardReplies], bool] = field(compare=False)
    answer: bool = False


def compile_goals(blueprint: Blueprint, start: Home) -> tuple[Goal, ...]:
    """All goals in the order of the intents.

    Raises `InputError` if a condition does not fit the home.
    """
    return tuple(goal for intent in blueprint.intents for goal in _goals_of_intent(intent, start))


def compile_keeps(blueprint: Blueprint, start: Home) -> tuple[Condition, ...]:
    """The compiled conditions that must hold throughout the episode."""
    return tuple(compile_condition(text, start.plan) for intent in blueprint.intents for text in intent.keeps)


def _condition_holds(condition: Condition, home: Home, heard: HeardReplies) -> bool:
    return condition.holds_in(home)


def _goals_of_intent(intent: Intent, start: Home) -> Iterator[Goal]:
    id = intent.id
    if intent.clarify:
        yield Goal(id, lambda home, heard: id in heard.asked)
    for text in intent.conditions:
        yield Goal(id, partial(_condition_holds, compile_condition(text, start.plan)))
    if (wanted := intent.automation) is not None:
        yield Goal(id, lambda home, heard: has_wanted_automation(home, start, wanted))
    if intent.answer is not None:
        yield Goal(id, lambda home, heard: id in heard.answered, answer=True)


CLAIMS_NOTHING = ("admission", "talk")  # the types of answers to what wants nothing that can be done


class GoalPlaces(NamedTuple):
    """Where in Φ the goals of an intent are: that of its clarifying question, if it needs one, and those on the home.

    The goal of a wish that cannot be met is one on the home: who claims to have met it claims something about the home.
    """

    question: int | None
    home: frozenset[int]


def find_goal_places(intents: Iterable[Intent]) -> dict[int, GoalPlaces]:
    """By the id of each intent where its goals are, in the order of Φ."""
    found, at = {}, 0
    for intent in intents:
        first = at + intent.clarify
        end = first + len(intent.conditions) + (intent.automation is not None)
        hopeless = intent.answer is not None and intent.answer.type in CLAIMS_NOTHING
        found[intent.id] = GoalPlaces(at if intent.clarify else None, frozenset(range(first, end + hopeless)))
        at = end + (intent.answer is not None)
    return found


def standing_in_home(intents: Sequence[Intent], facts: StepFacts, earlier: Sequence[StepFacts], claims: str) -> WishStanding:
    """How the wish that the user last spoke of stands after a message that ends the agent's turn and says `claims`.

    It is open while a goal on the home is unmet. An answer and a question that is missing leave nothing to be done there.
    """
    plain = standing_by_progress(facts, earlier, claims)
    intent = next((one for one in intents if one.id == facts.intent), None)
    if intent is None:
        return plain
    places = find_goal_places(intents)[intent.id]
    turns = {one.turn for one in (*earlier, facts) if one.intent == intent.id}
    met = {*facts.met}
    return replace(
        plain,
        is_told=len(turns) >= len(intent.course) + bool(intent.course and intent.aside),
        is_open=not places.home <= met,
        reading=None if intent.answer is None else judge_answer_by_rules(intent.answer, claims),
        lacks_question=places.question is not None and places.question not in met,
    )


def describe_goals(intent: Mapping[str, Any]) -> Iterator[str]:
    """Descriptions for people of the goals of an intent, given as plain data, in the order of Φ."""
    if intent.get("clarify"):
        yield "asks before it acts"
    yield from intent.get("conditions", ())
    if rule := intent.get("automation"):
        after = f"after {rule['delay_seconds']} s" if rule["delay_seconds"] else ""
        held = f"held {rule['hold_seconds']} s" if rule["hold_seconds"] else ""
        when = " and ".join([*rule["conditions"], *filter(None, (after, held))])
        yield f"a rule: when {when}, then {' and '.join(rule['effects'])}"
    if answer := intent.get("answer"):
        yield f"answers: {json.dumps(answer['value'], ensure_ascii=False)}"


# States of a home that distinguish conditions


MOST = 1500  # states; from more combinations, this many are drawn
COUNTER_STEP = 2  # seconds: counters are sampled this far from a compared number, as one second decides nothing
SELF = re.compile(r"self\.(\w+)")

Values = dict[int, Any]  # by slot


def _counters_read_by(home: Home, conditions: Sequence[Condition]) -> list[int]:
    """The slots of counters that the conditions read."""
    return [slot for slot in _slots_read_by(conditions) if slot in home.plan.time_wiring.counter_of]


def sample_home_states(home: Home, conditions: Sequence[Condition], counting: bool = True) -> Iterator[Home]:
    """Copies of the home that differ in what the conditions read.

    With `counting`, counters are set as well. Up to `MOST` combinations are all yielded; of more, `MOST` are drawn.
    """
    yield home.fork()
    groups = [_group_values(home, group, conditions, counting) for group in _slot_groups(home, conditions)]
    groups = [group for group in groups if group]
    combinations: Iterable[Sequence[Values]] = product(*groups)
    if math.prod(map(len, groups)) > MOST:
        rng = random.Random(0)
        combinations = ([rng.choice(group) for group in groups] for _ in range(MOST))
    for combination in combinations:
        state = home.fork()
        for values in combination:
            for slot, value in values.items():
                state.write_slot(slot, value)
        for slot in _counters_read_by(home, conditions) if counting else ():
            if not state.plan.time_wiring.counter_of[slot].is_counting(state.values):
                state.write_slot(slot, 0)
        yield state


def _slots_read_by(conditions: Sequence[Condition]) -> list[int]:
    return sorted({slot for condition in conditions for slot in condition.slots})


def _slot_groups(home: Home, conditions: Sequence[Condition]) -> list[list[int]]:
    """Groups of slots that change together: those that the conditions and their counters read.

    Slots that show one quantity of a room form one group; each other slot is a group of its own.
    """
    read = _slots_read_by(conditions)
    for place in (home.plan.slots[counter] for counter in _counters_read_by(home, conditions)):
        prefix = place.path[: place.path.rfind(".") + 1]
        attributes = home.plan.devices_by_did[place.owner].spec.readable_attributes
        paths = [prefix + name for name in SELF.findall(attributes[place.path].counts or "")]
        read += [home.plan.slot_of(place.owner, path) for path in paths if path in attributes]
    groups: dict[Any, list[int]] = {}
    for slot in dict.fromkeys(read):
        view = home.plan.time_wiring.reading_of.get(slot)
        groups.setdefault((view.room, view.quantity) if view else slot, []).append(slot)
    return list(groups.values())


def _group_values(home: Home, group: list[int], conditions: Sequence[Condition], counting: bool) -> list[Values]:
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
        return [*unknown, *({group[0]: value} for value in _slot_options(home, group[0], conditions) if value is not None)]
    # The home's value (unless it is null), the ends of the range, each compared number, and its neighbours.
    numbers = [value for value in (home.values[group[0]],) if value is not None]
    numbers += [end for kind in kinds for end in kind.range or ()]
    step = COUNTER_STEP if counter else max(kind.precision or (1 if kind.type == "int" else 0.1) for kind in kinds)
    for number in sorted(_compared_numbers(group, conditions)):
        numbers += [number - step, *(() if counter else (number,)), number + step]
    by_shown: dict[tuple[Any, ...], Values] = {tuple(present.values()): present for present in unknown}
    for number in numbers:
        shown = {
            s: wiring.reading_of[s].value_of_quantity(number)
            if s in wiring.reading_of
            else _nearest_number(slots[s].type, number)
            for s in group
        }
        by_shown.setdefault(tuple(shown.values()), shown)
    return list(by_shown.values())


def _compared_numbers(group: list[int], conditions: Sequence[Condition]) -> set[float]:
    """The numbers that the slots of a group are compared with.

    If a condition calculates with a slot, these are all numbers of the condition, and their negatives.
    """
    numbers: set[float] = set()
    for condition in conditions:
        for slot in condition.slots.intersection(group):
            if (plain := condition.slot_thresholds[slot]) is not None:
                numbers |= plain
            else:
                constants = (node.value for node in ast.walk(condition.tree) if isinstance(node, ast.Constant))
                written = {value for value in constants if isinstance(value, (int, float)) and not isinstance(value, bool)}
                numbers |= written | {-number for number in written}
    return {number for number in numbers if math.isfinite(number)}


def _slot_options(home: Home, slot: int, conditions: Sequence[Condition]) -> list[Any]:
    """All options; for text without options, the current value and the values that it is compared with."""
    kind = home.plan.slots[slot].type
    if kind.type == "bool":
        return [False, True]
    if kind.options is not None:
        return list(kind.options)
    options = [home.values[slot]]
    for value in [value for condition in conditions for at, value in condition.comparisons if at == slot]:
        with suppress(Refused):
            options += [value] if kind.check_value(value) == value else []
    return list(dict.fromkeys(options))


def _nearest_number(kind: ValueType, number: float) -> Any:
    """The nearest number that the type allows."""
    if kind.options is not None:
        return min(cast(tuple[float, ...], kind.options), key=lambda option: abs(option - number))
    low, high = kind.range or (-math.inf, math.inf)
    number = min(max(number, low), high)
    return kind.check_value(round(number) if kind.type == "int" else float(number))


# Wanted automations


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
    known = {rule.id for rule in start.rules}
    if not (made := [rule for rule in home.rules if rule.progress.enabled and rule.id not in known]):
        return frozenset()
    task = _shared_task(AutomationTask(f"{start.state_key()}{wanted.model_dump_json()}", start, wanted))
    late = home.clock - start.clock
    bare = tuple(  # without what says nothing of a rule's meaning: its names and its progress
        replace(rule, definition=replace(rule.definition, id="", title="")).with_progress(
            held=False, since=None, due=None, fired=None
        )
        for rule in made
    )
    indices = _rules_that_fulfil(_RuleCheck(f"{task.key}{late}{bare}", task, bare, late))
    return frozenset(made[index].id for index in indices)


def find_automation_flaw(home: Home, wanted: Automation) -> str | None:
    """Why the automation is no valid goal in this home, or None."""
    try:
        rule = _make_wanted_rule(home, wanted)
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
    if not _make_calls(after, wanted.actions) or not all(effect.holds_in(after) for effect in task.effect_conditions):
        return "automation: its actions do not have the effects"
    return None if _have_wanted_effects(task, (rule,)) else "automation: it does not do what it should"


@dataclass(frozen=True)
class AutomationTask:
    """A wanted automation in the home at the start, with what is derived from the two.

    Two tasks are equal if their `key` is equal.
    """

    key: str
    start: Home = field(compare=False, repr=False)
    wanted: Automation = field(compare=False, repr=False)

    @cached_property
    def wanted_rule(self) -> HomeRule:
        """The wanted automation as a rule of the home."""
        return _make_wanted_rule(self.start, self.wanted)

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
        _make_calls(again, self.wanted.actions)
        shuffled = []
        for seed in range(SHUFFLES):
            rng, home = random.Random(seed), begun.fork()
            for slot, place in enumerate(home.plan.slots):
                if place.owner in self.acted_devices and not getattr(place.type, "read_only", False):
                    home.write_slot(slot, place.type.sample_value(rng))
            shuffled.append(home)
        return (self.start, begun, again, *shuffled)


# Φ is asked after each step. A home with rules mostly has the rules of the step before, and a task is that of a blueprint
# which many rollouts play; so both are cached by texts that tell all that decides the answer.
@lru_cache(maxsize=256)
def _shared_task(task: AutomationTask) -> AutomationTask:
    """Equal tasks share one instance, and so its cached properties."""
    return task


@dataclass(frozen=True)
class _RuleCheck:
    """The question whether the rules `made` fulfil a task, as a cache key.

    `late` is in seconds. Two checks are equal if their `key` is equal.
    """

    key: str
    task: AutomationTask = field(compare=False, repr=False)
    made: tuple[HomeRule, ...] = field(compare=False, repr=False)
    late: int = field(compare=False, repr=False)


@lru_cache(maxsize=1024)
def _rules_that_fulfil(check: _RuleCheck) -> tuple[int, ...]:
    """Indices of the rules that fulfil the task together; empty if they do not."""
    task, made = check.task, check.made
    right = [index for index, rule in enumerate(made) if _has_same_trigger(task, rule, check.late)]
    for index in right:
        if _have_wanted_effects(task, (made[index],)):
            return (index,)
    parts = tuple(
        index for index in right if {action.did for action in made[index].definition.actions} <= task.acted_devices
    )
    return parts if len(parts) > 1 and _have_wanted_effects(task, [made[index] for index in parts]) else ()


# Triggers


def _has_same_trigger(task: AutomationTask, made: HomeRule, late: int) -> bool:
    wanted = task.wanted_rule
    if wanted.definition.is_timed != made.definition.is_timed:
        return False
    if made.definition.is_timed:
        return _act_at_same_times(wanted, made, task.start.clock, late) and _agree_in_states(task, made)
    if wanted.definition.hold or made.definition.hold or _counters_read_by(task.start, _conditions_of(task, made)):
        return _agree_in_events(task, made)
    return _agree_in_states(task, made)


def _act_at_same_times(wanted: HomeRule, made: HomeRule, now: int, late: int) -> bool:
    ours, theirs = (
        (rule.at,) if rule.at is not None else _cron_times(rule.cron or "", now)
        for rule in (wanted.definition, made.definition)
    )
    if len(ours) == 1 == len(theirs) and ours[0] is not None and theirs[0] is not None:
        return 0 <= theirs[0] - ours[0] <= late
    return bool(theirs) and ours == theirs


@lru_cache(maxsize=4096)
def _cron_times(cron: str, now: int) -> tuple[int | None, ...]:
    """The times of a cron line after `now`, in seconds since the epoch.

    These are all times if there are fewer than `FIRST`. Otherwise they are the first ones, and the next time after each
    of `PROBES`.
    """
    times: list[int] = []
    while len(times) < FIRST and (moment := next_cron_time(cron, times[-1] if times else now)) is not None:
        times.append(moment)
    return tuple(times) if len(times) < FIRST else (*times, *(next_cron_time(cron, now + ahead) for ahead in PROBES))


def _agree_in_states(task: AutomationTask, made: HomeRule) -> bool:
    """Whether both conditions hold in the same sampled states."""
    ours, theirs = task.wanted_rule.compiled.condition, made.compiled.condition
    if ours is None and theirs is None:
        return True
    sampled = sample_home_states(task.start, _conditions_of(task, made))
    return all((ours is None or ours.holds_in(s)) == (theirs is None or theirs.holds_in(s)) for s in sampled)


def _agree_in_events(task: AutomationTask, made: HomeRule) -> bool:
    """Whether both rules act at the same seconds, within `JITTER`, in sampled courses of events.

    In a course of events, the home rests, enters a state, stays in it for as long as the rules may have to wait, and
    returns.
    """
    watchers = tuple(
        replace(rule, definition=replace(rule.definition, id=id, actions=()))
        for id, rule in (("wanted", task.wanted_rule), ("made", made))
    )
    # The longest wait before the wanted rule acts: its hold, or a number that its counters are compared with.
    wait = task.wanted_rule.definition.hold
    if (condition := task.wanted_rule.compiled.condition) is not None:
        for slot in condition.plan.time_wiring.counter_of:
            wait = max([wait, *map(int, condition.slot_thresholds.get(slot) or ())])
    longest = min(max(wait, made.definition.hold), 2 * DAY) + 2 * REST
    states = list(sample_home_states(task.still_home, _conditions_of(task, made), counting=False))
    for state in states if len(states) <= MOST_COURSES else random.Random(0).sample(states, MOST_COURSES):
        home, fired = task.still_home.fork(), []
        conditions = [watcher.compiled.condition for watcher in watchers]
        held = [condition is not None and condition.holds_in(home) for condition in conditions]
        home.rules = tuple(watcher.with_progress(held=holds) for watcher, holds in zip(watchers, held))
        for seconds, other in ((REST, task.still_home), (longest, state), (REST, task.still_home)):
            for change in home.diff(other):
                if change.slot not in home.plan.time_wiring.counter_of:  # counters keep counting
                    home.write_slot(change.slot, change.after)
            fired += home.advance(seconds)
        ours, theirs = ([f.clock for f in fired if f.rule == id] for id in ("wanted", "made"))
        if len(ours) != len(theirs) or any(abs(a - b) > JITTER for a, b in zip(ours, theirs)):
            return False
    return True


def _conditions_of(task: AutomationTask, made: HomeRule) -> list[Condition]:
    return [condition for rule in (task.wanted_rule, made) if (condition := rule.compiled.condition) is not None]


# Actions


def _have_wanted_effects(task: AutomationTask, rules: Sequence[HomeRule]) -> bool:
    """Whether the effects hold after the rules in every state where they can, and no other device is touched."""
    if any(action.did not in task.acted_devices for rule in rules for action in rule.definition.actions):
        return False
    for state in task.homes_before_acting:
        model, home = state.fork(), state.fork()
        acted = _make_calls(model, task.wanted.actions)
        possible = acted and all(effect.holds_in(model) for effect in task.effect_conditions)
        for rule in rules:
            _make_calls(home, rule.definition.actions)
        if possible and not all(effect.holds_in(home) for effect in task.effect_conditions):
            return False
    return True


def _make_calls(home: Home, calls: Sequence[Any]) -> bool:
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


def _make_wanted_rule(home: Home, wanted: Automation) -> HomeRule:
    """The wanted rule as an agent would create it."""
    actions = []
    for call in wanted.actions:
        service = home.plan.compiled_services.get((call.did, call.service))
        names = [argument.name for argument in service[0].service.arguments] if service else []
        actions.append({"did": call.did, "locator": call.service, "arguments": dict(zip(names, call.args))})
    return make_rule(home, wanted.conditions, actions, "", wanted.delay_seconds, wanted.hold_seconds)
