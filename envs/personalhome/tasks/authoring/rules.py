"""Rules of what may be written of a household, beside those of `checks.py`: what the scripted generator never draws.

Invariant: a rule gives the reason why something cannot be, or None; it looks at typed data alone.
"""

from __future__ import annotations

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.personalhome.sim.generate.life import Life
from homerl.envs.personalhome.sim.generate.priors import load_household_priors
from homerl.envs.personalhome.sim.generate.profiles import can_do_activity, devices_for_activity
from homerl.envs.personalhome.sim.household import Event, Fact, Household, Member, Taste
from homerl.envs.personalhome.sim.situations import load_situations
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary
from homerl.envs.personalhome.tasks.authoring.shapes import WrittenHabit

UNITS = {
    "used": "minute",
    "cooked": "serving",
    "visited": "day",
    "travelled": "day",
    "ill": "day",
    "bought": "currency",
    "repaired": "currency",
}
MOST = 5000  # of any unit


def situation_signs() -> set[tuple[str, str | None]]:
    """What tells of any situation."""
    return {(sign.kind, sign.what) for situation in load_situations().values() for sign in situation.events}


def telling_events(household: Household) -> tuple[Event, ...]:
    """The scripted events from the first on that tells of the household's situations."""
    telling = {(sign.kind, sign.what) for key in household.context.situations for sign in load_situations()[key].events}
    events = household.context.events
    first = [
        at for at, one in enumerate(events) if one.fact.kind == "left_home" or (one.fact.kind, one.fact.what) in telling
    ]
    return events[min(first, default=len(events)) :]


def can_have_hobby(age: int) -> bool:
    """Whether somebody of an age can have a hobby."""
    return any(age >= youngest for youngest in load_household_priors().hobbies.values())


def can_have_taste(age: int) -> bool:
    """Whether somebody of an age can have a taste."""
    return any(usual.fits_age(age) for usual in load_household_priors().tastes.values())


def hobby_problem(hobby: str, age: int) -> str | None:
    """Why somebody of an age cannot have a hobby, or None."""
    if hobby not in load_household_priors().hobbies:
        return "unknown_hobby"
    return None if age >= load_household_priors().hobbies[hobby] else "too_young"


def taste_problem(taste: Taste, age: int, life: Life) -> str | None:
    """Why a taste cannot be, or None."""
    shape = load_vocabulary().tastes.get(taste.kind)
    if shape is None:
        return "unknown_taste"
    given = {name for name in ("what", "low", "high", "hours", "room") if getattr(taste, name) is not None}
    needed = {name for name in shape.fields if name != "room"}
    if not needed <= given <= {*shape.fields} or (shape.what and taste.what not in load_vocabulary().group_keys(shape.what)):
        return "wrong_fields"
    if taste.room is not None and taste.room not in {room.id for room in life.rooms}:
        return "unknown_name"
    if taste.hours is not None and not all(0 <= hour <= 23 for hour in taste.hours):
        return "unfit_value"
    usual = load_household_priors().tastes[taste.kind]
    if not usual.fits_age(age):
        return "too_young"
    return None if _usual_bounds(taste) else "unfit_value"


def _usual_bounds(taste: Taste) -> bool:
    """Whether low and high lie in what people like."""
    usual = load_household_priors().tastes[taste.kind]
    low = taste.low is None or usual.low is None or usual.low[0] <= taste.low <= usual.low[1]
    if taste.high is None:
        return low
    if taste.low is not None and usual.width:
        return low and 0 < taste.high - taste.low <= usual.width[1]
    return low and (usual.high is None or usual.high[0] <= taste.high <= usual.high[1])


def habit_problem(habit: WrittenHabit, member: Member, device: Device | None, life: Life) -> str | None:
    """Why a habit cannot be, or None."""
    activity = load_household_priors().activities.get(habit.activity)
    if activity is None or device is None:
        return "unknown_name"
    if not habit.days or not {*habit.days} <= {*range(7)} or not 0 <= habit.hour <= 23:
        return "unfit_value"
    if not can_do_activity(member, member.age(life.now.date()), activity):
        return "too_young"
    return None if device in devices_for_activity(activity, [device]) else "unfit_appliance"


def fact_limit_problem(fact: Fact, life: Life) -> str | None:
    """Why a whole fact cannot be, beside the rules of `checks.py`: its appliance, its pet or its number does not fit."""
    device = life.by_did.get(fact.appliance or "")
    if device is not None and not _fits(fact, device):
        return "unfit_appliance"
    if fact.pet is not None and fact.kind in ("cared", "pet_did"):
        animals = (load_household_priors().pet_care if fact.kind == "cared" else load_household_priors().pet_acts)[
            fact.what or ""
        ]
        if life.pets_by_name[fact.pet].animal not in animals:
            return "unfit_pet"
    if fact.kind == "adjusted" and device is not None and fact.value is not None:
        low, high, _ = load_household_priors().adjustments[device.spec.category].values
        return None if low <= fact.value <= high else "unfit_value"
    if fact.kind in UNITS and (fact.value is None or not 0 < fact.value <= MOST or fact.value % 1):
        return "unfit_value"
    return None


def _fits(fact: Fact, device: Device) -> bool:
    """Whether one does such a thing with an appliance."""
    kind, what = device.spec.category, fact.what or ""
    match fact.kind:
        case "used":
            return device in devices_for_activity(load_household_priors().activities[what], [device])
        case "cooked":
            return kind in load_household_priors().dishes[what].kinds
        case "adjusted":
            return kind in load_household_priors().adjustments and load_household_priors().adjustments[kind].what == what
        case "broke":
            return kind in load_household_priors().faults[what]
    return True
