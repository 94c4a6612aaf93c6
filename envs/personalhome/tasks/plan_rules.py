"""What a household needs, from the typed facts about it: the ground truth of feature recommendation.

The paper lets a language model say which features are relevant. Here a need has a weight by where it comes from: a hazard or
another situation of the moment before what people said that they like, before what they usually do.

Invariant: a need rests on rows that an agent can see.

The reference plan of a household: a program for each situation, from the plan that `situations.yaml` gives it.

What rules say of a plan: beside the role-playing judge, a verdict that can be verified and rewarded.

A plan should settle the situations, the most urgent first, by steps that work, that go together, that have a reason in the
household, and that break no stated preference (PersonalHomeBench I.2, Plan Generation, gives the rules in words).

Invariants: a verdict is a pure function of household and plan; a plan that settles nothing meets no rule, so an empty one
gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.personalhome.sim.appliance_features import load_features
from homerl.envs.personalhome.sim.household import Household, Taste
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.situations import HouseholdSituation, is_situation_settled, load_situations, settling_calls
from homerl.envs.personalhome.sim.tools.registry import TOOLS, call_household_tool

if TYPE_CHECKING:
    from homerl.envs.personalhome.tasks.blueprint import PersonalHomeBlueprint


SITUATION, STATED, USUAL = 8.0, 4.0, 2.0  # weights
CHILD, ELDER = 13, 70  # years: younger than a child's, older than an elder's


@dataclass(frozen=True)
class HouseholdNeed:
    """A key of `vocabulary.yaml` (or `pets`, `children`, `elders`), how much it weighs, and the rows that say so."""

    key: str
    weight: float
    evidence: tuple[str, ...]


def household_needs(household: Household) -> Mapping[str, HouseholdNeed]:
    """The needs of a household by key. Of several sources the weightiest counts."""
    found: dict[str, HouseholdNeed] = {}
    for need in _needs(household):
        if need.key not in found or found[need.key].weight < need.weight:
            found[need.key] = need
    return found


def _needs(household: Household) -> Iterator[HouseholdNeed]:
    events = tuple(f"event:{at}" for at in range(len(household.context.events)))
    for key in household.context.situations:
        yield HouseholdNeed(key, SITUATION, events)
    today = household.now.date()
    for member in household.members:
        seen = (f"member:{member.member_id}",)
        yield from (HouseholdNeed(taste.kind, STATED, seen) for taste in member.tastes)
        yield from (HouseholdNeed(trait, STATED, seen) for trait in member.traits)
        yield from (HouseholdNeed(habit.activity, USUAL, seen) for habit in member.habits)
        yield from (HouseholdNeed(hobby, USUAL, seen) for hobby in member.hobbies)
        if (age := member.age(today)) < CHILD or age > ELDER:
            yield HouseholdNeed("children" if age < CHILD else "elders", USUAL, seen)
    for pet in household.pets:
        yield HouseholdNeed("pets", USUAL, (f"pet:{pet.name}",))


def reference_plan(blueprint: PersonalHomeBlueprint) -> list[dict[str, Any]]:
    """The plan that settles all situations of a task, the most urgent first."""
    return [settling_program(blueprint.household, key) for key in blueprint.task.situations]  # type: ignore[union-attr]


def situation_room(household: Household, situation: HouseholdSituation) -> str | None:
    """The room where a situation happens: that of the last event that shows it."""
    signs = {(sign.kind, sign.what) for sign in situation.events}
    shown = [event.fact.room for event in household.context.events if (event.fact.kind, event.fact.what) in signs]
    return shown[-1] if shown else None


def settling_program(household: Household, key: str) -> dict[str, Any]:
    """The program that settles a situation, with every device that counts."""
    situation = load_situations()[key]
    calls = settling_calls(situation, HouseholdState(household).home, situation_room(household, situation))
    steps = [
        {
            "step_id": str(number),
            "appliance": did,
            "feature": step.feature,
            "category": [situation.category],
            "args": dict(step.args),
            "rationale": key,
        }
        for number, (did, step) in enumerate(calls, 1)
    ]
    return {"program_id": key, "steps": steps}


Program = Mapping[str, Any]
TOOLBOX = "toolbox"
MOST_PROGRAMS, MOST_STEPS = 3, 5
READING = ("get_", "check_", "read_", "view_", "detect_")  # methods that change nothing anybody would mind


@dataclass(frozen=True)
class PlanVerdict:
    """What rules say of a plan. `runs` has a boolean for each step: whether it worked, tried in a fork of its program.

    `settled` tells for each situation whether it is settled after all programs.
    """

    runs: tuple[bool, ...]
    settled: Mapping[str, bool]
    kept: bool
    ordered: bool
    compatible: bool
    reasoned: bool
    sized: bool

    def goals_met(self) -> tuple[bool, ...]:
        """A goal for each situation, the most urgent first, then one for each rule. Without a settled one none is met."""
        rules = (self.kept, self.ordered, self.compatible, self.reasoned, self.sized and all(self.runs))
        some = any(self.settled.values())
        return (*self.settled.values(), *(some and rule for rule in rules))


def judge_plan(household: Household, keys: Sequence[str], programs: Sequence[Program]) -> PlanVerdict:
    """The verdict on a plan (`plans.read_plan`) for the situations of some keys, the most urgent first."""
    start = HouseholdState(household)
    runs = tuple(worked for program in programs for worked in run_plan_steps(start.fork(), program["steps"]))
    end, first_settled = start.fork(), []
    for program in programs:
        run_plan_steps(
            end, [step for step in program["steps"] if step["appliance"] != TOOLBOX]
        )  # writing that it is off does not help
        first_settled += [key for key in keys if key not in first_settled and is_settled(household, key, end.home)]
    return PlanVerdict(
        runs=runs,
        settled={key: is_settled(household, key, end.home) for key in keys},
        kept=not broken_preferences(household, start.home, end.home),
        ordered=first_settled == sorted(first_settled, key=list(keys).index),
        compatible=all(are_steps_compatible(start, program["steps"]) for program in programs),
        reasoned=all(has_reason(start, step) for program in programs for step in program["steps"]),
        sized=1 <= len(programs) <= MOST_PROGRAMS and all(1 <= len(one["steps"]) <= MOST_STEPS for one in programs),
    )


def is_settled(household: Household, key: str, home: Home) -> bool:
    """Whether a situation of the household is settled in a home."""
    situation = load_situations()[key]
    return is_situation_settled(situation, home, situation_room(household, situation))


def run_plan_steps(state: HouseholdState, steps: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Run the steps in order; return for each whether it worked. A step that fails stops none."""
    worked = []
    for step in steps:
        try:
            call_household_tool(state, *step_to_tool_call(step))
            worked.append(True)
        except Refused:
            worked.append(False)
    return worked


