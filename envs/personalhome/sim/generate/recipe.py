"""What kind of households to make."""

from __future__ import annotations

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.lexicon import Half

Range = tuple[int, int]


class HouseholdRecipe(Model):
    """Which households to make."""

    language: str = Field("en", description="Language (`en`, `zh`) of all names and texts.")
    lexicon: Half = Field("train", description="Which half of names and phrasings is used.")
    wanted: str | None = Field(
        None,
        description="A situation (`water_leak`), category (`ROUTINE`) or domain (`health`); null is any.",
    )
    memories: Range = Field((12, 40), description="Fewest and most memories of a household.")
    personas: str | None = Field(
        None,
        description="Personas to begin from: a JSONL file, or a data set of the hub.",
    )

    @model_validator(mode="after")
    def _coherent(self) -> HouseholdRecipe:
        low, high = self.memories
        if not 1 <= low <= high:
            raise ValueError(f"memories [{low}, {high}] must be two numbers from 1 up, smaller first")
        return self


DEFAULT = HouseholdRecipe()
