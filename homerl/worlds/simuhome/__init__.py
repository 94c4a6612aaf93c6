"""SimuHome as a world of homerl: Matter devices in virtual time, and requests that may be impossible.

Invariant: this module imports nothing heavy. Each part of the world is imported when it is first used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from homerl.play.loop import Agent, Oracle, Policy
from homerl.play.situation import Situation
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import Card, Case, CommandLine, ExpertConfig, Failure, Split, Suite, WorldAdapter


class SimuHomeWorld(WorldAdapter):
    """The world of the SimuHome paper. Its user speaks once: the first message is the request from the blueprint."""

    name = "simuhome"
    taxonomy = "SimuHome"
    labels = ("category",)  # the column of the paper's Table 1, such as `QT3 IF`

    @property
    def blueprint(self) -> type:
        """`SimuHomeBlueprint`."""
        from homerl.worlds.simuhome.blueprint import SimuHomeBlueprint

        return SimuHomeBlueprint

    @property
    def recipe(self) -> type:
        """`SimuHomeRecipe`."""
        from homerl.worlds.simuhome.blueprint import SimuHomeRecipe

        return SimuHomeRecipe

    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        """The blueprint that the scripted author makes of a seed."""
        from homerl.worlds.simuhome.author import make_blueprint

        return make_blueprint(recipe, split, seed, dropped)

    def begin(self, blueprint: Any) -> Situation:
        """The situation of a blueprint before the first call."""
        from homerl.worlds.simuhome.situation import SimuHomeSituation

        return SimuHomeSituation.begin(blueprint)

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        """The number of devices in all rooms of the blueprint's home."""
        return sum(len(room["devices"]) for room in blueprint["home"]["rooms"].values())

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        """The goals, the required actions and the final answer, as text."""
        from homerl.worlds.simuhome.situation import goals_in_words

        return goals_in_words(blueprint["task"])

    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert of `agents.py`."""
        from homerl.worlds.simuhome.agents import SimuHomeExpert

        return SimuHomeExpert(seed, config.mistakes, config.styles, config.minimal)

    @property
    def baselines(self) -> Mapping[str, Callable[[], Agent]]:
        """The expert and the agents that a suite must not reward."""
        from homerl.worlds.simuhome.agents import BASELINES

        return BASELINES

    def endpoint_agent(self, setting: str) -> Callable[..., Policy] | None:
        """`ReActAgent` for the setting `react`, otherwise None."""
        from homerl.worlds.simuhome.react_agent import ReActAgent

        return ReActAgent if setting == "react" else None

    @property
    def paraphraser(self) -> type:
        """`SimuHomeParaphraser`."""
        from homerl.worlds.simuhome.paraphrase import SimuHomeParaphraser

        return SimuHomeParaphraser

    @property
    def suites(self) -> Mapping[str, Suite]:
        """The suite `simuhome`."""
        from homerl.worlds.simuhome.bench.suite import SimuHomeSuite

        return {SimuHomeSuite.name: SimuHomeSuite()}

    @property
    def dimensions(self) -> Mapping[str, str]:  # type: ignore[override]
        """The classes of the paper's error taxonomy."""
        from homerl.worlds.simuhome.bench.cases import DIMENSIONS

        return DIMENSIONS

    def failure_of(self, trajectory: Trajectory) -> Failure | None:
        """The class of the paper's error taxonomy to which a failure belongs, or None for a success."""
        from homerl.worlds.simuhome.bench.cases import failure_of

        return failure_of(trajectory)

    def cases(self, trajectory: Trajectory) -> list[Case]:
        """The final answer, if the episode is one that a judge may decide."""
        from homerl.worlds.simuhome.bench.cases import cases

        return cases(trajectory)

    def false_claims(self, trajectory: Trajectory) -> int:
        """Whether the final answer is a false claim, see `bench.cases`."""
        from homerl.worlds.simuhome.bench.cases import false_claims

        return false_claims(trajectory)

    def extra_results(self, trajectory: Trajectory) -> dict[str, Any]:
        """`released`: the result as the paper's released program counts it, which leaves some failures out."""
        from homerl.worlds.simuhome.bench.cases import released_verdict

        return {"released": released_verdict(trajectory)}

    def card(self, recipe: Mapping[str, Any]) -> Card:
        """The part of a model card that describes this world."""
        from homerl.worlds.simuhome.card import card

        return card(recipe)

    def episode_page(self, trajectory: Trajectory, where: str) -> str:
        """Rooms, devices and calls over virtual time, see `pages.episode`."""
        from homerl.worlds.simuhome.pages.episode import render_page

        return render_page(trajectory)

    def commands(self, cli: CommandLine) -> None:
        """Add `homerl view simuhome`."""
        from homerl.worlds.simuhome.commands import add

        add(cli)


WORLD = SimuHomeWorld()
