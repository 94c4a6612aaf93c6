"""A benchmark of lamps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homerl.worlds.lamp.blueprint import BlueprintRecipe, LampBlueprint, make_blueprint

from envs.model import Model
from homerl.play.episode import EpisodeLimits
from homerl.worlds import contract

COUNT = 12


class LampInstance(Model):
    """One lamp."""

    id: str
    category: str
    blueprint: LampBlueprint

    def blueprint_for(self, setting: str) -> LampBlueprint:
        return self.blueprint.model_copy(update={"id": self.id})

    def limits_for(self, setting: str) -> EpisodeLimits:
        return EpisodeLimits(2, 6, 4)

    def labels(self) -> dict[str, Any]:
        return {"category": self.category}


class LampSuite(contract.Suite):
    """A dozen lamps."""

    name = "lamp-bench"
    settings = ("eia",)
    instance = LampInstance
    shipped = Path(__file__).parent / "lamp-bench.jsonl.xz"

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[LampInstance]]:
        made = (make_blueprint(BlueprintRecipe(world="lamp"), "heldout", seed + number) for number in range(COUNT))
        named = enumerate(made)
        return COUNT, (LampInstance(id=f"{self.name}-{n}", category=b.intents[0].subcategory, blueprint=b) for n, b in named)
