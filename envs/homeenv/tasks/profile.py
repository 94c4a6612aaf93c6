"""User profiles (HomeFlow Table 4) with consistent attributes, in the words of a language (`people.yaml`).

Invariants: a profile is a pure function of the random generator, the split and the language; no given name belongs to
both splits; health depends on age, and preferences depend on health.
"""

from __future__ import annotations

import random
from functools import lru_cache

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.language.known import language_path
from homerl.envs.homeenv.tasks.blueprint import Profile

ILLS = (
    (30, ("healthy", "pollen")),
    (60, ("healthy", "light_sleeper", "migraine")),
    (120, ("healthy", "poor_eyesight", "arthritis", "light_sleeper")),
)
GENDERS = ("female", "male", "other")


class PeopleWords(Model):
    """The words for people in a language: given names by split, the other words by key."""

    given: dict[str, tuple[str, ...]]
    family: tuple[str, ...]
    name: str
    scene: str
    genders: dict[str, str]
    habits: dict[str, str]
    health: dict[str, str]
    likes: dict[str, str]


@lru_cache
def load_people_words(language: str) -> PeopleWords:
    """The words for people in this language."""
    return validate_document(PeopleWords, read_yaml(language_path(language, "people.yaml")))


def sample_profile(rng: random.Random, split: str, language: str = "en") -> Profile:
    """A random profile whose attributes are consistent with each other."""
    words = load_people_words(language)
    age = rng.randint(18, 90)
    gender = rng.choice(GENDERS)
    height = round(rng.gauss(176 if gender == "male" else 165, 7))
    health = rng.choice(next(options for limit, options in ILLS if age < limit))
    return Profile(
        name=words.name.format(given=rng.choice(words.given[split]), family=rng.choice(words.family)),
        age=age,
        gender=words.genders[gender],
        height_cm=height,
        weight_kg=round(rng.uniform(19, 29) * (height / 100) ** 2),
        health=words.health[health],
        habits=tuple(rng.sample(tuple(words.habits.values()), 2)),
        preferences={
            "temperature": (23 if age > 60 else 21) + rng.randint(-1, 2),
            "lighting": words.likes[_lighting(health, rng)],
            "noise": words.likes["quiet" if health == "light_sleeper" else rng.choice(("quiet", "lively"))],
        },
    )


def _lighting(health: str, rng: random.Random) -> str:
    needed = {"poor_eyesight": "bright", "migraine": "dim"}
    return needed.get(health) or rng.choice(("soft", "bright"))
