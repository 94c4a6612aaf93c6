"""How usual things are in a household, from `priors.yaml`. Invariant: the file is read once per process."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.personalhome.sim.household import Animal

FILE = Path(__file__).parent / "priors.yaml"
Bounds = tuple[int, int]


class AgeRange(Model):
    """The ages, first and last, at which people have or do something."""

    ages: tuple[int, int]

    def fits_age(self, age: int) -> bool:
        """Whether somebody of this age may have or do it."""
        return self.ages[0] <= age <= self.ages[1]


class OccupationPrior(AgeRange):
    """Who may have an occupation, and its weight among those that fit an age."""

    weight: float


class AgePrior(AgeRange):
    """The ages of something, and the share (0..1) of the people of these ages who have it."""

    share: float


class TastePrior(AgePrior):
    """A taste: the ranges of its bounds, of the hours at which it begins and ends, and the types of rooms."""

    low: Bounds | None = None
    high: Bounds | None = None
    width: Bounds | None = None
    begin: Bounds | None = Field(None, alias="from")
    end: Bounds | None = Field(None, alias="to")
    rooms: tuple[str, ...] = ()
    always_room: bool = False
    because: tuple[str, ...] = ()


class PetPrior(Model):
    """The weight of a kind of animal, and its greatest age in years."""

    weight: float
    age: int


class KindPrior(Model):
    """The weight of a kind of appliance, and the tastes, traits and hobbies that make it usual."""

    weight: float
    because: tuple[str, ...] = ()


class AppliancesPrior(Model):
    """How homes are equipped. `count` and `sensors` are weights of how many there are."""

    mandatory: tuple[str, ...]
    count: dict[int, float]
    sensors: dict[int, float]
    several: tuple[str, ...]
    boost: float
    weights: dict[str, KindPrior]
    feeder_weight: float
    fed: tuple[Animal, ...]
    sensor_weights: dict[str, float]


class ActivityPrior(AgeRange):
    """What people of some ages do with a kind of appliance: in which hours, for how many minutes.

    `rooms` restricts the types of room, `needs` is a trait that the person must have.
    """

    kinds: tuple[str, ...]
    hours: Bounds
    minutes: Bounds
    rooms: tuple[str, ...] = ()
    needs: str | None = None


class DishPrior(Model):
    """The appliances that make a dish; `hours` if it is no dinner, `meat` if vegetarians do not eat it."""

    kinds: tuple[str, ...]
    hours: Bounds | None = None
    meat: bool = False


class SettingPrior(Model):
    """The quantity that people set on a kind of appliance; `values` are the lowest, the highest and the step."""

    what: str
    unit: str
    values: tuple[float, float, float]


class SituationPrior(AgeRange):
    """When a situation is plausible: local hours [from, to), ages, types of rooms, outdoor celsius; see `priors.yaml`."""

    hours: Bounds | None = None
    ages: tuple[int, int] = (6, 200)
    rooms: tuple[str, ...] = ()
    trait: str | None = None
    animals: tuple[Animal, ...] = ()
    people: int = 1
    outdoors: tuple[float, float] = (-60, 60)
    away: bool = False
    by_sensor: bool = False
    weight: float = 1.0

    def fits_company(self, people: int, animals: Iterable[str]) -> bool:
        """Whether there are people enough, and an animal that it concerns."""
        return people >= self.people and (not self.animals or not {*self.animals}.isdisjoint(animals))


class HouseholdPriors(Model):
    """All of `priors.yaml`."""

    occupations: dict[str, OccupationPrior]
    hobbies: dict[str, int]
    traits: dict[str, AgePrior]
    opposites: tuple[tuple[str, str], ...]
    desk_jobs: tuple[str, ...]
    tastes: dict[str, TastePrior]
    usual: float
    most_tastes: int
    life_events: dict[str, AgePrior]
    pets: dict[Animal, PetPrior]
    appliances: AppliancesPrior
    activities: dict[str, ActivityPrior]
    dishes: dict[str, DishPrior]
    cooking_age: int
    dinner: Bounds
    adjustments: dict[str, SettingPrior]
    adjusting_age: int
    faults: dict[str, tuple[str, ...]]
    repairs: dict[str, tuple[str, ...]]
    repair_cost: Bounds
    prices: dict[str, Bounds]
    buying_age: int
    stay: Bounds
    trips: dict[str, Bounds]
    illness: dict[str, Bounds]
    skills: dict[str, int]
    pet_care: dict[str, tuple[Animal, ...]]
    pet_acts: dict[str, tuple[Animal, ...]]
    situations: dict[str, SituationPrior]
    signs: dict[str, str]
    gauges: dict[str, str]


@lru_cache(maxsize=1)
def load_household_priors() -> HouseholdPriors:
    """The priors. Raises `InputError` with the line if the file is wrong."""
    return validate_document(HouseholdPriors, read_yaml(FILE))
