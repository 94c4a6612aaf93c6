"""PersonalHome as a world of homerl: households with memories, questions about them, and plans for them.

Invariant: this module imports nothing heavy. Each part of the world is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.core.plugins import late
from homerl.play.loop import Oracle
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import Card, ExpertConfig, Suite, WorldAdapter


class PersonalHomeWorld(WorldAdapter):
    """The world of PersonalHomeBench. Its user speaks once: the first message is the task of the blueprint."""

    name = "personalhome"
    taxonomy = "PersonalHomeBench"
    labels = ("category", "difficulty")  # IG, MC, FR or PG; simple, medium or hard

    blueprint = late("homerl.envs.personalhome.tasks.blueprint", "PersonalHomeBlueprint")
    recipe = late("homerl.envs.personalhome.tasks.blueprint", "PersonalHomeRecipe")
    make_blueprint = late("homerl.envs.personalhome.tasks.author", "make_personalhome_blueprint")
    begin = late("homerl.envs.personalhome.tasks.situation", "PersonalHomeSituation.begin")

    def language_of(self, recipe: Mapping[str, Any]) -> str:
        """The language of the households."""
        language: str = recipe.get("language") or recipe.get("household", {}).get("language", "en")
        return language

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        """The number of appliances and sensors of the blueprint's household."""
        return len(blueprint["household"]["home"]["devices"])

    goals_in_words = late("homerl.envs.personalhome.tasks.situation", "personalhome_goals_in_words")

    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert of `expert.py`."""
        from homerl.envs.personalhome.tasks.expert import PersonalHomeExpert

        return PersonalHomeExpert(seed, config.mistakes)

    llm_author = late("homerl.envs.personalhome.tasks.llm_author", "author_household_blueprint")
    baselines = late("homerl.envs.personalhome.tasks.expert", "BASELINES")

    @property
    def suites(self) -> Mapping[str, Suite]:
        """The suites `personalhome-bench` and, with videos, `personalhome-scenes`."""
        from homerl.envs.personalhome.bench.suite import PersonalHomeSuite, ScenesSuite

        return {suite.name: suite() for suite in (PersonalHomeSuite, ScenesSuite)}

    dimensions = late("homerl.envs.personalhome.bench.run_results", "DIMENSIONS")
    failure_of = late("homerl.envs.personalhome.bench.run_results", "personalhome_failure")
    cases = late("homerl.envs.personalhome.bench.run_results", "grounding_cases")
    holds_with = late("homerl.envs.personalhome.bench.run_results", "is_grounding_right")

    def closing_flaws(self, trajectory: Trajectory) -> None:
        """None: an answer is data, and does nothing in the household."""

    extra_results = late("homerl.envs.personalhome.bench.run_results", "extra_results")

    def card(self, recipe: Mapping[str, Any]) -> Card:
        """Tools and system message of the first blueprint of a recipe."""
        from homerl.envs.personalhome.tasks.situation import PersonalHomeSituation

        # `recipe` may be a blueprint: only what both have in common counts.
        language = self.language_of(recipe)
        known = {key: recipe[key] for key in self.recipe.model_fields if key in recipe} | {"world": self.name}
        made = self.recipe.model_validate({**known, "household": {"language": language}})
        blueprint = self.make_blueprint(made, "train", 0)
        situation = PersonalHomeSituation.begin(blueprint)
        return Card(
            tools=situation.world.tools,
            system=situation.opening()[0]["content"],
            told="says how to look around in the household and in which form to answer",
            utterance=blueprint.intents[0].queries[0],
            language=language,
            answers="in JSON or in tool calls;\nrun the calls and append what they return as `tool` messages",
        )

    def episode_page(self, trajectory: Trajectory, where: str) -> str:
        """The household, and what the episode read of it, see `pages.household_page`."""
        from homerl.envs.personalhome.pages.household_page import render_household, replay_episode

        replay = replay_episode(trajectory, where)
        return render_household(replay.blueprint.household, replay)


WORLD = PersonalHomeWorld()
