"""SimuHome as a world to play in: Matter devices in physical time, requests that may be impossible.

Invariant: this file imports nothing heavy; every part is loaded when it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from homerl.play.loop import Agent
from homerl.play.situation import Situation
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import Card, Case, ExpertConfig, Failure, FileFormat, Split, Suite, WorldAdapter


class SimuHomeWorld(WorldAdapter):
    """The world of the SimuHome paper. Its user speaks once, from the blueprint."""

    name = "simuhome"
    taxonomy = "SimuHome"

    @property
    def blueprint(self) -> type:
        from homerl.worlds.simuhome.blueprint import SimuHomeBlueprint

        return SimuHomeBlueprint

    @property
    def recipe(self) -> type:
        from homerl.worlds.simuhome.blueprint import SimuHomeRecipe

        return SimuHomeRecipe

    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        from homerl.worlds.simuhome.author import make_blueprint

        return make_blueprint(recipe, split, seed, dropped)

    def begin(self, blueprint: Any) -> Situation:
        from homerl.worlds.simuhome.situation import SimuHomeSituation

        return SimuHomeSituation.begin(blueprint)

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        return sum(len(room["devices"]) for room in blueprint["home"]["rooms"].values())

    def labels(self, blueprint: Any) -> dict[str, str]:
        return {"category": blueprint.category}

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        from homerl.worlds.simuhome.situation import goals_in_words

        return goals_in_words(blueprint["task"])

    def expert(self, config: ExpertConfig, seed: int) -> Agent:
        from homerl.worlds.simuhome.agents import SimuHomeExpert

        return SimuHomeExpert(seed, config.mistakes, config.styles, config.minimal)

    @property
    def baselines(self) -> Mapping[str, Callable[[], Agent]]:
        from homerl.worlds.simuhome.agents import BASELINES

        return BASELINES

    def endpoint_agent(self, setting: str) -> Callable[..., Agent] | None:
        from homerl.worlds.simuhome.react_agent import ReActAgent

        return ReActAgent if setting == "react" else None

    @property
    def paraphraser(self) -> type:
        from homerl.worlds.simuhome.paraphrase import SimuHomeParaphraser

        return SimuHomeParaphraser

    @property
    def suites(self) -> Mapping[str, Suite]:
        from homerl.worlds.simuhome.bench.suite import SimuHomeSuite

        return {SimuHomeSuite.name: SimuHomeSuite()}

    @property
    def dimensions(self) -> Mapping[str, str]:  # type: ignore[override]
        from homerl.worlds.simuhome.bench.cases import DIMENSIONS

        return DIMENSIONS

    def failure_of(self, trajectory: Trajectory) -> Failure | None:
        from homerl.worlds.simuhome.bench.cases import failure_of

        return failure_of(trajectory)

    def cases(self, trajectory: Trajectory) -> list[Case]:
        from homerl.worlds.simuhome.bench.cases import cases

        return cases(trajectory)

    @property
    def rubrics(self) -> Mapping[str, str]:
        from homerl.worlds.simuhome.bench.cases import RUBRICS

        return RUBRICS

    def extra_results(self, trajectory: Trajectory) -> dict[str, Any]:
        """The verdict of the paper's own program, which leaves some failures out."""
        from homerl.worlds.simuhome.bench.cases import released_verdict

        return {"released": released_verdict(trajectory)}

    def card(self, recipe: Mapping[str, Any]) -> Card:
        from homerl.worlds.simuhome.card import card

        return card(recipe)

    def formats(self) -> Mapping[str, FileFormat]:
        return {"simuhome-blueprint": FileFormat(1, self.blueprint)}

    def commands(self, app: Any, view: Any) -> None:
        from homerl.worlds.simuhome.commands import add

        add(app, view)


WORLD = SimuHomeWorld()
