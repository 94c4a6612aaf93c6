"""The major events of lives.

Invariants: an event lies at an age at which it happens, before today; what concerns two people (a wedding, a birth) has one
date for both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from homerl.envs.homeenv.maker.lexicon import Half
from homerl.envs.personalhome.sim.generate.people import years_before
from homerl.envs.personalhome.sim.generate.priors import load_household_priors
from homerl.envs.personalhome.sim.household import LifeEvent, Member, Pet
from homerl.envs.personalhome.sim.words import FactWords

SETTLED = 740  # days for which everybody has lived in the household: longer than memories reach back
YEAR = 365.25  # days
ADULT = 18
NO_JOB = ("toddler", "pupil", "student", "retired", "unemployed")
# Who can have had an event; all others can have had theirs at the right age.
MAY: dict[str, Callable[[Member], bool]] = {
    "divorced": lambda member: member.role in ("single", "roommate"),
    "new_job": lambda member: member.occupation not in NO_JOB,
    "graduated": lambda member: member.occupation not in ("toddler", "pupil", "student"),
    "retired": lambda member: member.occupation == "retired",
}
OF_SEVERAL = ("married", "child_born", "adopted_pet")


def add_life_events(
    members: Sequence[Member], pets: Sequence[Pet], today: date, words: FactWords, half: Half, rng: random.Random
) -> tuple[Member, ...]:
    """The members with their major events, in the order of time."""
    shared = _wedding(members, today, rng) | _adoption(members, pets, today, rng)
    grown = []
    for member in members:
        dates = [(kind, day) for (kind, who), day in shared.items() if who == member.member_id]
        dates += [("child_born", child.birthday) for child in members if child.role == "child" and member.role == "parent"]
        dates += _own(member, today, rng)
        events = [
            LifeEvent(date=day, kind=kind, description="")
            for kind, day in sorted(dates, key=lambda dated: (dated[1], dated[0]))
        ]
        told = (event.model_copy(update={"description": words.say_life(event, member.name, rng, half)}) for event in events)
        grown.append(member.model_copy(update={"major_events": tuple(told)}))
    return tuple(grown)


def _own(member: Member, today: date, rng: random.Random) -> list[tuple[str, date]]:
    """What happened to one person alone."""
    dates = []
    for kind, usual in load_household_priors().life_events.items():
        if kind in OF_SEVERAL or (kind in MAY and not MAY[kind](member)):
            continue
        day = _between(member, usual.ages, today - timedelta(days=SETTLED if kind == "moved_in" else 1), rng)
        if day is not None and rng.random() < usual.share:
            dates.append((kind, day))
    return dates


def _between(member: Member, ages: tuple[int, int], latest: date, rng: random.Random) -> date | None:
    """A day at which the member had one of these ages, or None if there was none up to `latest`."""
    first = member.birthday + timedelta(days=round(ages[0] * YEAR) + 1)
    last = min(member.birthday + timedelta(days=round((ages[1] + 1) * YEAR) - 2), latest)
    return first + timedelta(days=rng.randint(0, (last - first).days)) if first <= last else None


def _wedding(members: Sequence[Member], today: date, rng: random.Random) -> dict[tuple[str, str], date]:
    """The wedding day of the pairs of a role, if they are married; by kind and member id."""
    usual = load_household_priors().life_events["married"]
    days: dict[tuple[str, str], date] = {}
    for role in ("partner", "parent", "grandparent"):
        pair = [member for member in members if member.role == role]
        if len(pair) < 2 or rng.random() >= usual.share:
            continue
        younger = max(pair, key=lambda member: member.birthday)
        day = _between(younger, usual.ages, today - timedelta(days=1), rng)
        days |= {("married", member.member_id): day for member in pair if day is not None}
    return days


def _adoption(
    members: Sequence[Member], pets: Sequence[Pet], today: date, rng: random.Random
) -> dict[tuple[str, str], date]:
    """The day on which a grown-up adopted the only pet, for some pets that are older than a year."""
    grown = [member for member in members if member.age(today) > ADULT]
    if len(pets) != 1 or pets[0].age < 1 or rng.random() < 0.5:
        return {}
    who = rng.choice(grown)
    alive = (today - max(years_before(today, pets[0].age), who.birthday + timedelta(days=round(ADULT * YEAR)))).days
    return {("adopted_pet", who.member_id): today - timedelta(days=rng.randint(1, alive))}
