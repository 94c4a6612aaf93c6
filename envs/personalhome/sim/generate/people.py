"""Members: names, birthdays, occupations, hobbies and personas of the people of a scaffold.

Invariants:
- Names are unique in a household.
- An occupation fits the age; a persona says only what the profile says, or what its seed says.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, timedelta

from homerl.envs.homeenv.maker.lexicon import Half
from homerl.envs.personalhome.sim.generate.personas import PersonaSeed, match_persona
from homerl.envs.personalhome.sim.generate.priors import load_household_priors
from homerl.envs.personalhome.sim.generate.scaffold import PlannedPerson
from homerl.envs.personalhome.sim.household import Member, Pet
from homerl.envs.personalhome.sim.words import FactWords, fill_frame

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
    names: list[str] = []
    members = []
    for number, (person, character) in enumerate(zip(people, characters), 1):
        names.append(rng.choice([name for name in words.people[person.gender].entries_of(half) if name not in names]))
        occupation, hobbies = _occupation(person.age, rng), _hobbies(person.age, rng)
        member = Member(
            member_id=f"{household_id}_{number}",
            name=names[-1],
            role=person.role,
            gender=person.gender,
            birthday=_birthday(person.age, today, rng),
            occupation=occupation,
            hobbies=hobbies,
            lifestyle="",
            preference="",
            persona=_persona(names[-1], character, occupation, hobbies, words, half, rng),
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


def _birthday(age: int, today: date, rng: random.Random) -> date:
    """A day of birth such that the age is right today."""
    latest = years_before(today, age)
    earliest = years_before(today, age + 1) + timedelta(days=1)
    return earliest + timedelta(days=rng.randint(0, (latest - earliest).days))


def years_before(day: date, years: int) -> date:
    """The same day some years earlier; 28 February stands in for a 29 February that was not."""
    try:
        return day.replace(year=day.year - years)
    except ValueError:
        return day.replace(year=day.year - years, day=28)


def _occupation(age: int, rng: random.Random) -> str:
    fitting = {
        key: job.weight for key, job in load_household_priors().occupations.items() if job.ages[0] <= age <= job.ages[1]
    }
    return rng.choices(list(fitting), list(fitting.values()))[0]


def _hobbies(age: int, rng: random.Random) -> tuple[str, ...]:
    fitting = [hobby for hobby, youngest in load_household_priors().hobbies.items() if age >= youngest]
    return tuple(rng.sample(fitting, min(rng.randint(*HOBBIES), len(fitting))))


def _persona(
    name: str, character: str, occupation: str, hobbies: Sequence[str], words: FactWords, half: Half, rng: random.Random
) -> str:
    """One or two sentences about a person."""
    known = {
        "name": name,
        "character": character,
        "occupation": words.key_word("occupations", occupation),
        "hobbies": words.list_names(words.key_word("hobbies", hobby) for hobby in hobbies),
    }
    return fill_frame(rng.choice(words.persona.entries_of(half)), known)
