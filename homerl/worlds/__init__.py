"""What a blueprint is about in each world: the border between the loop that plays and the worlds that it knows.

Invariants: episodes, play, search and training see a `Situation` and nothing of the world behind it; a blueprint says
which world it is of (`world`; HomeEnv's, which were first, need not), and nothing else decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self

from pydantic import Discriminator, Tag

from envs.documents import InputError
from envs.model import Model
from envs.world import Action, World
from homerl.blueprints.author import BlueprintRecipe
from homerl.blueprints.author import make_blueprint as make_homeenv
from homerl.blueprints.blueprint import Blueprint
from homerl.trajectory import read_rows
from homerl.worlds.simuhome.blueprint import SimuHomeBlueprint, SimuHomeRecipe

if TYPE_CHECKING:
    from homerl.episode import Reply
    from homerl.flow.config import ExpertConfig
    from homerl.play import Agent
    from homerl.trajectory import Message

Split = Literal["train", "heldout"]
AnyBlueprint = Blueprint | SimuHomeBlueprint


class Situation(Protocol):
    """A blueprint's world and what is asked for there."""

    world: World
    start: Any  # the home as it was

    def opening(self) -> list[Message]:
        """The messages before the user first speaks: what an agent may know at the start."""

    def fork(self) -> Self:
        """An independent copy."""

    def met(self) -> tuple[bool, ...]:
        """Φ, goal by goal."""

    def open_intents(self) -> list[Any]:
        """Intents of which some goal is not met now, in the blueprint's order."""

    def strayed(self) -> int:
        """How much differs from the start that no intent asked for."""

    @property
    def ended(self) -> bool:
        """Whether the agent has ended the episode by what it did."""

    def stands_for(self, reply: Reply) -> Action | str | None:
        """The call that a message's words stand for, or why they are malformed; None where words are words."""

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """A call takes effect: what the agent sees of it, and the world's info."""

    def heed(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:
        """What an agent's message means beyond its calls; `refusals` are the rules that refused them."""

    def mark(self) -> Any:
        """Something to ask `changed_since` by."""

    def changed_since(self, mark: Any) -> tuple[str, ...]:
        """All that differs, as text."""

    def wait(self, seconds: int) -> None:
        """Let time pass."""

    def state_key(self) -> str:
        """An exact hash of physical state."""


def is_simuhome(data: Any) -> bool:
    return (data.get("world") if isinstance(data, Mapping) else getattr(data, "world", None)) == "simuhome"


def begin(blueprint: AnyBlueprint) -> Situation:
    """The situation at the start."""
    if is_simuhome(blueprint):
        from homerl.worlds.simuhome.situation import SimuHomeSituation

        return SimuHomeSituation.begin(blueprint)
    from homerl.worlds.homeenv import HomeSituation

    return HomeSituation.begin(blueprint)


def read_blueprint(data: Mapping[str, Any]) -> AnyBlueprint:
    """A blueprint from plain data."""
    return (SimuHomeBlueprint if is_simuhome(data) else Blueprint).model_validate(data)


def count_devices(blueprint: Mapping[str, Any]) -> int:
    """How many devices the home of a blueprint (as plain data) has."""
    home = blueprint["home"]
    return sum(len(room["devices"]) for room in home["rooms"].values()) if is_simuhome(blueprint) else len(home["devices"])


def labels(blueprint: AnyBlueprint) -> dict[str, str]:
    """What results are counted by, beside families: SimuHome's columns. HomeEnv's may hold tasks of several kinds."""
    return {"category": blueprint.category} if is_simuhome(blueprint) else {}


# Recipes


class BlueprintFile(Model):
    """Blueprints that stand in a file, one a line, of any world: seeds go round those of the split, in the file's order."""

    file: Path

    @property
    def world(self) -> str | None:
        """That of its first line; none yet where there is no file."""
        first = next(iter(read_rows(self.file)), {}) if self.file.is_file() else {}
        return first.get("world")

    def take(self, split: Split, seed: int) -> AnyBlueprint:
        found = _lines(self.file, split)
        if not found:
            raise InputError(f"no blueprint is of the split '{split}'", str(self.file), "give some lines that `split`")
        return read_blueprint(found[seed % len(found)]).model_copy(update={"seed": seed})


@lru_cache(maxsize=8)
def _lines(file: Path, split: Split) -> list[dict[str, Any]]:
    return [row for row in read_rows(file) if row.get("split") == split]


def _kind(data: Any) -> str:
    if "file" in data if isinstance(data, Mapping) else isinstance(data, BlueprintFile):
        return "BlueprintFile"
    return "SimuHomeRecipe" if is_simuhome(data) else "BlueprintRecipe"


HomeEnvTag = Annotated[BlueprintRecipe, Tag("BlueprintRecipe")]
SimuHomeTag = Annotated[SimuHomeRecipe, Tag("SimuHomeRecipe")]
AnyBlueprintRecipe = Annotated[HomeEnvTag | SimuHomeTag, Discriminator(_kind)]
FileTag = Annotated[BlueprintFile, Tag("BlueprintFile")]
AnyBlueprintSource = Annotated[HomeEnvTag | SimuHomeTag | FileTag, Discriminator(_kind)]


def make_blueprint(recipe: Any, split: Split, seed: int, dropped: Counter | None = None) -> AnyBlueprint:
    """The blueprint of a seed."""
    if isinstance(recipe, BlueprintFile):
        return recipe.take(split, seed)
    if is_simuhome(recipe):
        from homerl.worlds.simuhome.author import make_blueprint as make_simuhome

        return make_simuhome(recipe, split, seed, dropped)
    return make_homeenv(recipe, split, seed, dropped)


def expert_for(blueprint: AnyBlueprint, config: ExpertConfig, seed: int) -> Agent:
    """The scripted expert of a blueprint's world."""
    if is_simuhome(blueprint):
        from homerl.worlds.simuhome.agents import Expert as SimuHomeExpert

        return SimuHomeExpert(seed, config.mistakes, config.styles, config.minimal)
    from homerl.agents.expert import Expert

    return Expert(seed, config.mistakes, config.styles, config.minimal)
