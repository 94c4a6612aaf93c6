"""Profiles: traits, tastes and habits of people, and the words for them.

Invariants:
- A person has at most one taste of a kind, and no two habits at one hour.
- A habit uses an appliance of the home, in its room.
- `lifestyle` says the traits and habits, `preference` the tastes, and neither says more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import date

from homerl.envs.homeenv.maker.lexicon import Half
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.sim.generate.priors import ActivityPrior, TastePrior, load_household_priors
from homerl.envs.personalhome.sim.household import Habit, Member, Taste
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary
from homerl.envs.personalhome.sim.words import FactCast, FactWords

WEEK, WORKDAYS, WEEKEND = tuple(range(7)), (0, 1, 2, 3, 4), (5, 6)
HABITS = (1, 3)  # of a person
DEFAULT = "room_temperature"  # the taste of who has no other
FIRST = 3  # years from which a child has habits


def add_character(member: Member, rooms: Sequence[Room], today: date, rng: random.Random) -> Member:
    """The member with traits and tastes."""
    traits = _traits(member, member.age(today), rng)
    return member.model_copy(update={"traits": traits, "tastes": _tastes(member.age(today), traits, rooms, rng)})


def _traits(member: Member, age: int, rng: random.Random) -> tuple[str, ...]:
    drawn = [
        key for key, usual in load_household_priors().traits.items() if usual.fits_age(age) and rng.random() < usual.share
    ]
    if member.occupation not in load_household_priors().desk_jobs and "works_from_home" in drawn:
        drawn.remove("works_from_home")
    for first, second in load_household_priors().opposites:
        if {first, second} <= {*drawn}:
            drawn.remove(rng.choice((first, second)))
    return tuple(drawn)


def _tastes(age: int, traits: Sequence[str], rooms: Sequence[Room], rng: random.Random) -> tuple[Taste, ...]:
    drawn = []
    for kind, usual in load_household_priors().tastes.items():
        share = load_household_priors().usual if {*traits} & {*usual.because} else usual.share
        if usual.fits_age(age) and rng.random() < share:
            drawn.append(_taste(kind, usual, rooms, rng))
    if not drawn and load_household_priors().tastes[DEFAULT].fits_age(age):
        drawn.append(_taste(DEFAULT, load_household_priors().tastes[DEFAULT], rooms, rng))
    kept = sorted(rng.sample(range(len(drawn)), min(len(drawn), load_household_priors().most_tastes)))
    return tuple(drawn[index] for index in kept)


def _taste(kind: str, usual: TastePrior, rooms: Sequence[Room], rng: random.Random) -> Taste:
    group = load_vocabulary().tastes[kind].what
    low = rng.randint(*usual.low) if usual.low else None
    high = rng.randint(*usual.high) if usual.high else None
    if low is not None and usual.width:
        high = low + rng.randint(*usual.width)
    suiting = [room.id for room in rooms if room.type in usual.rooms]
    return Taste(
        kind=kind,
        what=rng.choice(load_vocabulary().group_keys(group)) if group else None,
        low=low,
        high=high,
        hours=(rng.randint(*usual.begin), rng.randint(*usual.end)) if usual.begin and usual.end else None,
        room=rng.choice(suiting) if suiting and (usual.always_room or rng.random() < 0.4) else None,
    )


# Habits


def can_do_activity(member: Member, age: int, activity: ActivityPrior) -> bool:
    """Whether somebody of this age does such a thing."""
    return activity.ages[0] <= age <= activity.ages[1] and activity.needs in (None, *member.traits)


def devices_for_activity(activity: ActivityPrior, devices: Sequence[Device]) -> list[Device]:
    """The devices of a home with which one does it."""
    kinds, rooms = activity.kinds, activity.rooms
    return [device for device in devices if device.spec.category in kinds and (not rooms or device.room.type in rooms)]


def add_habits(member: Member, devices: Sequence[Device], today: date, rng: random.Random) -> Member:
    """The member with habits that the home's appliances allow."""
    age = member.age(today)
    possible = [
        key
        for key, activity in load_household_priors().activities.items()
        if can_do_activity(member, age, activity) and devices_for_activity(activity, devices)
    ]
    wanted = rng.randint(*HABITS) if age >= FIRST else 0
    habits: list[Habit] = []
    for key in rng.sample(possible, min(wanted, len(possible))):
        activity = load_household_priors().activities[key]
        device, hour = rng.choice(devices_for_activity(activity, devices)), rng.randint(*activity.hours)
        if all(hour != habit.hour for habit in habits):
            habits.append(Habit(activity=key, days=_days(key, rng), hour=hour, room=device.room.id, appliance=device.did))
    return member.model_copy(update={"habits": tuple(sorted(habits, key=lambda habit: habit.hour))})


def _days(activity: str, rng: random.Random) -> tuple[int, ...]:
    if activity == "working":
        return WORKDAYS
    few = tuple(sorted(rng.sample(WEEK, rng.randint(1, 3))))
    return rng.choice((WEEK, WORKDAYS, WEEKEND, few, few))


# In words


def add_profile_texts(member: Member, cast: FactCast, words: FactWords, half: Half, rng: random.Random) -> Member:
    """The member with `lifestyle` and `preference` written out."""
    tastes = words.join_sentences(words.say_taste(taste, cast, rng, half) for taste in member.tastes)
    return member.model_copy(
        update={"lifestyle": words.join_sentences(_lifestyle(member, cast, words, half, rng)), "preference": tastes}
    )


def _lifestyle(member: Member, cast: FactCast, words: FactWords, half: Half, rng: random.Random) -> Iterator[str]:
    for trait in member.traits:
        yield words.say_trait(trait)
    for habit in member.habits:
        yield words.say_habit(habit, cast, rng, half)
