"""How usual things are in a household, from `priors.yaml`. Invariant: the file is read once per process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field

from envs.documents import read_yaml, validate
from envs.model import Model
from envs.personalhome.household import Animal

FILE = Path(__file__).parent / "priors.yaml"
Ages = tuple[int, int]
Bounds = tuple[int, int]


class Occupation(Model):
    """Who may have an occupation, and its weight among those that fit an age."""

    ages: Ages
    weight: float


class Usual(Model):
    """The ages of something, and the share (0..1) of the people of these ages who have it."""

    ages: Ages
    share: float

    def fits(self, age: int) -> bool:
        """Whether somebody of this age may have it."""
        return self.ages[0] <= age <= self.ages[1]


class UsualTaste(Usual):
    """A taste: the ranges of its bounds, of the hours at which it begins and ends, and the types of rooms."""

    low: Bounds | None = None
    high: Bounds | None = None
    width: Bounds | None = None
    begin: Bounds | None = Field(None, alias="from")
    end: Bounds | None = Field(None, alias="to")
    rooms: tuple[str, ...] = ()
    always_room: bool = False
    because: tuple[str, ...] = ()


class UsualPet(Model):
    """The weight of a kind of animal, and its greatest age in years."""

    weight: float
    age: int


class Priors(Model):
    """All of `priors.yaml`."""

    occupations: dict[str, Occupation]
    hobbies: dict[str, int]
    traits: dict[str, Usual]
    opposites: tuple[tuple[str, str], ...]
    desk_jobs: tuple[str, ...]
    tastes: dict[str, UsualTaste]
    usual: float
    most_tastes: int
    life_events: dict[str, Usual]
    pets: dict[Animal, UsualPet]


@lru_cache(maxsize=1)
def priors() -> Priors:
    """The priors. Raises `InputError` with the line if the file is wrong."""
    return validate(Priors, read_yaml(FILE))
