"""What a household needs, the reference plan of its situations, and the verdict of rules on any plan.

The needs are the ground truth of feature recommendation. The paper lets a language model say which features are relevant.
Here the source of a need gives its weight: a situation of the moment (such as a hazard) weighs most, then what people said
that they like, then what they usually do.

The verdict can be verified and rewarded, unlike that of the role-playing judge. A plan should settle the situations, the
most urgent first, by steps that work, that go together, that have a reason in the household, and that break no stated
preference (PersonalHomeBench I.2, Plan Generation, gives the rules in words).

Invariants:
- A need rests on rows that an agent can see.
- A verdict is a pure function of household and plan.
- A plan that settles nothing meets no rule, so an empty one gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.personalhome.sim.appliance_catalogue import load_features
from homerl.envs.personalhome.sim.env import TOOLS, call_household_tool
from homerl.envs.personalhome.sim.household import Household, Taste
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.situations import HouseholdSituation, is_situation_settled, load_situations, settling_calls

if TYPE_CHECKING:
    from homerl.envs.personalhome.tasks.blueprint import PersonalHomeBlueprint


SITUATION, STATED, USUAL = 8.0, 4.0, 2.0  # weights
CHILD, ELDER = 13, 70  # years: younger than a child's, older than an elder's


@dataclass(frozen=True)
class HouseholdNeed:
    """How much a need weighs, and the rows that say so."""

    weight: float
    evidence: tuple[str, ...]


def household_needs(household: Household) -> Mapping[str, HouseholdNeed]:
    """The needs of a household by key (of `vocabulary.yaml`, or `pets`, `children`, `elders`).

    Of several sources the weightiest counts, and of equal ones the first.
    """
    found: dict[str, HouseholdNeed] = {}

    def add(keys: Iterable[str], weight: float, evidence: tuple[str, ...]) -> None:
        for key in keys:
            if key not in found or found[key].weight < weight:
                found[key] = HouseholdNeed(weight, evidence)

    add(household.context.situations, SITUATION, tuple(f"event:{at}" for at in range(len(household.context.events))))
    for member in household.members:
        seen, age = (f"member:{member.member_id}",), member.age(household.now.date())
        add([*(taste.kind for taste in member.tastes), *member.traits], STATED, seen)
        add([*(habit.activity for habit in member.habits), *member.hobbies], USUAL, seen)
        add(["children"] if age < CHILD else ["elders"] if age > ELDER else [], USUAL, seen)
    for pet in household.pets:
        add(["pets"], USUAL, (f"pet:{pet.name}",))
    return found


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
    """What rules say of a plan.

    `runs` tells for each step whether it worked, where each program is run in a fork of the household. `settled` tells for
    each situation whether it is settled after all programs.
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
        return (*self.settled.values(), *(any(self.settled.values()) and rule for rule in rules))


def judge_plan(household: Household, keys: Sequence[str], programs: Sequence[Program]) -> PlanVerdict:
    """The verdict on a plan (`answer_parser.parse_plan`) for the situations of some keys, the most urgent first."""

    def settled_in(home: Home) -> dict[str, bool]:
        found = {key: load_situations()[key] for key in keys}
        return {key: is_situation_settled(one, home, situation_room(household, one)) for key, one in found.items()}

    start = HouseholdState(household)
    # Whether a step works is tried in its program alone. What all programs settle is judged on the end state.
    runs = tuple(worked for program in programs for worked in run_plan_steps(start.fork(), program["steps"]))
    end, settled, order = start.fork(), settled_in(start.home), list[str]()
    for program in programs:
        # A tool of the toolbox only writes down, for instance that something is off, which settles nothing.
        run_plan_steps(end, [step for step in program["steps"] if step["appliance"] != TOOLBOX])
        settled = settled_in(end.home)
        order += [key for key in keys if settled[key] and key not in order]
    return PlanVerdict(
        runs=runs,
        settled=settled,
        kept=not broken_preferences(household, start.home, end.home),
        ordered=order == sorted(order, key=list(keys).index),
        compatible=all(are_steps_compatible(start, program["steps"]) for program in programs),
        reasoned=_has_every_step_a_reason(start, [step for program in programs for step in program["steps"]]),
        sized=1 <= len(programs) <= MOST_PROGRAMS and all(1 <= len(one["steps"]) <= MOST_STEPS for one in programs),
    )


