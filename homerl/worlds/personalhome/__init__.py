"""PersonalHome as a world of homerl: households with memories, questions about them, and plans for them.

Invariant: this module imports nothing heavy. Each part of the world is imported when it is first used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from homerl.play.loop import Agent, Oracle
from homerl.play.situation import Situation
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import Card, Case, CommandLine, ExpertConfig, Failure, Split, Suite, WorldAdapter


class PersonalHomeWorld(WorldAdapter):
    """The world of PersonalHomeBench. Its user speaks once: the first message is the task of the blueprint."""

    name = "personalhome"
    taxonomy = "PersonalHomeBench"
    labels = ("category", "difficulty")  # IG, MC, FR or PG; simple, medium or hard

    @property
    def blueprint(self) -> type:
        """`PersonalHomeBlueprint`."""
        from homerl.worlds.personalhome.blueprint import PersonalHomeBlueprint

        return PersonalHomeBlueprint

    @property
    def recipe(self) -> type:
        """`PersonalHomeRecipe`."""
        from homerl.worlds.personalhome.blueprint import PersonalHomeRecipe

        return PersonalHomeRecipe

    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        """The blueprint of a seed."""
        from homerl.worlds.personalhome.author import make_blueprint

        return make_blueprint(recipe, split, seed, dropped)

    def begin(self, blueprint: Any) -> Situation:
        """The situation of a blueprint before the first call."""
        from homerl.worlds.personalhome.situation import PersonalHomeSituation

        return PersonalHomeSituation.begin(blueprint)

    def language_of(self, recipe: Mapping[str, Any]) -> str:
        """The language of the households."""
        language: str = recipe.get("language") or recipe.get("household", {}).get("language", "en")
        return language

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        """The number of appliances and sensors of the blueprint's household."""
        return len(blueprint["household"]["home"]["devices"])

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        """What must be read, and what the answer must say."""
        from homerl.worlds.personalhome.verdicts import goals_in_words

        return goals_in_words(blueprint)

    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert of `expert.py`."""
        from homerl.worlds.personalhome.expert import PersonalHomeExpert

        return PersonalHomeExpert(seed, config.mistakes)

    @property
    def llm_author(self) -> Callable[..., Any]:
        """Writes households with an LLM, see `llm_author.py`."""
        from homerl.worlds.personalhome.llm_author import author_blueprint

        return author_blueprint

    @property
    def baselines(self) -> Mapping[str, Callable[[], Agent]]:
        """The expert, and agents that no suite may reward."""
        from homerl.worlds.personalhome.baselines import BASELINES

        return BASELINES

    @property
    def suites(self) -> Mapping[str, Suite]:
        """The suites `personalhome-bench` and, with videos, `personalhome-scenes`."""
        from homerl.worlds.personalhome.bench.scenes import ScenesSuite
        from homerl.worlds.personalhome.bench.suite import PersonalHomeSuite

        return {suite.name: suite() for suite in (PersonalHomeSuite, ScenesSuite)}

    @property
    def dimensions(self) -> Mapping[str, str]:  # type: ignore[override]
        """The paper's error types (F.1)."""
        from homerl.worlds.personalhome.bench.results import DIMENSIONS

        return DIMENSIONS

    def failure_of(self, trajectory: Trajectory) -> Failure | None:
        """The error type to which a failure belongs, or None for a success."""
        from homerl.worlds.personalhome.bench.results import failure_of

        return failure_of(trajectory)

    def cases(self, trajectory: Trajectory) -> list[Case]:
        """The answers to a grounding task that a judge of meaning may decide."""
        from homerl.worlds.personalhome.bench.results import cases

        return cases(trajectory)

    def holds_with(self, trajectory: Trajectory, right: Mapping[int, int]) -> bool:
        """Whether every part of the task is right, by rule or by the judge."""
        from homerl.worlds.personalhome.bench.results import holds_with

        return holds_with(trajectory, right)

    def false_claims(self, trajectory: Trajectory) -> None:
        """None: an answer is data, and does nothing in the household."""

    def extra_results(self, trajectory: Trajectory) -> dict[str, Any]:
        """The metrics of the task (PersonalHomeBench F.2), its errors and its number of calls."""
        from homerl.worlds.personalhome.bench.results import extra_results

        return extra_results(trajectory)

    def card(self, recipe: Mapping[str, Any]) -> Card:
        """The part of a model card that describes this world."""
        from homerl.worlds.personalhome.card import card

        return card(recipe)

    def episode_page(self, trajectory: Trajectory, where: str) -> str:
        """The household, and what the episode read of it, see `pages.household_page`."""
        from homerl.worlds.personalhome.pages.household_page import render_household
        from homerl.worlds.personalhome.pages.replay import replayed

        replay = replayed(trajectory, where)
        return render_household(replay.blueprint.household, replay)

    def commands(self, cli: CommandLine) -> None:
        """Add `homerl personalhome` and `homerl view personalhome`."""
        from homerl.worlds.personalhome.commands import add

        add(cli)


WORLD = PersonalHomeWorld()
