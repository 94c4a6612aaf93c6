"""The triple filter (HomeFlow 3.3.1): executable, within bounds, consistent. Each names what it dropped.

Invariants: a blueprint that passes can be solved by its plan without a refusal, is not solved by doing
nothing, and its plan changes no device that no intent concerns.
"""

from __future__ import annotations

from collections.abc import Callable

from envs.documents import InputError
from envs.homeenv.audit import Refused
from envs.homeenv.conditions import compile_condition
from envs.homeenv.home import Home
from envs.homeenv.home_file import home_from_json
from envs.homeenv.sandbox import run_code
from homerl.blueprints.blueprint import Blueprint

Verdict = str | None  # why it was dropped, or None


def executable(blueprint: Blueprint, home: Home) -> Verdict:
    """Conditions compile against the home, and the plan runs in the sandbox without refusal or error."""
    try:
        for text in blueprint.conditions:
            compile_condition(text, home.plan)
    except InputError:
        return "condition does not compile"
    code = "\n".join(call.code for intent in blueprint.intents for call in intent.plan)
    result = run_code(code, home.fork())
    if result.refusal:
        return f"plan refused: {result.refusal.rule}"
    return "plan fails" if result.error else None


def within_bounds(blueprint: Blueprint, home: Home) -> Verdict:
    """Every constant that a condition compares is one that the device can take."""
    for text in blueprint.conditions:
        for slot, value in compile_condition(text, home.plan).comparisons:
            try:
                home.plan.slots[slot].type.check(value)
            except Refused as refusal:
                return f"constant {refusal.rule}"
    return None


def consistent(blueprint: Blueprint, home: Home) -> Verdict:
    """No condition holds at the start, all hold after the plan, conditions read what their intent concerns."""
    conditions = [compile_condition(text, home.plan) for text in blueprint.conditions]
    if any(condition.holds(home) for condition in conditions):
        return "a condition holds already"
    after = home.fork()
    for intent in blueprint.intents:
        for call in intent.plan:
            after.call(call.did, call.service, call.args)
    if not all(condition.holds(after) for condition in conditions):
        return "conditions contradict each other"
    slots = home.plan.slots
    if {slots[change.slot].owner for change in home.diff(after)} - blueprint.devices:
        return "plan touches other devices"
    for intent in blueprint.intents:
        owners = {slots[s].owner for text in intent.conditions for s in compile_condition(text, home.plan).slots}
        if owners != set(intent.devices):
            return "condition and devices disagree"
    return None


FILTERS: dict[str, Callable[[Blueprint, Home], Verdict]] = {
    "executable": executable,
    "within_bounds": within_bounds,
    "consistent": consistent,
}


def first_failure(blueprint: Blueprint) -> tuple[str, str] | None:
    """(filter, reason) of the first filter that drops the blueprint, or None."""
    home = home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")
    for name, check in FILTERS.items():
        if reason := check(blueprint, home):
            return name, reason
    return None
