"""The people of a scaffold: names, birthdays, occupations, hobbies, personas, traits, tastes, habits and major events.

Invariants:
- Names are unique in a household.
- An occupation fits the age; a persona says only what the profile says, or what its seed says.
- A person has at most one taste of a kind, and no two habits at one hour.
- A habit uses an appliance of the home, in its room.
- `lifestyle` says the traits and habits, `preference` the tastes, and neither says more.
- A major event lies at an age at which it happens, before today. What concerns two people (a wedding, a birth) has one date
  for both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from homerl.envs.homeenv.maker.home_names import Half
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.sim.generate.household_priors import ActivityPrior, TastePrior, load_household_priors
from homerl.envs.personalhome.sim.generate.persona_seeds import PersonaSeed, match_persona
from homerl.envs.personalhome.sim.generate.scaffold import PlannedPerson
from homerl.envs.personalhome.sim.household import Habit, LifeEvent, Member, Pet, Taste
from homerl.envs.personalhome.sim.vocabulary import FactCast, FactWords, fill_frame, load_vocabulary

HOBBIES = (1, 3)  # of a person


def make_members(
    household_id: str,
    people: Sequence[PlannedPerson],
    today: date,
    words: FactWords,
    half: Half,
    seeds: Sequence[PersonaSeed],
    rng: random.Random,
) -> tuple[Member, ...]:
    """The members, without traits, tastes, habits and life events. `seeds` are personas to draw from; none is usual."""
    characters = rng.sample(words.characters.entries_of(half), len(people))  # no two people of a household are alike
    priors, names = load_household_priors(), list[str]()
    members = []
    for number, (person, character) in enumerate(zip(people, characters), 1):
        names.append(rng.choice([name for name in words.people[person.gender].entries_of(half) if name not in names]))
        jobs = {key: job for key, job in priors.occupations.items() if job.fits_age(person.age)}
        occupation = rng.choices(list(jobs), [job.weight for job in jobs.values()])[0]
        fitting = [hobby for hobby, youngest in priors.hobbies.items() if person.age >= youngest]
        hobbies = tuple(rng.sample(fitting, min(rng.randint(*HOBBIES), len(fitting))))
        latest = years_before(today, person.age)
        earliest = years_before(today, person.age + 1) + timedelta(days=1)
        birthday = earliest + timedelta(days=rng.randint(0, (latest - earliest).days))
        said = {
            "name": names[-1],
            "character": character,
            "occupation": words.key_word("occupations", occupation),
            "hobbies": words.list_names(words.key_word("hobbies", hobby) for hobby in hobbies),
        }
        member = Member(
            member_id=f"{household_id}_{number}",
            name=names[-1],
            role=person.role,
            gender=person.gender,
            birthday=birthday,
            occupation=occupation,
            hobbies=hobbies,
            lifestyle="",
            preference="",
            persona=fill_frame(rng.choice(words.persona.entries_of(half)), said),
        )
        seed = match_persona(seeds, person.age, person.gender, rng)
        members.append(member if seed is None else seed.given_to(member))
    return tuple(members)


def make_pets(count: int, words: FactWords, half: Half, rng: random.Random) -> tuple[Pet, ...]:
    """Pets of the usual kinds and ages, with names that differ."""
    kinds = load_household_priors().pets
    names = rng.sample(words.pets.entries_of(half), count)
    animals = rng.choices(list(kinds), [kind.weight for kind in kinds.values()], k=count)
    return tuple(
        Pet(name=name, animal=animal, age=rng.randint(0, kinds[animal].age)) for name, animal in zip(names, animals)
    )


def years_before(day: date, years: int) -> date:
    """The same day some years earlier; 28 February stands in for a 29 February that was not."""
    try:
        return day.replace(year=day.year - years)
    except ValueError:
        return day.replace(year=day.year - years, day=28)


Days = tuple[int, ...]
WEEK: Days = tuple(range(7))
WORKDAYS: Days = (0, 1, 2, 3, 4)
WEEKEND: Days = (5, 6)
HABITS = (1, 3)  # of a person
DEFAULT = "room_temperature"  # the taste of who has no other
FIRST = 3  # years from which a child has habits


def add_character(member: Member, rooms: Sequence[Room], today: date, rng: random.Random) -> Member:
    """The member with traits and tastes."""
    priors, age = load_household_priors(), member.age(today)
    traits = [key for key, usual in priors.traits.items() if usual.fits_age(age) and rng.random() < usual.share]
    if member.occupation not in priors.desk_jobs and "works_from_home" in traits:
        traits.remove("works_from_home")
    for first, second in priors.opposites:
        if {first, second} <= {*traits}:
            traits.remove(rng.choice((first, second)))
    tastes = []
    for kind, usual in priors.tastes.items():
        share = priors.usual if {*traits} & {*usual.because} else usual.share
        if usual.fits_age(age) and rng.random() < share:
            tastes.append(_draw_taste(kind, usual, rooms, rng))
    if not tastes and priors.tastes[DEFAULT].fits_age(age):
        tastes.append(_draw_taste(DEFAULT, priors.tastes[DEFAULT], rooms, rng))
    kept = sorted(rng.sample(range(len(tastes)), min(len(tastes), priors.most_tastes)))
    return member.model_copy(update={"traits": tuple(traits), "tastes": tuple(tastes[index] for index in kept)})


def _draw_taste(kind: str, usual: TastePrior, rooms: Sequence[Room], rng: random.Random) -> Taste:
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
    return activity.fits_age(age) and activity.needs in (None, *member.traits)


def devices_for_activity(activity: ActivityPrior, devices: Sequence[Device]) -> list[Device]:
    """The devices of a home with which one does it."""
    kinds, rooms = activity.kinds, activity.rooms
    return [device for device in devices if device.spec.category in kinds and (not rooms or device.room.type in rooms)]


def add_habits(member: Member, devices: Sequence[Device], today: date, rng: random.Random) -> Member:
    """The member with habits that the home's appliances allow."""
    age, activities = member.age(today), load_household_priors().activities
    able = {key: activity for key, activity in activities.items() if can_do_activity(member, age, activity)}
    possible = [key for key, activity in able.items() if devices_for_activity(activity, devices)]
    wanted = rng.randint(*HABITS) if age >= FIRST else 0
    habits: list[Habit] = []
    for key in rng.sample(possible, min(wanted, len(possible))):
        device, hour = rng.choice(devices_for_activity(able[key], devices)), rng.randint(*able[key].hours)
        if all(hour != habit.hour for habit in habits):
            days = WORKDAYS
            if key != "working":
                few = tuple(sorted(rng.sample(WEEK, rng.randint(1, 3))))
                days = rng.choice((WEEK, WORKDAYS, WEEKEND, few, few))
            habits.append(Habit(activity=key, days=days, hour=hour, room=device.room.id, appliance=device.did))
    return member.model_copy(update={"habits": tuple(sorted(habits, key=lambda habit: habit.hour))})


