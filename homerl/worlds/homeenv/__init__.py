"""The world HomeEnv (HomeFlow 3.2, 3.3): homes with devices, automations and weather, and users who make requests in
words.

Invariant: importing this module loads nothing heavy; each part is imported on first use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from homerl.play.episode import Episode
from homerl.play.loop import Agent, Oracle
from homerl.play.situation import Situation
from homerl.play.trajectory import Trajectory
from homerl.worlds.contract import (
    Card,
    Case,
    CommandLine,
    ExpertConfig,
    Failure,
    FileFormat,
    Persona,
    Split,
    Suite,
    WorldAdapter,
)
from homerl.worlds.visits import Visits


class HomeEnvWorld(WorldAdapter):
    """The world of HomeFlow and SMH-Bench. It is the default world: blueprints that name no world belong to it."""

    name = "homeenv"
    is_default = True
    users = ("scripted", "llm")
    taxonomy = "SMH-Bench"

    @property
    def blueprint(self) -> type:
        """The model of HomeEnv blueprints."""
        from homerl.worlds.homeenv.blueprints.blueprint import Blueprint

        return Blueprint

    @property
    def recipe(self) -> type:
        """The model of HomeEnv blueprint recipes."""
        from homerl.worlds.homeenv.blueprints.author import BlueprintRecipe

        return BlueprintRecipe

    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        """The blueprint of a seed, see `blueprints.author`."""
        from homerl.worlds.homeenv.blueprints.author import make_blueprint

        return make_blueprint(recipe, split, seed, dropped)

    def begin(self, blueprint: Any) -> Situation:
        """The home of a blueprint at its start, see `situation`."""
        from homerl.worlds.homeenv.situation import HomeSituation

        return HomeSituation.begin(blueprint)

    @property
    def tell(self) -> Callable[..., Any]:
        """Tells wishes other than at once, see `blueprints.behaviours`."""
        from homerl.language.splits import Voice
        from homerl.worlds.homeenv.blueprints.behaviours import with_behaviours

        def tell(blueprint: Any, behaviours: Any, recipe: Any) -> Any:
            return with_behaviours(blueprint, behaviours, getattr(recipe, "voice", None) or Voice(blueprint.language))

        return tell

    def language_of(self, recipe: Mapping[str, Any]) -> str:
        """The language of the recipe's homes."""
        language: str = recipe.get("home", {}).get("language", "en")
        return language

    def out_of_reach(self, recipe: Any) -> Iterable[str]:
        """The products of the recipe's homes that no tool of its toolset reaches."""
        from envs.homeenv.toolsets import TOOLSETS
        from envs.homemaker.make import products_of

        beyond = TOOLSETS[recipe.toolset].beyond
        return (spec.name for spec in products_of(recipe.home) if beyond(spec)) if beyond else ()

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        """The number of devices in the blueprint's home."""
        return len(blueprint["home"]["devices"])

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        """Each goal of the blueprint in words."""
        from homerl.worlds.homeenv.blueprints.goals import describe_goals

        return (text for intent in blueprint["intents"] for text in describe_goals(intent))

    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert, see `agents.expert`."""
        from homerl.worlds.homeenv.agents.expert import Expert

        return Expert(seed, config.mistakes, config.styles, config.minimal)

    @property
    def baselines(self) -> Mapping[str, Callable[[], Agent]]:
        """The agents that need no model, see `agents.roster`."""
        from homerl.worlds.homeenv.agents.roster import BASELINES

        return BASELINES

    @property
    def visits(self) -> Visits:
        """Homes in which a person talks with an agent, see `visits`."""
        from homerl.worlds.homeenv.visits.host import HomeVisits

        return HomeVisits()

    def persona(self, episode: Episode) -> Persona:
        """The person of an episode, see `persona`."""
        from homerl.worlds.homeenv.persona import HomePersona

        return HomePersona(episode)

    @property
    def paraphraser(self) -> type:
        """Rewords queries and checks that their meaning is kept, see `paraphrase`."""
        from homerl.worlds.homeenv.paraphrase import HomeParaphraser

        return HomeParaphraser

    @property
    def llm_author(self) -> Callable[..., Any]:
        """Writes blueprints with an LLM, see `blueprints.llm_author`."""
        from homerl.worlds.homeenv.blueprints.llm_author import author_blueprint

        return author_blueprint

    @property
    def role_play(self) -> Callable[..., Any]:
        """The strategy m1, see `roleplay`."""
        from homerl.worlds.homeenv.roleplay import role_play

        return role_play

    @property
    def suites(self) -> Mapping[str, Suite]:
        """SmartHome-Bench and SMH-Bench, see `bench.suites`; and a person's own homes, see `bench.own_home`."""
        from homerl.worlds.homeenv.bench.own_home import OWN_HOME
        from homerl.worlds.homeenv.bench.suites import SUITES

        return {**SUITES, OWN_HOME.name: OWN_HOME}

    @property
    def dimensions(self) -> Mapping[str, str]:  # type: ignore[override]
        """The error dimensions of SMH-Bench."""
        from homerl.worlds.homeenv.bench.failures import DIMENSIONS

        return DIMENSIONS

    def failure_of(self, trajectory: Trajectory) -> Failure | None:
        """The error in SMH-Bench's taxonomy, see `bench.failures`."""
        from homerl.worlds.homeenv.bench.failures import failure_of

        return failure_of(trajectory)

    def cases(self, trajectory: Trajectory) -> list[Case]:
        """The answers and clarifying questions that a judge may rate, see `bench.cases`."""
        from homerl.worlds.homeenv.bench.cases import cases

        return cases(trajectory)

    def false_claims(self, trajectory: Trajectory) -> int:
        """The false claims, by the goals on the home, see `bench.cases`."""
        from homerl.worlds.homeenv.bench.cases import false_claims

        return false_claims(trajectory)

    def holds_with(self, trajectory: Trajectory, right: Mapping[int, int]) -> bool:
        """Whether the episode is a success with the accepted answers, see `bench.cases`."""
        from homerl.worlds.homeenv.bench.cases import holds_with

        return holds_with(trajectory, right)

    def card(self, recipe: Mapping[str, Any]) -> Card:
        """An example home with the recipe's toolset, see `card`."""
        from homerl.worlds.homeenv.card import card

        return card(recipe)

    def formats(self) -> Mapping[str, FileFormat]:
        """Blueprint, home and device files."""
        from homerl.worlds.homeenv.formats import FORMATS

        return FORMATS

    def episode_page(self, trajectory: Trajectory, where: str) -> str:
        """The dialogue beside the home, see `pages.episode`."""
        from homerl.worlds.homeenv.pages.episode import render_page

        return render_page(trajectory, where)

    def commands(self, cli: CommandLine) -> None:
        """Add the commands of `commands`."""
        from homerl.worlds.homeenv.commands import add

        add(cli)


WORLD = HomeEnvWorld()
