"""What a household needs, from the typed facts about it: the ground truth of feature recommendation.

The paper lets a language model say which features are relevant. Here a need has a weight by where it comes from: a hazard or
another situation of the moment before what people said that they like, before what they usually do.

Invariant: a need rests on rows that an agent can see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from homerl.envs.personalhome.sim.household import Household

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
