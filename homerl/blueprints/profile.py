"""User profiles (HomeFlow Table 4), sampled with consistent attributes.

Invariants: a profile is a pure function of the generator and the split; no name serves both splits; health
follows age, preferences follow health.
"""

from __future__ import annotations

import random

from homerl.blueprints.blueprint import Profile

NAMES = {
    "train": "Ana Bao Carl Dina Emil Fay Goran Hana Igor Jun Kira Liam Mara Nils Oona Pia Quinn Rosa Sven Tara".split(),
    "heldout": "Uma Viktor Wen Xenia Yusuf Zoe Arno Bela Cleo Dov".split(),
}
SURNAMES = "Abt Berg Costa Duarte Endo Fiala Garcia Holm Ito Jansen Kato Lund Moreau Novak Okafor Park".split()
HABITS = (
    "rises early", "works from home", "reads before bed", "cooks every evening", "exercises in the morning",
    "works night shifts", "watches films at night", "naps after lunch", "has guests at the weekend",
)  # fmt: skip
CONDITIONS = ((30, ("healthy", "pollen allergy")), (60, ("healthy", "light sleeper", "migraine")),
              (120, ("healthy", "poor eyesight", "arthritis", "light sleeper")))  # fmt: skip


def sample_profile(rng: random.Random, split: str) -> Profile:
    """A person whose attributes agree with each other."""
    age = rng.randint(18, 90)
    gender = rng.choice(("female", "male", "other"))
    height = round(rng.gauss(176 if gender == "male" else 165, 7))
    health = rng.choice(next(options for limit, options in CONDITIONS if age < limit))
    warm = 23 if age > 60 else 21
    return Profile(
        name=f"{rng.choice(NAMES[split])} {rng.choice(SURNAMES)}",
        age=age,
        gender=gender,
        height_cm=height,
        weight_kg=round(rng.uniform(19, 29) * (height / 100) ** 2),
        health=health,
        habits=tuple(rng.sample(HABITS, 2)),
        preferences={
            "temperature": warm + rng.randint(-1, 2),
            "lighting": "bright"
            if health == "poor eyesight"
            else "dim"
            if health == "migraine"
            else rng.choice(("soft", "bright")),
            "noise": "quiet" if health == "light sleeper" else rng.choice(("quiet", "lively")),
        },
    )
