"""The scripted author: a seed becomes a filtered blueprint.

Invariants: a pure function of (recipe, split, seed); the splits share no home seed, no user name and no
sentence; what is dropped is counted by filter and reason; one device that could be controlled is left alone,
or else touching everything could not be told from obeying.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from envs.homeenv.home import OUTDOORS, Home
from envs.homeenv.home_file import home_to_json
from envs.homeenv.types import Model
from envs.homemaker.make import HomeRecipe, make_home
from homerl.blueprints.blueprint import Blueprint, Intent, Profile
from homerl.blueprints.filters import first_failure
from homerl.blueprints.intents import FAMILIES, Ask, Draft
from homerl.blueprints.profile import sample_profile
from homerl.blueprints.verbalise import NoSentence, say

Split = Literal["train", "heldout"]
ATTEMPTS = 20


class BlueprintRecipe(Model):
    """What blueprints to make. Weights need not sum to 1."""

    home: HomeRecipe = HomeRecipe()
    intents: tuple[int, int] = (1, 2)
    families: dict[str, float] = {"atomic": 1.0, "multi_device": 1.0}
    devices: tuple[int, int] = Field((2, 3), description="how many devices a multi-device intent names, from 2 up")
    wordings: dict[Literal["clear", "colloquial", "noisy"], float] = {"clear": 1.0, "colloquial": 1.0, "noisy": 1.0}
    phrasings: int = Field(3, ge=1, description="how many ways the user knows to say each intent")
    preserve: bool = True
    prompt: Literal["brief", "full"] = "brief"

    @model_validator(mode="after")
    def _ranges(self) -> BlueprintRecipe:
        for name, (low, high), least in (("intents", self.intents, 1), ("devices", self.devices, 2)):
            if not least <= low <= high:
                raise ValueError(f"{name}: [{low}, {high}] should be two numbers from {least} up, the smaller first")
        return self


def make_blueprint(recipe: BlueprintRecipe, split: Split, seed: int, dropped: Counter | None = None) -> Blueprint:
    """The blueprint of a seed; candidates that fail a filter are counted in `dropped` and drawn again."""
    rng = random.Random(f"blueprint {split} {seed}")
    dropped = Counter() if dropped is None else dropped
    for _ in range(ATTEMPTS):
        try:
            candidate = _draw(recipe, split, seed, rng)
        except NoSentence:
            dropped["author: no sentence of this split"] += 1
            continue
        if candidate is None:
            dropped["author: home offers too little"] += 1
        elif failure := first_failure(candidate):
            dropped["{}: {}".format(*failure)] += 1
        else:
            return candidate
    raise ValueError(f"no blueprint in {ATTEMPTS} attempts for seed {seed}: {dict(dropped)}; ask less of smaller homes")


def _draw(recipe: BlueprintRecipe, split: Split, seed: int, rng: random.Random) -> Blueprint | None:
    home_seed = 2 * rng.getrandbits(40) + (split == "heldout")
    home = make_home(home_seed, recipe.home)
    profile = sample_profile(rng, split)
    controllable = [device.did for device in home.plan.devices if device.spec.service_index]
    if not controllable:
        return None
    spared = rng.choice(controllable)
    intents: list[Intent] = []
    for number in range(rng.randint(*recipe.intents)):
        taken = frozenset((spared, *(did for intent in intents for did in intent.devices)))
        wording = _weighted(recipe.wordings, rng)
        draft = FAMILIES[_weighted(recipe.families, rng)](home, rng, Ask(wording, taken, recipe.devices))
        if draft is None:
            break
        intents.append(_worded(draft, number + 1, home, wording, recipe.phrasings, split, rng))
    if len(intents) < recipe.intents[0]:
        return None
    return Blueprint(
        id=f"{split}-{seed}",
        seed=seed,
        split=split,
        profile=profile,
        scene=_scene(profile, home),
        home=home_to_json(home),
        intents=tuple(intents),
        preserve=recipe.preserve,
        prompt=recipe.prompt,
    )


def _worded(draft: Draft, number: int, home: Home, wording: str, phrasings: int, split: Split, rng: random.Random) -> Intent:
    sentences = [say(draft.actions, home, wording, split, rng) for _ in range(phrasings)]
    return Intent(
        id=number,
        family=draft.family,
        subcategory=draft.subcategory,
        factors=draft.factors,
        queries=tuple(dict.fromkeys(sentences)),
        clarification=say(draft.actions, home, "clear", split, rng),
        conditions=tuple(action.condition for action in draft.actions),
        devices=tuple(action.device.did for action in draft.actions),
        plan=tuple(call for action in draft.actions for call in action.plan),
    )


def _scene(profile: Profile, home: Home) -> str:
    hour, minute = home.clock // 3600 % 24, home.clock // 60 % 60
    outside = home.state_of(OUTDOORS)["temperature"]
    who = f"{profile.name}, {profile.age}, who {profile.habits[0]},"
    return f"{who} is at home at {hour:02d}:{minute:02d}; it is {outside} degrees outside."


def _weighted(weights: Mapping[str, float], rng: random.Random) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
