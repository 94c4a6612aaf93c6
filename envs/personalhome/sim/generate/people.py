"""The people of a household: ages and roles, and profiles, which may begin from a persona (PersonalHomeBench 3.1).

Personas are a data set of the Hugging Face hub, such as Nemotron-Personas-USA, or a JSONL file.

Invariants:
- Shares hold in any run of seeds, not only on average: what is counted (type, size, pets) is drawn from a sequence of low
  discrepancy over the seeds.
- A parent is at least 18 years older than a child, and a grandparent than a parent.
- Names are unique in a household.
- An occupation fits the age; a persona says only what the profile says, or what its seed says.
- A person has at most one taste of a kind, and no two habits at one hour.
- A habit uses an appliance of the home, in its room.
- `lifestyle` says the traits and habits, `preference` the tastes, and neither says more.
- A major event lies at an age at which it happens, before today. What concerns two people (a wedding, a birth) has one date
  for both.
- A source of personas is read once per process, in its own order; `datasets` is imported only for the hub.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.home_names import Half, Lexicon
from homerl.envs.homeenv.maker.layout_and_furniture import draw_layout
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.sim.generate.household_priors import ActivityPrior, TastePrior, load_household_priors
from homerl.envs.personalhome.sim.household import Gender, Habit, LifeEvent, Member, Occupancy, Pet, Taste
from homerl.envs.personalhome.sim.vocabulary import FactCast, FactWords, fill_frame, load_vocabulary

T = TypeVar("T")
# Irrational steps that are independent of each other, one for each thing that is drawn (Kronecker's sequence).
STEPS = tuple(root**0.5 % 1 for root in (2, 3, 5, 7, 11))
OCCUPANCY: dict[Occupancy, float] = {"single occupant": 0.5, "family": 0.3, "non-related roommates": 0.2}
SIZES: dict[Occupancy, dict[int, float]] = {
    "single occupant": {1: 1.0},
    "family": {2: 0.3, 3: 0.33, 4: 0.25, 5: 0.12},
    "non-related roommates": {2: 0.7, 3: 0.3},
}
PET_OWNERS: dict[Occupancy, float] = {"single occupant": 0.3, "family": 0.52, "non-related roommates": 0.33}  # 409 of 1,100
PETS: dict[int, float] = {1: 0.375, 2: 0.34, 3: 0.185, 4: 0.1}  # animals of an owner: 823 of 409
# Families by size: how many grandparents, adults and children, with weights.
FAMILIES: dict[int, dict[tuple[int, int, int], float]] = {
    2: {(0, 2, 0): 0.55, (0, 1, 1): 0.45},
    3: {(0, 2, 1): 0.7, (0, 1, 2): 0.3},
    4: {(0, 2, 2): 0.7, (0, 1, 3): 0.1, (1, 2, 1): 0.2},
    5: {(0, 2, 3): 0.5, (1, 2, 2): 0.35, (2, 2, 1): 0.15},
}
ROOMS: dict[int, tuple[int, int]] = {1: (4, 6), 2: (5, 7), 3: (6, 8), 4: (7, 9), 5: (8, 10)}  # by size
OLDEST = 92  # years
GENDERS: tuple[Gender, ...] = ("Female", "Male")
OTHER: dict[Gender, Gender] = {"Female": "Male", "Male": "Female"}


@dataclass(frozen=True)
class PlannedPerson:
    """A person to be: role, age in whole years, and gender."""

    role: str
    age: int
    gender: Gender


@dataclass(frozen=True)
class Scaffold:
    """The frame of a household: its type, its people, the number of its pets, and its rooms."""

    occupancy: Occupancy
    people: tuple[PlannedPerson, ...]
    pets: int
    rooms: tuple[Room, ...]


def spread_shares(seed: int) -> tuple[float, ...]:
    """One number in [0, 1) for each of `STEPS`. Those of successive seeds are spread evenly."""
    # From the middle on: the share of seed 0 is then no extreme of every weight.
    return tuple((0.5 + seed * step) % 1 for step in STEPS)


def pick_by_share(weights: Mapping[T, float], share: float) -> T:
    """The key at a share (0..1) of the summed weights."""
    left = share * sum(weights.values())
    for key, weight in weights.items():
        left -= weight
        if left < 0:
            return key
    return key  # rounding left a rest


def draw_scaffold(shares: tuple[float, ...], lexicon: Lexicon, half: Half, rng: random.Random) -> Scaffold:
    """A scaffold. `shares` (of `spread_shares`) choose type, size, how many pets there are, and the first gender."""
    occupancy = pick_by_share(OCCUPANCY, shares[0])
    size = pick_by_share(SIZES[occupancy], shares[1])
    pets = pick_by_share(PETS, shares[3]) if shares[2] < PET_OWNERS[occupancy] else 0
    people = _draw_people(occupancy, size, rng)
    # The first gender is counted as well. If it is to be the other one, everybody's is swapped.
    if (people[0].gender == "Female") != (shares[4] < 0.5):
        people = tuple(replace(person, gender=OTHER[person.gender]) for person in people)
    return Scaffold(occupancy, people, pets, draw_layout(rng.randint(*ROOMS[len(people)]), lexicon, half, rng))


def add_missing_rooms(
    rooms: tuple[Room, ...], wanted: Iterable[Collection[str]], lexicon: Lexicon, half: Half, rng: random.Random
) -> tuple[Room, ...]:
    """The rooms, and one more for each collection of types of which there is none."""
    for types in wanted:
        if not any(room.type in types for room in rooms):
            chosen = rng.choice(sorted(types))
            rooms = (*rooms, Room(chosen, chosen, lexicon.room_name(chosen, half, {room.name for room in rooms}, rng)))
    return rooms


# People


def _draw_people(occupancy: Occupancy, size: int, rng: random.Random) -> tuple[PlannedPerson, ...]:
    if occupancy == "single occupant":
        return (PlannedPerson("single", rng.randint(19, OLDEST), rng.choice(GENDERS)),)
    if occupancy == "non-related roommates":  # they are within six years of each other
        youngest = rng.randint(19, 33) if rng.random() < 0.45 else rng.randint(34, 75)
        ages = [youngest, *(youngest + rng.randint(0, 6) for _ in range(size - 1))]
        return tuple(PlannedPerson("roommate", age, rng.choice(GENDERS)) for age in ages)
    grandparents, adults, children = pick_by_share(FAMILIES[size], rng.random())
    if not children:
        return _draw_pair("partner", rng.randint(23, OLDEST - 4), rng)
    oldest = rng.randint(0, 40 if size == 2 else 20)
    ages = [oldest]
    while len(ages) < children:
        ages.append(max(ages[-1] - rng.randint(1, 5), 0))
    parent = oldest + rng.randint(22, 36)
    parents = _draw_pair("parent", parent, rng)[:adults]
    elders = _draw_pair("grandparent", parent + rng.randint(26, 34), rng)[:grandparents]
    return (*parents, *(PlannedPerson("child", age, rng.choice(GENDERS)) for age in ages), *elders)


def _draw_pair(role: str, age: int, rng: random.Random) -> tuple[PlannedPerson, PlannedPerson]:
    """Two partners within four years of each other, most often of two genders."""
    first = rng.choice(GENDERS)
    same = rng.random() < 0.08
    return PlannedPerson(role, age, first), PlannedPerson(role, age + rng.randint(-4, 4), first if same else OTHER[first])


MOST = 20_000  # personas that are read from the hub
APART = 6  # years between a person and a persona that fits
NAME = re.compile(r"^(?:[A-Z][\w'’.-]+ )*[A-Z][\w'’-]+(?=[ ,])")
REMEDY = "each row needs `persona`, `age` and `sex`, and may have `occupation` and `hobbies_and_interests_list`"


class PersonaSeed(Model):
    """A persona: `persona` is a text of one or two sentences. Hobbies are texts, at most three."""

    persona: str = Field(min_length=1)
    age: int = Field(ge=0, le=120)
    gender: Gender
    occupation: str | None = None
    hobbies: tuple[str, ...] = ()

    def given_to(self, member: Member) -> Member:
        """The member with this persona, and with its occupation and hobbies if it has them."""
        text = self.persona
        if found := NAME.match(text):  # a text that begins with words in capitals begins with a name
            first = found[0].split()[0]
            text = re.sub(rf"\b{re.escape(first)}\b", member.name, member.name + text[found.end() :])
        change: dict[str, Any] = {"persona": text}
        change |= {"occupation": self.occupation} if self.occupation else {}
        change |= {"hobbies": self.hobbies} if self.hobbies else {}
        return member.model_copy(update=change)


@lru_cache(maxsize=4)
def load_personas(source: str) -> tuple[PersonaSeed, ...]:
    """The personas of a JSONL file, or of the train split of a hub data set. Raises `InputError` if it cannot be used."""
    rows = _read_file_rows(Path(source)) if source.endswith(".jsonl") else _load_hub_rows(source)
    personas = tuple(_read_persona_row(row, f"{source}:{number}") for number, row in enumerate(rows, 1))
    if not personas:
        raise InputError("there are no personas", source, REMEDY)
    return personas


def _read_file_rows(path: Path) -> Iterable[Any]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the personas cannot be read: {error}", str(path), "name a JSONL file in UTF-8") from None
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise InputError(f"not JSON: {error}", f"{path}:{number}", "write one JSON object a line") from None


def _load_hub_rows(name: str) -> Iterable[Any]:
    from datasets import load_dataset

    try:
        return list(islice(load_dataset(name, split="train", streaming=True), MOST))
    except Exception as error:  # the hub's client raises many types of errors
        remedy = "check the name and the network, or name a JSONL file"
        raise InputError(f"the data set cannot be loaded: {error}", name, remedy) from None


def _read_persona_row(row: Any, where: str) -> PersonaSeed:
    """A row under the column names of Nemotron-Personas-USA."""
    if not isinstance(row, Mapping):
        raise InputError("this row is no object", where, REMEDY)
    hobbies = row.get("hobbies_and_interests_list") or ()
    if isinstance(hobbies, str):  # the text of a list: `"['chess', 'hiking']"`
        hobbies = [part.strip() for pair in re.findall(r"'([^']+)'|\"([^\"]+)\"", hobbies) for part in pair if part]
    sex, job = str(row.get("sex", "")).capitalize(), row.get("occupation")
    known = {"persona": row.get("persona"), "age": row.get("age"), "gender": sex, "hobbies": tuple(map(str, hobbies))[:3]}
    known |= {"occupation": str(job).replace("_", " ")} if job else {}
    try:
        return PersonaSeed.model_validate(known)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", where, REMEDY) from None


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
        # Whoever was born between these days has the age today.
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
        alike = [seed for seed in seeds if seed.gender == person.gender and abs(seed.age - person.age) <= APART]
        members.append(rng.choice(alike).given_to(member) if alike else member)
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
    # Indices are drawn, so that the tastes stay in the order of the priors.
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
    # A small child draws nothing, and has none.
    wanted = rng.randint(*HABITS) if age >= FIRST else 0
    habits: list[Habit] = []
    for key in rng.sample(possible, min(wanted, len(possible))):
        device, hour = rng.choice(devices_for_activity(able[key], devices)), rng.randint(*able[key].hours)
        if all(hour != habit.hour for habit in habits):
            days = WORKDAYS
            if key != "working":
                # `few` stands twice among the choices, so that it is twice as usual.
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
    # "The pet" is clear only if there is one.
    if len(pets) != 1 or pets[0].age < 1 or rng.random() < 0.5:
        return {}
    who = rng.choice(grown)
    alive = (today - max(years_before(today, pets[0].age), who.birthday + timedelta(days=round(ADULT * YEAR)))).days
    return {("adopted_pet", who.member_id): today - timedelta(days=rng.randint(1, alive))}
