"""HomeEnv's homes as a person visits them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from homerl.envs.core.documents import Document, InputError, validate_document
from homerl.envs.homeenv.agents.roster import BASELINES
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.pages.home import HomeView
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json, load_home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Profile
from homerl.envs.homeenv.tasks.situation import HomeSituation
from homerl.envs.homeenv.visits.changes import find_visit_changes
from homerl.envs.homeenv.visits.listing import list_home_devices
from homerl.host.pages.templates import load_template
from homerl.play.loop import Agent
from homerl.worlds.visits import DrawingStyle, HomeChange, Visits

PAGES = Path(__file__).parents[1] / "pages"
NEEDS_TASK = ("expert",)  # baselines that hold the plan of a task, and understand no words
SOMEBODY = Profile(
    name="somebody", age=0, gender="", height_cm=0, weight_kg=0, health="", habits=(), preferences={}
)  # nobody knows who speaks


class HomeVisits(Visits):
    """A home of a file, or one that a seed makes by the recipe."""

    def blueprint(self, recipe: Mapping[str, Any], home: Path | None, seed: int) -> Blueprint:
        """The visit of a home, with the recipe's tools, prompt and language."""
        toolset = recipe.get("toolset") or "homeflow"
        if toolset not in TOOLSETS:
            raise InputError(f"there is no toolset '{toolset}' here", "toolset", "HOMERL_TOOLSETS must name its folder")
        told = recipe.get("home") or {}
        found = load_home(home) if home else _home_of(told, seed)
        return Blueprint(
            id=f"visit-{seed}", seed=seed, split="heldout", profile=SOMEBODY, scene="", home=home_to_json(found), visit=True,
            intents=(), preserve=False, toolset=toolset, prompt=recipe.get("prompt") or "brief",
            language=recipe.get("language") or told.get("language") or "en",
        )  # fmt: skip

    @property
    def agents(self) -> Mapping[str, Callable[[], Agent]]:
        """The baselines, without those that need a task."""
        return {name: agent for name, agent in BASELINES.items() if name not in NEEDS_TASK}

    def listed(self, situation: HomeSituation) -> RenderableType:
        """The rooms and devices, see `listing`."""
        return list_home_devices(_view(situation.home))

    def drawn(self, situation: HomeSituation) -> str:
        """The home as its page draws it (`pages.home`)."""
        return str(_template("home_alone.html.jinja").render(view=_view(situation.home)))

    @property
    def look(self) -> DrawingStyle:
        """The style and the icons of the page of homes."""
        css, icons = ((PAGES / name).read_text(encoding="utf-8") for name in ("home.css", "icons.svg"))
        return DrawingStyle(css, icons)

    def changes(self, before: HomeSituation, after: HomeSituation) -> Iterator[HomeChange]:
        """The changes of devices and automations, see `changes`."""
        return find_visit_changes(before.home, after.home)


def _home_of(told: Mapping[str, Any], seed: int) -> Home:
    """The home of a blueprint, or the home of a seed by a recipe of homes."""
    if "outdoors" in told:  # a home, and no recipe of homes
        return home_from_json(told, "the home of the run's first blueprint")
    return make_home(seed, validate_document(HomeRecipe, Document("the recipe's homes", dict(told), {})))


def _view(home: Home) -> HomeView:
    return HomeView("h1", "Home", home)


@cache
def _template(name: str) -> Any:
    return load_template(PAGES / name)