def step_to_tool_call(step: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool and the arguments that a step stands for. Raises `Refused` if its arguments are no object."""
    if step["args"] is None:
        raise Refused("wrong_type", "args is no object")
    if step["appliance"] == TOOLBOX:
        return step["feature"], step["args"]
    wanted = {"appliance_name": step["appliance"], "feature_method": step["feature"], "feature_kwargs": step["args"]}
    return "run_appliance_feature", wanted


def static_validity(state: HouseholdState, steps: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each step, whether name and arguments are well-formed (PersonalHomeBench eq. 10), without running it."""
    return [_well_formed(state, step) for step in steps]


def _well_formed(state: HouseholdState, step: Mapping[str, Any]) -> bool:
    if step["appliance"] == TOOLBOX or step["args"] is None:
        tool = TOOLS.get(step["feature"])
        return (
            tool is not None and step["args"] is not None and set(tool.required) <= set(step["args"]) <= {*tool.parameters}
        )
    device = state.home.plan.devices_by_did.get(step["appliance"])
    service = device and device.spec.service_index.get(step["feature"])
    if not service:
        return False
    try:
        service.bind_arguments((), step["args"])
    except Refused:
        return False
    return True


def are_steps_compatible(state: HouseholdState, steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether steps go together: no two appliances ask for the same attention, and no step changes what another did.

    Steps run in order, so a step may need an earlier one.
    """
    askers: dict[str, str] = {}
    for step in steps:
        feature = load_features().get(feature_key(state, step) or "")
        if (
            feature
            and feature.attention != "none"
            and askers.setdefault(feature.attention, step["appliance"]) != step["appliance"]
        ):
            return False
    present, written = state.fork(), set[int]()
    for step in steps:
        before = present.home.fork()
        run_plan_steps(present, [step])
        changed = {change.slot for change in before.diff(present.home)}
        if changed & written:
            return False
        written |= changed
    return True


def has_reason(state: HouseholdState, step: Mapping[str, Any]) -> bool:
    """Whether the household has a need for a step's feature. What only reads needs no reason."""
    key = feature_key(state, step)
    if key is None or step["feature"].startswith(READING):
        return True
    known = load_features().get(key)
    return known is not None and any(need in known.wanted_when for need in household_needs(state.household))


def feature_key(state: HouseholdState, step: Mapping[str, Any]) -> str | None:
    """The key of a step's feature, such as `oven.preheat_oven`; None if it is a tool or there is no such appliance."""
    device = state.home.plan.devices_by_did.get(step["appliance"])
    return f"{device.spec.category}.{step['feature']}" if device else None


# Stated preferences


@dataclass(frozen=True)
class TasteKeeping:
    """Which attribute of which kinds of appliances a taste is about, and whether a new value of it keeps the taste."""

    kinds: tuple[str, ...]
    attribute: str
    keeps: Callable[[Any, Taste], bool]


def _within(value: Any, taste: Taste) -> bool:
    low = taste.low is None or value >= taste.low
    return low and (taste.high is None or value <= taste.high)


def _silent(value: Any, taste: Taste) -> bool:
    return not value


KEEPING: Mapping[str, tuple[TasteKeeping, ...]] = {
    "room_temperature": (TasteKeeping(("thermostat", "air_conditioner"), "target_temperature", _within),),
    "quiet_hours": (
        TasteKeeping(("speaker",), "last_notification", _silent),
        TasteKeeping(("robot-vacuum-mop",), "cleaning", _silent),
        TasteKeeping(("tv",), "playing", _silent),
        TasteKeeping(("robot-lawn-mower",), "mowing", _silent),
    ),
    "no_camera": (TasteKeeping(("security-camera",), "privacy", lambda value, taste: bool(value)),),
    "soft_light": (TasteKeeping(("lighting",), "brightness", _within),),
    "bright_light": (TasteKeeping(("lighting",), "brightness", lambda value, taste: value == 0 or _within(value, taste)),),
    "hot_shower": (TasteKeeping(("shower",), "temperature", _within),),
    "firm_mattress": (
        TasteKeeping(("mattress",), "left_firmness", _within),
        TasteKeeping(("mattress",), "right_firmness", _within),
    ),
    "strong_coffee": (TasteKeeping(("coffee-maker",), "strength", lambda value, taste: value == "strong"),),
    "scent": (TasteKeeping(("humidifier",), "aroma", lambda value, taste: value in ("none", taste.what)),),
}


def broken_preferences(household: Household, start: Home, end: Home) -> list[Taste]:
    """The stated preferences that a change breaks. Nobody minds a noise that tells of an accident."""
    accident = any(load_situations()[key].category == "ACCIDENT_RESPONSE" for key in household.context.situations)
    changed = {(change.owner, change.path): change.value for change in _changes(start, end)}
    found = []
    for taste in (
        taste for member in household.members for taste in member.tastes if taste_counts_at(taste, household.now.hour)
    ):
        if accident and taste.kind == "quiet_hours":
            continue
        for keeping in KEEPING.get(taste.kind, ()):
            for device in start.plan.devices:
                about = device.spec.category in keeping.kinds and taste.room in (None, device.room.id)
                key = (device.did, keeping.attribute)
                if about and key in changed and not keeping.keeps(changed[key], taste):
                    found.append(taste)
    return found


@dataclass(frozen=True)
class _Change:
    owner: str
    path: str
    value: Any


def _changes(start: Home, end: Home) -> list[_Change]:
    slots = start.plan.slots
    return [_Change(slots[one.slot].owner, slots[one.slot].path, one.after) for one in start.diff(end)]


def taste_counts_at(taste: Taste, hour: int) -> bool:
    """Whether a taste counts at an hour of the day."""
    if taste.hours is None:
        return True
    start, end = taste.hours
    return start <= hour < end if start <= end else hour >= start or hour < end
