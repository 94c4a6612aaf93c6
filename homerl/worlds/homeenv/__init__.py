"""The world HomeEnv (HomeFlow 3.2, 3.3): homes with devices, automations and weather, and users who make requests in
words.

Invariant: importing this module loads nothing heavy; each part is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from envs.plugins import late
from homerl.play.loop import Oracle
from homerl.worlds.contract import ExpertConfig, FileFormat, Suite, WorldAdapter
from homerl.worlds.visits import Visits


class HomeEnvWorld(WorldAdapter):
    """The world of HomeFlow and SMH-Bench. It is the default world: blueprints that name no world belong to it."""

    name = "homeenv"
    is_default = True
    users = ("scripted", "llm")
    taxonomy = "SMH-Bench"

    blueprint = late("homerl.worlds.homeenv.blueprints.blueprint", "Blueprint")
    recipe = late("homerl.worlds.homeenv.blueprints.author", "BlueprintRecipe")
    make_blueprint = late("homerl.worlds.homeenv.blueprints.author", "make_blueprint")
    begin = late("homerl.worlds.homeenv.situation", "HomeSituation.begin")

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

        return Expert(seed, config.mistakes, config.styles, config.minimal, config.slips)

    baselines = late("homerl.worlds.homeenv.agents.roster", "BASELINES")
    first = late("homerl.worlds.homeenv.agents.roster", "FIRST")

    @property
    def visits(self) -> Visits:
        """Homes in which a person talks with an agent, see `visits`."""
        from homerl.worlds.homeenv.visits.host import HomeVisits

        return HomeVisits()

    persona = late("homerl.worlds.homeenv.persona", "HomePersona")
    paraphraser = late("homerl.worlds.homeenv.paraphrase", "HomeParaphraser")
    llm_author = late("homerl.worlds.homeenv.blueprints.llm_author", "author_blueprint")
    role_play = late("homerl.worlds.homeenv.roleplay", "role_play")

    @property
    def suites(self) -> Mapping[str, Suite]:
        """SmartHome-Bench and SMH-Bench, see `bench.suites`; and a person's own homes, see `bench.own_home`."""
        from homerl.worlds.homeenv.bench.own_home import OWN_HOME
        from homerl.worlds.homeenv.bench.suites import SUITES

        return {**SUITES, OWN_HOME.name: OWN_HOME}

    dimensions = late("homerl.worlds.homeenv.bench.failures", "DIMENSIONS")
    failure_of = late("homerl.worlds.homeenv.bench.failures", "failure_of")
    cases = late("homerl.worlds.homeenv.bench.cases", "cases")
    false_claims = late("homerl.worlds.homeenv.bench.cases", "false_claims")
    holds_with = late("homerl.worlds.homeenv.bench.cases", "holds_with")
    card = late("homerl.worlds.homeenv.card", "card")

    def formats(self) -> Mapping[str, FileFormat]:
        """Blueprint, home and device files."""
        from homerl.worlds.homeenv.formats import FORMATS

        return FORMATS

    episode_page = late("homerl.worlds.homeenv.pages.episode", "render_page")


WORLD = HomeEnvWorld()