def add_profile_texts(member: Member, cast: FactCast, words: FactWords, half: Half, rng: random.Random) -> Member:
    """The member with `lifestyle` and `preference` written out."""
    tastes = [words.say_taste(taste, cast, rng, half) for taste in member.tastes]
    life = [words.say_trait(trait) for trait in member.traits]
    life += [words.say_habit(habit, cast, rng, half) for habit in member.habits]
    return member.model_copy(update={"lifestyle": words.join_sentences(life), "preference": words.join_sentences(tastes)})


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
    usual = load_household_priors().life_events
    shared = _draw_weddings(members, today, rng) | _draw_adoption(members, pets, today, rng)
    grown = []
    for member in members:
        dates = [(day, kind) for (kind, who), day in shared.items() if who == member.member_id]
        dates += [(child.birthday, "child_born") for child in members if child.role == "child" and member.role == "parent"]
        for kind, prior in usual.items():  # what happened to this person alone
            if kind in OF_SEVERAL or (kind in MAY and not MAY[kind](member)):
                continue
            latest = today - timedelta(days=SETTLED if kind == "moved_in" else 1)
            day = _draw_day_at_age(member, prior.ages, latest, rng)
            if day is not None and rng.random() < prior.share:
                dates.append((day, kind))
        events = [LifeEvent(date=day, kind=kind, description="") for day, kind in sorted(dates)]
        told = (event.model_copy(update={"description": words.say_life(event, member.name, rng, half)}) for event in events)
        grown.append(member.model_copy(update={"major_events": tuple(told)}))
    return tuple(grown)


def _draw_day_at_age(member: Member, ages: tuple[int, int], latest: date, rng: random.Random) -> date | None:
    """A day at which the member had one of these ages, or None if there was none up to `latest`."""
    first = member.birthday + timedelta(days=round(ages[0] * YEAR) + 1)
    last = min(member.birthday + timedelta(days=round((ages[1] + 1) * YEAR) - 2), latest)
    return first + timedelta(days=rng.randint(0, (last - first).days)) if first <= last else None


def _draw_weddings(members: Sequence[Member], today: date, rng: random.Random) -> dict[tuple[str, str], date]:
    """The wedding day of the pairs of a role, if they are married; by kind and member id."""
    usual = load_household_priors().life_events["married"]
    days: dict[tuple[str, str], date] = {}
    for role in ("partner", "parent", "grandparent"):
        pair = [member for member in members if member.role == role]
        if len(pair) < 2 or rng.random() >= usual.share:
            continue
        younger = max(pair, key=lambda member: member.birthday)
        day = _draw_day_at_age(younger, usual.ages, today - timedelta(days=1), rng)
        days |= {("married", member.member_id): day for member in pair if day is not None}
    return days


def _draw_adoption(
    members: Sequence[Member], pets: Sequence[Pet], today: date, rng: random.Random
) -> dict[tuple[str, str], date]:
    """The day on which a grown-up adopted the only pet, for some pets that are older than a year."""
    grown = [member for member in members if member.age(today) > ADULT]
    if len(pets) != 1 or pets[0].age < 1 or rng.random() < 0.5:
        return {}
    who = rng.choice(grown)
    alive = (today - max(years_before(today, pets[0].age), who.birthday + timedelta(days=round(ADULT * YEAR)))).days
    return {("adopted_pet", who.member_id): today - timedelta(days=rng.randint(1, alive))}
