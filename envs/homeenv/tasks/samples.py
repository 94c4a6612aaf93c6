"""Sampled states of a home that distinguish conditions: around each number that a condition compares, and far from it.

Invariants: deterministic; the first state is that of the home itself; slots that show one quantity of a room (its own
state and its sensors) agree in every state; a counter is 0 unless what it counts holds.
"""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, cast

from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.conditions import Condition
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.sim.values.types import ValueType

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
