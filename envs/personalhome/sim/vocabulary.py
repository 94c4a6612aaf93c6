"""The keys of `vocabulary.yaml` as data: what facts, tastes and situations may hold.

Invariants: the file is read once per process; a group of keys that a fact or a taste names exists.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import model_validator

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model

FILE = Path(__file__).parent / "vocabulary.yaml"


class FactShape(Model):
    """The fields that a kind of fact or taste has besides `kind`, and the group of keys that its `what` is from."""

    fields: tuple[str, ...]
    what: str | None = None


class Vocabulary(Model):
    """The groups of keys. `situations` are by category, in the order of urgency."""

    facts: dict[str, FactShape]
    activities: tuple[str, ...]
    dishes: tuple[str, ...]
    quantities: tuple[str, ...]
    complaints: tuple[str, ...]
    things: tuple[str, ...]
    relations: tuple[str, ...]
    places: tuple[str, ...]
    ailments: tuple[str, ...]
    pet_care: tuple[str, ...]
    faults: tuple[str, ...]
    repairs: tuple[str, ...]
    occasions: tuple[str, ...]
    skills: tuple[str, ...]
    signs: tuple[str, ...]
    pet_acts: tuple[str, ...]
    life_events: tuple[str, ...]
    hobbies: tuple[str, ...]
    roles: tuple[str, ...]
    occupations: tuple[str, ...]
    traits: tuple[str, ...]
    tastes: dict[str, FactShape]
    genres: tuple[str, ...]
    scents: tuple[str, ...]
    situations: dict[str, tuple[str, ...]]
    domains: dict[str, int]

    @model_validator(mode="after")
    def _groups_exist(self) -> Vocabulary:
        for shape in (*self.facts.values(), *self.tastes.values()):
            if shape.what is not None and not self.group_keys(shape.what):
                raise ValueError(f"there is no group '{shape.what}'")
        return self

    def group_keys(self, group: str) -> tuple[str, ...]:
        """The keys of a group, such as `dishes`; those of `situations` in the order of urgency. Raises `ValueError`."""
        found = getattr(self, group, None) if group in type(self).model_fields else None
        if found is None:
            raise ValueError(f"there is no group '{group}'")
        if group == "situations":
            return tuple(key for keys in self.situations.values() for key in keys)
        return tuple(found)


@lru_cache(maxsize=1)
def load_vocabulary() -> Vocabulary:
    """The vocabulary. Raises `InputError` with the line if the file is wrong."""
    return validate_document(Vocabulary, read_yaml(FILE))
