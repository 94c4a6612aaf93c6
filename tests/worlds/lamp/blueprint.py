"""Blueprints of one lamp: from which level to which, and how people say so."""

from __future__ import annotations

import random
from typing import ClassVar, Literal

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.play.words.grammar import Split, draw_of_split

FRAMES = (
    "Set the lamp to {level} percent.",
    "Dim the lamp to {level} %.",
    "I would like the lamp at {level} percent.",
    "{level} percent on the lamp, please.",
    "Make the lamp {level} percent bright.",
)
OPENINGS = ("", "Please: ", "Well, ", "Hello. ", "Now then. ", "One thing: ", "It is late. ", "Quickly: ", "If you can: ")
LEVELS = (0, 20, 40, 60, 80, 100)


def _said(level: int, rng: random.Random) -> str:
    return rng.choice(OPENINGS) + rng.choice(FRAMES).format(level=level)


class LampIntent(Model):
    """One wish."""

    id: int = 1
    family: str = "dim"
    subcategory: str
    queries: tuple[str, ...]
    clarification: str


class LampBlueprint(Model):
    """A script for one episode: the level at the start, and the levels `wanted` at the end, of which there is one."""

    format: Literal[1] = 1
    world: Literal["lamp"] = "lamp"
    id: str
    seed: int = 0
    split: Literal["train", "heldout"] = "heldout"
    language: str = "en"
    start: int
    wanted: tuple[int, ...]
    intents: tuple[LampIntent, ...]
    preserve: bool = False

    one_answer: ClassVar[bool] = False

    @property
    def aim(self) -> str:
        """What the user wants, by which results are grouped."""
        return self.intents[0].subcategory


class BlueprintRecipe(Model):
    """What blueprints to make. The class has the name of another world's, since names of classes select nothing."""

    world: Literal["lamp"] = Field(description="The world that the blueprints are of.")
    levels: tuple[int, ...] = Field(LEVELS, description="Levels, from 0 to 100, that a blueprint begins or ends with.")


def make_blueprint(recipe: BlueprintRecipe, split: Split, seed: int) -> LampBlueprint:
    """The blueprint of a seed."""
    rng = random.Random(f"lamp {split} {seed}")
    start, wanted = rng.sample(recipe.levels, 2)
    queries = tuple(draw_of_split(lambda: _said(wanted, rng), split) for _ in range(2))
    intent = LampIntent(
        subcategory="off" if wanted == 0 else "level", queries=queries, clarification=f"I mean {wanted} percent."
    )
    return LampBlueprint(id=f"{split}-{seed}", seed=seed, split=split, start=start, wanted=(wanted,), intents=(intent,))
