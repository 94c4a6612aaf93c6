"""The sources of blueprints that a recipe can name: a world's own blueprint recipe, a file of blueprints, or a mixture.

Invariants: the key `world` of a mapping selects the model that validates it; the union types cover every known world; which
part of a mixture makes a blueprint is a pure function of the blueprint's seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Discriminator, Field, Tag

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import READS, Model
from homerl.play.trajectory import read_first_row, read_rows
from homerl.play.words.grammar import Split
from homerl.worlds.registry import default_world, known_worlds, read_blueprint


class BlueprintFile(Model):
    """A file of blueprints. Seeds select those of a split in turn, in the file's order."""

    file: Annotated[Path, READS] = Field(description="The file, JSON Lines: one blueprint a line.")

    @property
    def world(self) -> str | None:
        """The world of the file's first blueprint; None if the file does not exist yet, or for the default world."""
        return read_first_row(self.file).get("world")

    def blueprint_of_seed(self, split: Split, seed: int) -> Any:
        """The blueprint of a seed: the seed modulo the number of blueprints of the split selects it.

        Raises `InputError` if the file has no blueprint of the split.
        """
        rows = _rows_of_split(self.file, split)
        if not rows:
            what, remedy = f"no blueprint belongs to the split '{split}'", f"add blueprints with the split '{split}'"
            raise InputError(what, str(self.file), remedy)
        return read_blueprint(rows[seed % len(rows)]).model_copy(update={"seed": seed})


FILE = BlueprintFile.__name__  # its tag; the tag of a world's recipe is the world's name
MIXTURE = "Mixture"


@lru_cache(maxsize=8)
def _rows_of_split(file: Path, split: Split) -> list[dict[str, Any]]:
    return [row for row in read_rows(file) if row.get("split") == split]


def _tag_of_source(data: Any) -> str | None:
    """The tag of the model that validates a source, for pydantic's discriminated union: the name of its world, `FILE` or
    `MIXTURE`.

    None stands for data that is neither a mapping nor a model.
    """
    if "file" in data if isinstance(data, Mapping) else isinstance(data, BlueprintFile):
        return FILE
    if "worlds" in data if isinstance(data, Mapping) else hasattr(data, "worlds"):
        return MIXTURE
    if not isinstance(data, Mapping | Model):
        return None
    name = data.get("world") if isinstance(data, Mapping) else getattr(data, "world", None)
    return default_world().name if name is None else str(name)


def default_recipe() -> Any:
    """The blueprint recipe of the default world with default settings."""
    return default_world().recipe()


if TYPE_CHECKING:
    AnyBlueprintRecipe = Any
    AnyPart = Any
else:
    _recipes = tuple(Annotated[world.recipe, Tag(name)] for name, world in known_worlds().items())
    _file = Annotated[BlueprintFile, Tag(FILE)]
    _remedy = f"write a mapping with `world:` set to one of {', '.join(known_worlds())}"
    _by_kind = Discriminator(_tag_of_source, custom_error_type="no_such_world", custom_error_message=_remedy)
    AnyBlueprintRecipe = Annotated[Union[_recipes], _by_kind]  # noqa: UP007
    AnyPart = Annotated[Union[(*_recipes, _file)], _by_kind]


class MixturePart(Model):
    """A part of a mixture."""

    weight: float = Field(1.0, gt=0, description="How often it is drawn, relative to the other parts.")
    recipe: AnyPart = Field(default_factory=default_recipe, description="The recipe of the part.")


class Mixture(Model):
    """Blueprints of several sources. The seed of a blueprint draws its part."""

    worlds: dict[str, MixturePart] = Field(min_length=1, description="The parts, by names of your own.")

    def part_of(self, seed: int) -> str:
        """The name of the part that makes the blueprint of a seed."""
        weights = [part.weight for part in self.worlds.values()]
        return random.Random(f"part {seed}").choices([*self.worlds], weights)[0]


if TYPE_CHECKING:
    AnyMixedRecipe = Any
    AnyBlueprintSource = Any
else:
    _mixture = Annotated[Mixture, Tag(MIXTURE)]
    AnyMixedRecipe = Annotated[Union[(*_recipes, _mixture)], _by_kind]
    AnyBlueprintSource = Annotated[Union[(*_recipes, _file, _mixture)], _by_kind]
