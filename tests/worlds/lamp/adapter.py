"""The lamp as a world to play in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from homerl.play.situation import Situation
from homerl.play.words.grammar import Split
from homerl.worlds.contract import Card, ExpertConfig, Suite, WorldAdapter


class LampWorld(WorldAdapter):
    """Lamps that are switched and dimmed."""

    name = "lamp"
    labels = ("aim",)
    taxonomy = "The lamp"
    dimensions = {"outcome": "what the lamp came to", "SO": "a key that another world has too"}

    @property
    def blueprint(self) -> type:
        from homerl.envs.lamp.blueprint import LampBlueprint

        return LampBlueprint

    @property
    def recipe(self) -> type:
        from homerl.envs.lamp.blueprint import BlueprintRecipe

        return BlueprintRecipe

    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        from homerl.envs.lamp.blueprint import make_blueprint

        return make_blueprint(recipe, split, seed)

    def begin(self, blueprint: Any) -> Situation:
        from homerl.envs.lamp.situation import LampSituation

        return LampSituation.begin(blueprint)

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        return [f"the lamp is {'off' if level == 0 else f'at {level} %'}" for level in blueprint["wanted"]]

    def expert(self, config: ExpertConfig, seed: int) -> Any:
        from homerl.envs.lamp.expert import LampExpert

        return LampExpert(seed, config.mistakes)

    @property
    def baselines(self) -> Mapping[str, Any]:
        from homerl.envs.lamp.expert import LampExpert

        return {**super().baselines, "clumsy": lambda: LampExpert(0, 1.0)}

    @property
    def suites(self) -> Mapping[str, Suite]:
        from homerl.envs.lamp.suite import LampSuite, NightSuite

        return {suite.name: suite for suite in (LampSuite(), NightSuite())}

    def card(self, recipe: Mapping[str, Any]) -> Card:
        from homerl.envs.lamp.situation import TELL, TOOLS

        return Card(TOOLS, TELL, "says what a lamp can do", "Set the lamp to 40 percent.")


WORLD = LampWorld()
