"""SimuHome as a world of homerl: Matter devices in virtual time, and requests that may be impossible.

Invariant: this module imports nothing heavy. Each part of the world is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from homerl.envs.core.plugins import late
from homerl.play.loop import Oracle, Policy
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import Card, ExpertConfig, Suite, WorldAdapter


class SimuHomeWorld(WorldAdapter):
    """The world of the SimuHome paper. Its user speaks once: the first message is the request from the blueprint."""

    name = "simuhome"
    taxonomy = "SimuHome"
    labels = ("category",)  # the column of the paper's Table 1, such as `QT3 IF`

    blueprint = late("homerl.envs.simuhome.tasks.blueprint", "SimuHomeBlueprint")
    recipe = late("homerl.envs.simuhome.tasks.blueprint", "SimuHomeRecipe")
    make_blueprint = late("homerl.envs.simuhome.tasks.author", "make_simuhome_blueprint")
    begin = late("homerl.envs.simuhome.tasks.situation", "SimuHomeSituation.from_blueprint")

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        """The number of devices in all rooms of the blueprint's home."""
        return sum(len(room["devices"]) for room in blueprint["home"]["rooms"].values())

    goals_in_words = late("homerl.envs.simuhome.tasks.situation", "exact_goal_texts")

    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert of `tasks/expert.py`."""
        from homerl.envs.simuhome.tasks.expert import SimuHomeExpert

        return SimuHomeExpert(seed, config.mistakes, config.styles, config.minimal)

    baselines = late("homerl.envs.simuhome.tasks.expert", "BASELINES")

    def endpoint_agent(self, setting: str) -> Callable[..., Policy] | None:
        """`ReActAgent` for the setting `react`, otherwise None."""
        from homerl.envs.simuhome.tasks.react_agent import ReActAgent

        return ReActAgent if setting == "react" else None

    paraphraser = late("homerl.envs.simuhome.tasks.author", "SimuHomeParaphraser")

    @property
    def suites(self) -> Mapping[str, Suite]:
        """The suite `simuhome`."""
        from homerl.envs.simuhome.bench.suite import SimuHomeSuite

        return {SimuHomeSuite.name: SimuHomeSuite()}

    dimensions = late("homerl.envs.simuhome.bench.cases", "DIMENSIONS")
    failure_of = late("homerl.envs.simuhome.bench.cases", "simuhome_failure")
    cases = late("homerl.envs.simuhome.bench.cases", "simuhome_judge_cases")
    closing_flaws = late("homerl.envs.simuhome.bench.cases", "simuhome_closing_flaws")

    def extra_results(self, trajectory: Trajectory) -> dict[str, Any]:
        """`released`: the result as the paper's released program counts it, which leaves some failures out."""
        from homerl.envs.simuhome.bench.cases import released_verdict

        return {"released": released_verdict(trajectory)}

    def card(self, recipe: Mapping[str, Any]) -> Card:
        """The part of a model card that describes SimuHome: tools and system message, as a recipe sets them."""
        from homerl.envs.simuhome.sim.tools import TOOLS, TOOLSETS
        from homerl.envs.simuhome.tasks.sentences import language_file, system_message

        language = recipe.get("language", "en")
        return Card(
            tools=[TOOLS[name].function_schema() for name in TOOLSETS[recipe.get("toolset", "released")]],
            system=system_message(recipe.get("prompt") or "full", language, "kitchen", "2025-08-23 10:00:00"),
            told="says where the user is and what time it is",
            utterance=language_file(language).example,
            language=language,
        )

    def episode_page(self, trajectory: Trajectory, where: str) -> str:
        """Rooms, devices and calls over virtual time, see `pages.episode`."""
        from homerl.envs.simuhome.pages.episode import render_simuhome_page

        return render_simuhome_page(trajectory)


WORLD = SimuHomeWorld()
