"""What rules say of plans: golden verdicts on households from seeds, and each rule broken by itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.household import Household, Taste
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.tasks import plan_rules
from homerl.envs.personalhome.tasks.plan_rules import judge_plan, settling_program, static_validity


def household_with(*situations: str) -> Household:
    """The first household in which these situations go on."""
    recipe = HouseholdRecipe(wanted=situations[0])
    found = (make_household(seed, recipe) for seed in range(400))
    return next(one for one in found if set(situations) <= set(one.context.situations))


@pytest.fixture(scope="module")
def leaking() -> Household:
    return household_with("water_leak")


def plan_of(household: Household) -> list[dict[str, Any]]:
    return [settling_program(household, key) for key in household.context.situations]


def goals(household: Household, plan: list[dict[str, Any]]) -> tuple[bool, ...]:
    return judge_plan(household, household.context.situations, plan).goals_met()


def with_tastes(household: Household, *tastes: Taste) -> Household:
    first, *others = household.members
    return household.model_copy(update={"members": (first.model_copy(update={"tastes": tastes}), *others)})


def test_the_reference_plan_keeps_all_rules(leaking):
    assert all(goals(leaking, plan_of(leaking)))


@pytest.mark.parametrize("plan", [[], [{"program_id": "nothing", "steps": []}]])
def test_an_empty_plan_meets_no_goal(leaking, plan):
    assert not any(goals(leaking, plan))


def test_reading_alone_meets_no_goal(leaking):
    (fridge,) = [
        one.did for one in HouseholdState(leaking).devices_of_kind("appliance") if one.spec.category == "refrigerator"
    ]
    step = {"step_id": "1", "appliance": fridge, "feature": "check_inventory", "category": [], "args": {}, "rationale": ""}
    verdict = judge_plan(leaking, leaking.context.situations, [{"program_id": "look", "steps": [step]}])
    assert verdict.runs == (True,) and verdict.reasoned and not any(verdict.goals_met())


def test_writing_that_all_is_well_settles_nothing(leaking):
    writes = {"appliance_name": "dishwasher", "appliance_location": "", "status": {"inlet_open": False}}
    step = {"step_id": "1", "appliance": "toolbox", "feature": "update_appliance_status", "category": [], "args": writes}
    assert not any(goals(leaking, [{"program_id": "pretend", "steps": [step | {"rationale": ""}]}]))


def test_a_step_that_does_not_work_costs_a_goal_and_stops_none(leaking):
    plan = copy.deepcopy(plan_of(leaking))
    bad = {"step_id": "0", "appliance": "submarine", "feature": "dive", "category": [], "args": {}, "rationale": ""}
    plan[0]["steps"].insert(0, bad)
    verdict = judge_plan(leaking, leaking.context.situations, plan)
    assert not verdict.runs[0] and all(verdict.runs[1:]) and all(verdict.settled.values())
    assert verdict.goals_met().count(False) == 1
    assert static_validity(HouseholdState(leaking), plan[0]["steps"])[:2] == [False, True]


def test_arguments_that_are_no_object_are_invalid(leaking):
    plan = copy.deepcopy(plan_of(leaking))
    plan[0]["steps"][0]["args"] = None
    assert not judge_plan(leaking, leaking.context.situations, plan).runs[0]
    assert not static_validity(HouseholdState(leaking), plan[0]["steps"])[0]


def test_the_most_urgent_comes_first():
    seeds = (make_household(seed, HouseholdRecipe()) for seed in range(400))
    two = next(one for one in seeds if len(one.context.situations) > 1 and all(goals(one, plan_of(one))))
    verdict = judge_plan(two, two.context.situations, plan_of(two)[::-1])
    assert all(verdict.settled.values()) and not verdict.ordered


def test_two_programs_too_many_are_too_many(leaking):
    plan = plan_of(leaking)
    again = [{**plan[0], "program_id": f"again {n}"} for n in range(4)]
    assert not judge_plan(leaking, leaking.context.situations, [*plan, *again]).sized


def notice(appliance: str, feature: str) -> dict[str, Any]:
    args = {"message": "There is water on the floor."}
    return {"step_id": "9", "appliance": appliance, "feature": feature, "category": [], "args": args, "rationale": ""}


def test_one_sense_is_asked_once(leaking):
    state = HouseholdState(leaking)
    told, shown = notice("speaker", "notify"), notice("tv", "visual_notification")
    asked = {
        "step_id": "8",
        "appliance": "refrigerator",
        "feature": "view_contents",
        "category": [],
        "args": {},
        "rationale": "",
    }
    assert plan_rules.are_steps_compatible(state, [told, shown])
    assert not plan_rules.are_steps_compatible(state, [shown, asked]), "both are to be looked at"
    other = {**told, "args": {"message": "Another message."}}
    assert not plan_rules.are_steps_compatible(state, [told, other]), "the second undoes the first"


def test_a_noise_in_quiet_hours_breaks_a_preference_unless_it_warns():
    dusty = household_with("dirty_floor")
    hour = dusty.now.hour
    told = with_tastes(dusty, Taste(kind="quiet_hours", hours=(hour, (hour + 1) % 24)))
    later = with_tastes(dusty, Taste(kind="quiet_hours", hours=((hour + 1) % 24, (hour + 2) % 24)))
    plan = [settling_program(dusty, "dirty_floor")]
    accident = any(plan_rules.load_situations()[key].category == "ACCIDENT_RESPONSE" for key in dusty.context.situations)
    assert judge_plan(told, ["dirty_floor"], plan).kept is accident
    assert judge_plan(later, ["dirty_floor"], plan).kept
    warned = with_tastes(household_with("water_leak"), Taste(kind="quiet_hours", hours=(0, 23)))
    assert judge_plan(warned, warned.context.situations, plan_of(warned)).kept


@pytest.mark.parametrize(
    ("hours", "hour", "counts"),
    [(None, 3, True), ((22, 7), 23, True), ((22, 7), 7, False), ((9, 17), 12, True), ((9, 17), 17, False)],
)
def test_hours_may_pass_midnight(hours, hour, counts):
    assert plan_rules.taste_counts_at(Taste(kind="soft_light", hours=hours), hour) is counts
