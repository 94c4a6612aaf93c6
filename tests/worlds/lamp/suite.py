"""Benchmarks of lamps: by day, and by night with tasks of another type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from homerl.envs.lamp.blueprint import BlueprintRecipe, LampBlueprint, make_blueprint

from homerl.envs.core.model import Model
from homerl.play.episode import EpisodeLimits
from homerl.worlds import contract

COUNT = 12


class LampInstance(Model):
    """One lamp; `glow` says how it was found."""

    id: str
    glow: str
    blueprint: LampBlueprint

    def blueprint_for(self, setting: str) -> LampBlueprint:
        return self.blueprint

    def limits_for(self, setting: str) -> EpisodeLimits:
        return EpisodeLimits(2, 6, 4)


class LampSuite(contract.Suite):
    """A dozen lamps."""

    name = "lamp-bench"
    settings = ("wall", "phone")
    instance = LampInstance
    labels = ("glow",)
    shipped = Path(__file__).parent / "lamp-bench.jsonl"  # it is there once somebody has built it

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[LampInstance]]:
        return COUNT, (
            LampInstance(id=f"{self.name}-{n}", glow="lit" if blueprint.start else "dark", blueprint=blueprint)
            for n, blueprint in enumerate(_lamps(seed))
        )


class NightInstance(LampInstance):
    """One lamp at an hour of the night."""

    hour: str


class NightSuite(LampSuite):
    """A dozen lamps by night, whose name begins with that of the other suite."""

    name = "lamp-bench-night"
    instance = NightInstance
    labels = ("hour", "glow")
    shipped = None

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[NightInstance]]:
        return COUNT, (
            NightInstance(id=f"{self.name}-{n}", hour=f"hour {n % 3}", glow="dark", blueprint=blueprint)
            for n, blueprint in enumerate(_lamps(seed))
        )


def _lamps(seed: int) -> list[LampBlueprint]:
    return [make_blueprint(BlueprintRecipe(world="lamp"), "heldout", seed + number) for number in range(COUNT)]
