"""How a person visits the homes of a world, to talk with an agent there: what a world offers `homerl chat`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homerl.play.loop import Agent

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class HomeChange:
    """What became other in a home, in people's words. `owner` is the id under which the drawing shows the `thing`.

    `what` is empty for what a thing mainly is, such as on or off. `before` is empty if the thing had no such value.
    """

    owner: str
    thing: str
    what: str
    before: str
    after: str

    @property
    def describe_change(self) -> str:
        """The change without the thing: `brightness 20 % → 80 %`."""
        values = f"{self.before} → {self.after}" if self.before else self.after
        return f"{self.what} {values}".strip()


@dataclass(frozen=True)
class DrawingStyle:
    """What drawings of a world share in a page: its CSS, and the HTML of symbols that they refer to."""

    css: str
    symbols: str


class Visits(ABC):
    """How a person visits the homes of a world, to talk with an agent there (`homerl chat`).

    Situations are those of this world. A visit is played from a blueprint without intents, so that it is stored and replayed
    like any episode. Nothing here changes a home. A drawing escapes all text and needs no network.
    """

    @abstractmethod
    def blueprint(self, recipe: Mapping[str, Any], home: Path | None, seed: int) -> Any:
        """The blueprint of a visit: without intents, in the home of a file, or in the home that the seed makes.

        `recipe` is a recipe of blueprints or one of these, as plain data; it may be empty. Raises `InputError` if the file
        or the recipe cannot be used.
        """

    @property
    @abstractmethod
    def agents(self) -> Mapping[str, Callable[[], Agent]]:
        """The agents that need no model and understand a person, by name."""

    @abstractmethod
    def listed(self, situation: Any) -> RenderableType:
        """The home for the terminal."""

    @abstractmethod
    def drawn(self, situation: Any) -> str:
        """The home as HTML. What belongs to the thing with the id X has the attribute `data-did="X"`."""

    @property
    @abstractmethod
    def look(self) -> DrawingStyle:
        """What all drawings share."""

    @abstractmethod
    def changes(self, before: Any, after: Any) -> Iterator[HomeChange]:
        """What differs between two situations of one home."""

    def suggestions(self, situation: Any) -> Sequence[str]:
        """A few sentences that a person may say in this home as it is now; none, by default."""
        return ()
