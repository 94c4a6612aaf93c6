"""The triple filter (HomeFlow 3.3.1): executable, within bounds, consistent. A fourth one asks the agent's tools.

Each filter returns the reason why it drops a blueprint, or None.

Invariants: the plan of a blueprint that passes runs without a refusal and meets all conditions; doing nothing meets no
goal; the plan changes only devices that some intent concerns.
"""

from __future__ import annotations

from collections.abc import Callable

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.plan.conditions import compile_condition
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.goals import HeardReplies, compile_goals, compile_keeps, find_automation_flaw

Verdict = str | None  # the reason for dropping the blueprint, or None


def check_executable(blueprint: Blueprint, home: Home) -> Verdict:
    """Check that conditions compile for the home, and that the plan runs in the sandbox without refusal or error."""
    try:
        compile_goals(blueprint, home)
        for text in _all_conditions(blueprint):
            compile_condition(text, home.plan)
    except InputError:
        return "condition does not compile"
    calls: list[Call] = []
    for intent in blueprint.intents:
        calls += (*intent.plan, *(intent.automation.actions if intent.automation else ()))
    result = run_code("\n".join(call.code for call in calls), home.fork())
    if result.refusal:
        return f"plan refused: {result.refusal.rule}"
    return "plan fails" if result.error else None


def check_bounds(blueprint: Blueprint, home: Home) -> Verdict:
    """Check that each constant in a condition is a value that the compared attribute can have."""
    for text in _all_conditions(blueprint):
        for slot, value in compile_condition(text, home.plan).comparisons:
            try:
                home.plan.slots[slot].type.check_value(value)
            except Refused as refusal:
                return f"constant {refusal.rule}"
    return None


def check_consistency(blueprint: Blueprint, home: Home) -> Verdict:
    """Check that plan, conditions and devices agree.

    No goal is met at the start. All conditions hold after the plan. `keeps` hold before and after it. The plan changes
    no device that no intent concerns. The conditions of an intent read exactly the devices of the intent. Automations
    are checked by `find_automation_flaw`.
    """
    if any(goal.met(home, HeardReplies()) for goal in compile_goals(blueprint, home)):
        return "a condition holds already"
    for wanted in (intent.automation for intent in blueprint.intents if intent.automation):
        if reason := find_automation_flaw(home, wanted):
            return reason
    conditions = [compile_condition(text, home.plan) for text in blueprint.all_conditions]
    kept = compile_keeps(blueprint, home)
    after = home_after_calls(home, [call for intent in blueprint.intents for call in intent.plan])
    if not all(condition.holds_in(after) for condition in conditions):
        return "conditions contradict each other"
    if not all(condition.holds_in(state) for condition in kept for state in (home, after)):
        return "what is to be kept is not, or was not so"
    slots = home.plan.slots
    if {slots[change.slot].owner for change in home.diff(after)} - blueprint.changeable_devices:
        return "plan touches other devices"
    for intent in blueprint.intents:
        owners = {slots[s].owner for text in intent.conditions for s in compile_condition(text, home.plan).slots}
        if intent.conditions and owners != set(intent.devices):
            return "condition and devices disagree"
    return None


def check_expressible(blueprint: Blueprint, home: Home) -> Verdict:
    """Check that the agent's tools can make the calls of the plan, and show what must be read before them."""
    writer = TOOLSETS[blueprint.toolset].writer(home.fork(), "", lambda device: device.did)
    for intent in blueprint.intents:
        if reason := writer.unfit(intent.plan, intent.reads):
            return reason
        for call in intent.plan:
            writer.home.call(call.did, call.service, call.args)
    return None


def _all_conditions(blueprint: Blueprint) -> list[str]:
    """The conditions of the intents, those to be kept, and the effects of the automations."""
    effects = [i.automation.effects for i in blueprint.intents if i.automation]
    parts = (blueprint.all_conditions, *(i.keeps for i in blueprint.intents), *effects)
    return [text for part in parts for text in part]


FILTERS: dict[str, Callable[[Blueprint, Home], Verdict]] = {
    "executable": check_executable,
    "within_bounds": check_bounds,
    "consistent": check_consistency,
    "expressible": check_expressible,
}


def first_filter_failure(blueprint: Blueprint) -> tuple[str, str] | None:
    """The name of the first filter that drops the blueprint, with its reason; None if all pass."""
    home = home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")
    for name, check in FILTERS.items():
        if reason := check(blueprint, home):
            return name, reason
    return None