def run_plan_steps(state: HouseholdState, steps: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Run the steps in order; return for each whether it worked. A step that fails stops none."""
    return [try_plan_step(state, step) is None for step in steps]


def try_plan_step(state: HouseholdState, step: Mapping[str, Any]) -> str | None:
    """Run a step; return why it was refused, or None if it worked."""
    tool, arguments = step["feature"], step["args"]
    if arguments is None:
        return "args is no object"
    if step["appliance"] != TOOLBOX:
        arguments = {"appliance_name": step["appliance"], "feature_method": tool, "feature_kwargs": arguments}
        tool = "run_appliance_feature"
    try:
        call_household_tool(state, tool, arguments)
    except Refused as refused:
        return refused.message
    return None


def static_validity(state: HouseholdState, steps: Sequence[Mapping[str, Any]]) -> list[bool]:
    """For each step, whether name and arguments are well-formed (PersonalHomeBench eq. 10), without running it."""
    found = []
    for step in steps:
        tool, args = TOOLS.get(step["feature"]), step["args"]
        device = state.home.plan.devices_by_did.get(step["appliance"])
        service = device and device.spec.service_index.get(step["feature"])
        valid = False
        if args is not None and step["appliance"] == TOOLBOX:
            valid = tool is not None and set(tool.required) <= set(args) <= {*tool.parameters}
        elif args is not None and service:
            with suppress(Refused):
                service.bind_arguments((), args)
                valid = True
        found.append(valid)
    return found


def are_steps_compatible(state: HouseholdState, steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether steps go together: no two appliances ask for the same attention, and no step changes what another did.

    Steps run in order, so a step may need an earlier one.
    """
    askers: dict[str, str] = {}
    for step in steps:
        feature, asker = load_features().get(feature_key(state, step) or ""), step["appliance"]
        if feature and feature.attention != "none" and askers.setdefault(feature.attention, asker) != asker:
            return False
    present, written = state.fork(), set[int]()  # numbers of slots that earlier steps changed
    for step in steps:
        before = present.home.fork()
        run_plan_steps(present, [step])
        changed = {change.slot for change in before.diff(present.home)}
        if changed & written:
            return False
        written |= changed
    return True


def _has_every_step_a_reason(state: HouseholdState, steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the household has a need for the feature of each step. What only reads needs no reason."""
    keys = [feature_key(state, step) for step in steps if not step["feature"].startswith(READING)]
    known, needs = load_features(), household_needs(state.household)
    return all(key is None or (key in known and needs.keys() & known[key].wanted_when) for key in keys)


def feature_key(state: HouseholdState, step: Mapping[str, Any]) -> str | None:
    """The key of a step's feature, such as `oven.preheat_oven`; None if it is a tool or there is no such appliance."""
    device = state.home.plan.devices_by_did.get(step["appliance"])
    return f"{device.spec.category}.{step['feature']}" if device else None


# Stated preferences


def _is_in_range(value: Any, taste: Taste) -> bool:
    return (taste.low is None or value >= taste.low) and (taste.high is None or value <= taste.high)


@dataclass(frozen=True)
class TasteKeeping:
    """Which attribute of which kinds of appliances a taste is about, and whether a new value of it keeps the taste."""

    taste: str
    kinds: tuple[str, ...]
    attribute: str
    keeps: Callable[[Any, Taste], bool] = _is_in_range


KEEPING = (
    TasteKeeping("room_temperature", ("thermostat", "air_conditioner"), "target_temperature"),
    TasteKeeping("quiet_hours", ("speaker",), "last_notification", lambda value, taste: not value),
    TasteKeeping("quiet_hours", ("robot-vacuum-mop",), "cleaning", lambda value, taste: not value),
    TasteKeeping("quiet_hours", ("tv",), "playing", lambda value, taste: not value),
    TasteKeeping("quiet_hours", ("robot-lawn-mower",), "mowing", lambda value, taste: not value),
    TasteKeeping("no_camera", ("security-camera",), "privacy", lambda value, taste: bool(value)),
    TasteKeeping("soft_light", ("lighting",), "brightness"),
    # A light that is off is not too dark, since nobody wants it then.
    TasteKeeping("bright_light", ("lighting",), "brightness", lambda value, taste: not value or _is_in_range(value, taste)),
    TasteKeeping("hot_shower", ("shower",), "temperature"),
    TasteKeeping("firm_mattress", ("mattress",), "left_firmness"),
    TasteKeeping("firm_mattress", ("mattress",), "right_firmness"),
    TasteKeeping("strong_coffee", ("coffee-maker",), "strength", lambda value, taste: value == "strong"),
    TasteKeeping("scent", ("humidifier",), "aroma", lambda value, taste: value in ("none", taste.what)),
)


def broken_preferences(household: Household, start: Home, end: Home) -> list[Taste]:
    """The stated preferences that a change breaks. Nobody minds a noise that tells of an accident."""
    accident = any(load_situations()[key].category == "ACCIDENT_RESPONSE" for key in household.context.situations)
    slots, found = start.plan.slots, []
    changed = {(slots[one.slot].owner, slots[one.slot].path): one.after for one in start.diff(end)}
    for taste in [taste for member in household.members for taste in member.tastes]:
        if not taste_counts_at(taste, household.now.hour) or (accident and taste.kind == "quiet_hours"):
            continue
        for keeping in [one for one in KEEPING if one.taste == taste.kind]:
            for device in start.plan.devices:
                about = device.spec.category in keeping.kinds and taste.room in (None, device.room.id)
                key = (device.did, keeping.attribute)
                if about and key in changed and not keeping.keeps(changed[key], taste):
                    found.append(taste)
    return found


def taste_counts_at(taste: Taste, hour: int) -> bool:
    """Whether a taste counts at an hour of the day."""
    if taste.hours is None:
        return True
    start, end = taste.hours
    return start <= hour < end if start <= end else hour >= start or hour < end
