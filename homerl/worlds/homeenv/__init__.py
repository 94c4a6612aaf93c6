"""HomeEnv as a world to play in (HomeFlow 3.2, 3.3): homes with devices, automations and weather, asked in words.

Invariant: this file imports nothing heavy; every part is loaded when it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from homerl.play.episode import Episode
from homerl.play.loop import Agent, Oracle
from homerl.play.situation import Situation
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import Card, Case, ExpertConfig, Failure, FileFormat, Persona, Split, Suite, WorldAdapter


class HomeEnvWorld(WorldAdapter):
    """The world of HomeFlow and SMH-Bench, and of blueprints that name none: they were first."""

    name = "homeenv"
    is_default = True
    users = ("scripted", "llm")
    taxonomy = "SMH-Bench"

    @property
    def blueprint(self) -> type:
        from homerl.worlds.homeenv.blueprints.blueprint import Blueprint

        return Blueprint

    @property
    def recipe(self) -> type:
        from homerl.worlds.homeenv.blueprints.author import BlueprintRecipe

        return BlueprintRecipe

    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        from homerl.worlds.homeenv.blueprints.author import make_blueprint

        return make_blueprint(recipe, split, seed, dropped)

    def begin(self, blueprint: Any) -> Situation:
        from homerl.worlds.homeenv.situation import HomeSituation

        return HomeSituation.begin(blueprint)

    def language_of(self, recipe: Mapping[str, Any]) -> str:
        return recipe.get("home", {}).get("language", "en")

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        from homerl.worlds.homeenv.blueprints.goals import describe_goals

        return (text for intent in blueprint["intents"] for text in describe_goals(intent))

    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        from homerl.worlds.homeenv.agents.expert import Expert

        return Expert(seed, config.mistakes, config.styles, config.minimal)

    @property
    def baselines(self) -> Mapping[str, Callable[[], Agent]]:
        from homerl.worlds.homeenv.agents.roster import BASELINES

        return BASELINES

    def persona(self, episode: Episode) -> Persona:
        from homerl.worlds.homeenv.persona import HomePersona

        return HomePersona(episode)

    @property
    def paraphraser(self) -> type:
        from homerl.worlds.homeenv.language.paraphrase import HomeParaphraser

        return HomeParaphraser

    @property
    def llm_author(self) -> Callable[..., Any]:
        from homerl.worlds.homeenv.blueprints.llm_author import author_blueprint

        return author_blueprint

    @property
    def role_play(self) -> Callable[..., Any]:
        from homerl.worlds.homeenv.roleplay import role_play

        return role_play

    @property
    def suites(self) -> Mapping[str, Suite]:
        from homerl.worlds.homeenv.bench.suites import SUITES

        return SUITES

    @property
    def dimensions(self) -> Mapping[str, str]:  # type: ignore[override]
        from homerl.worlds.homeenv.bench.failures import DIMENSIONS

        return DIMENSIONS

    def failure_of(self, trajectory: Trajectory) -> Failure | None:
        from homerl.worlds.homeenv.bench.failures import failure_of

        return failure_of(trajectory)

    def cases(self, trajectory: Trajectory) -> list[Case]:
        from homerl.worlds.homeenv.bench.cases import cases

        return cases(trajectory)

    @property
    def rubrics(self) -> Mapping[str, str]:
        from homerl.worlds.homeenv.bench.cases import RUBRICS

        return RUBRICS

    def holds_with(self, trajectory: Trajectory, right: Mapping[int, int]) -> bool:
        from homerl.worlds.homeenv.bench.cases import holds_with

        return holds_with(trajectory, right)

    def card(self, recipe: Mapping[str, Any]) -> Card:
        from homerl.worlds.homeenv.card import card

        return card(recipe)

    def formats(self) -> Mapping[str, FileFormat]:
        from homerl.worlds.homeenv.formats import FORMATS

        return FORMATS

    def commands(self, app: Any, view: Any) -> None:
        from homerl.worlds.homeenv.commands import add

        add(app, view)


WORLD = HomeEnvWorld()
