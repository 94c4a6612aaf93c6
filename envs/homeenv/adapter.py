"""The world HomeEnv (HomeFlow 3.2, 3.3): homes with devices, automations and weather, and users who make requests in
words.

Invariant: importing this module loads nothing heavy; each part is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from homerl.envs.core.plugins import late
from homerl.play.loop import Oracle
from homerl.worlds.contract import ExpertConfig, FileFormat, Suite, WorldAdapter
from homerl.worlds.visit_contract import Visits


class HomeEnvWorld(WorldAdapter):
    """The world of HomeFlow and SMH-Bench. It is the default world: blueprints that name no world belong to it."""

    name = "homeenv"
    is_default = True
    users = ("scripted", "llm")
    taxonomy = "SMH-Bench"

    blueprint = late("homerl.envs.homeenv.tasks.blueprint", "Blueprint")
    recipe = late("homerl.envs.homeenv.tasks.author", "BlueprintRecipe")
    make_blueprint = late("homerl.envs.homeenv.tasks.author", "make_home_blueprint")
    begin = late("homerl.envs.homeenv.tasks.situation", "HomeSituation.from_blueprint")
    tell = late("homerl.envs.homeenv.tasks.drawn_behaviours", "draw_courses_of_wishes")

    def language_of(self, recipe: Mapping[str, Any]) -> str:
        """The language of the recipe's homes."""
        language: str = recipe.get("home", {}).get("language", "en")
        return language

    def out_of_reach(self, recipe: Any) -> Iterable[str]:
        """The products of the recipe's homes that no tool of its toolset reaches."""
        from homerl.envs.homeenv.maker.make import allowed_products
        from homerl.envs.homeenv.sim.toolsets import TOOLSETS

        beyond = TOOLSETS[recipe.toolset].beyond
        return (spec.name for spec in allowed_products(recipe.home) if beyond(spec)) if beyond else ()

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        """The number of devices in the blueprint's home."""
        return len(blueprint["home"]["devices"])

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        """Each goal of the blueprint in words."""
        from homerl.envs.homeenv.tasks.goals import describe_goals

        return (text for intent in blueprint["intents"] for text in describe_goals(intent))

    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert, see `agents.expert`."""
        from homerl.envs.homeenv.agents.expert import Expert

        return Expert(seed, config.mistakes, config.styles, config.minimal, config.slips)

    baselines = late("homerl.envs.homeenv.agents", "BASELINES")

    @property
    def visits(self) -> Visits:
        """Homes in which a person talks with an agent, see `visits`."""
        from homerl.envs.homeenv.visits import HomeVisits

        return HomeVisits()

    @property
    def plugin_checks(self) -> Mapping[str, Callable[[str], None]]:
        """Toolsets are this world's own."""
        from homerl.envs.homeenv.maker.toolset_check import check_toolset

        return {"toolsets": check_toolset}

    persona = late("homerl.envs.homeenv.tasks.persona", "HomePersona")
    paraphraser = late("homerl.envs.homeenv.tasks.paraphrase", "HomeParaphraser")
    llm_author = late("homerl.envs.homeenv.tasks.llm_author", "author_home_blueprint")
    role_play = late("homerl.envs.homeenv.tasks.role_play", "role_play")

    @property
    def suites(self) -> Mapping[str, Suite]:
        """SmartHome-Bench and SMH-Bench, and a person's own homes."""
        from homerl.envs.homeenv.bench.suite import OWN_HOME, SUITES

        return {**SUITES, OWN_HOME.name: OWN_HOME}

    dimensions = late("homerl.envs.homeenv.bench.cases", "DIMENSIONS")
    failure_of = late("homerl.envs.homeenv.bench.cases", "classify_home_failure")
    cases = late("homerl.envs.homeenv.bench.cases", "collect_home_cases")
    closing_flaws = late("homerl.envs.homeenv.bench.cases", "home_closing_flaws")
    dangerous_acts = late("homerl.envs.homeenv.bench.dangerous_acts", "count_dangerous_acts")
    holds_with = late("homerl.envs.homeenv.bench.cases", "has_met_home_goals")
    card = late("homerl.envs.homeenv.card", "build_home_card")

    def formats(self) -> Mapping[str, FileFormat]:
        """Blueprint, home and device files."""
        from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec
        from homerl.envs.homeenv.sim.home_file import FORMAT as HOME
        from homerl.envs.homeenv.sim.home_file import HomeRecord
        from homerl.envs.homeenv.tasks.blueprint import FORMAT as BLUEPRINT
        from homerl.envs.homeenv.tasks.blueprint import Blueprint

        return {
            "blueprint": FileFormat(BLUEPRINT, Blueprint, {("properties", "home"): "home"}),
            # The specs of a home are devices, or digests of devices.
            "home": FileFormat(HOME, HomeRecord, {("properties", "specs", "additionalProperties"): "device"}),
            "device": FileFormat(1, DeviceSpec),
        }

    episode_page = late("homerl.envs.homeenv.pages.episode", "render_home_episode")


WORLD = HomeEnvWorld()
