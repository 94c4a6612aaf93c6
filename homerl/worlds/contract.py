"""The World contract: all that homerl asks of a world, which the world's folder provides whole.

Invariants: no room outside `worlds/` knows a world by name; what a world leaves out has a default that is right for a
world of tool calls and checkable goals; importing a world's package is cheap, since its parts are loaded when asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

from envs.model import Model
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Agent, Oracle, Policy
from homerl.play.situation import Situation
from homerl.play.trajectory import Trajectory

Split = Literal["train", "heldout"]
Progress = Callable[[int, int], None]


class ExpertConfig(Model):
    """How the scripted expert works and errs."""

    mistakes: float = Field(0.25, description="Probability (0 to 1) that a message has a mistake, one that models make.")
    styles: dict[str, float] = Field(
        {"snippet": 1.0},
        description="Weights of how it works: `snippet` makes all calls at once, `stepwise` one call a message, "
        "`query_first` reads a device before it acts.",
    )
    minimal: bool = Field(
        False, description="Whether it leaves out calls that would change nothing, and reads that only prepare an act."
    )


@dataclass(frozen=True)
class Failure:
    """Why an episode failed: a dimension of the world's error taxonomy, and a type in words."""

    dimension: str
    type: str


@dataclass(frozen=True)
class Case:
    """Something said that may be judged, at which step, and what the rules make of it. `kind` names its rubric."""

    step: int
    intent: int
    kind: str
    asked: str
    wanted: str
    said: str
    rule: str  # "right", "wrong", "silent" or "undecided"


@dataclass(frozen=True)
class Card:
    """What a model card shows of a world: an example that can be run, in which language agents are told, and how they
    answer ("The model answers ...")."""

    tools: Sequence[Mapping[str, Any]]
    system: str
    told: str  # "The system prompt ..."
    utterance: str = "Turn on the kitchen ceiling light."
    language: str = "en"
    answers: str = "in words or in tool calls;\nrun the calls and append what they return as `tool` messages"


@dataclass(frozen=True)
class FileFormat:
    """A kind of file with a JSON Schema: its version, the type that checks it, and `refs`, the kinds that parts of it are
    (key below `properties`, or a path of keys, to kind)."""

    version: int
    model: Any
    refs: Mapping[tuple[str, ...], str] = field(default_factory=dict)


class NoBlueprint(Exception):
    """An LLM author's drafts for a seed were all dropped."""


class Instance(Protocol):
    """One task of a suite: its blueprint, and under which limits it is played in a setting."""

    id: str
    blueprint: Any

    def blueprint_for(self, setting: Any) -> Any: ...

    def limits_for(self, setting: Any) -> EpisodeLimits: ...

    def labels(self) -> dict[str, Any]: ...

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class Suite(ABC):
    """A benchmark: instances that are made from a seed, the default seed's shipped as `shipped` with its checksum."""

    name: str
    settings: tuple[str, ...]
    instance: type[Any]
    shipped: Path
    judge_votes: int = 1

    @abstractmethod
    def build(self, seed: int, language: str, dropped: Counter[str], progress: Progress) -> tuple[int, Iterator[Any]]:
        """(how many instances, the instances in order). What is drawn and not valid is counted in `dropped`."""

    def printed(self) -> Mapping[str, Any]:
        """The paper's figures: `categories`, and `rows` with model, categories and overall in percent. Empty for none."""
        return {}

    def easier_half(self, found: Sequence[Any]) -> list[Any] | None:
        """The easier half of the instances, None where the suite has no such part."""
        return None

    def read_files(self, folder: Path, mended: bool) -> list[Any] | None:
        """Instances from a paper's own released files; None where the suite reads none."""
        return None


class Persona(Protocol):
    """The person of an episode, as an LLM user plays it. `words` are the phrases of its language (`users/manner.py`)."""

    def role(self, words: Any) -> str:
        """Who the person is."""

    def notices(self, words: Any) -> str:
        """What the person perceives around it."""

    def overhears(self, text: str) -> str:
        """An agent's words as the person understands them: devices by their everyday names."""

    def fault(self, text: str, intents: Sequence[Any]) -> tuple[str, str] | None:
        """(reason, what is wrong) of an utterance that a person would not say, or None."""

    def meant(self, text: str, intents: Sequence[Any]) -> Any | None:
        """The one intent that an utterance is about, if its words say so."""

    def on_topic(self, text: str, intent: Any) -> bool | None:
        """Whether an utterance speaks of what an intent is about; None where that cannot be told."""


class WorldAdapter(ABC):
    """A world, for the rest of homerl. What is abstract every world must say; the rest has defaults."""

    name: str
    is_default: bool = False  # whether blueprints and recipes that name no world are of this one
    users: tuple[str, ...] = ("scripted",)  # the kinds of user that can speak in it: `scripted`, `llm`
    taxonomy: str = "homerl"  # whose error taxonomy it is
    dimensions: Mapping[str, str] = {"outcome": "how the episode ended"}  # of that taxonomy, in words

    # Tasks

    @property
    @abstractmethod
    def blueprint(self) -> type[Model]:
        """The model of its blueprints."""

    @property
    @abstractmethod
    def recipe(self) -> type[Model]:
        """The model of its blueprint recipes, with `world: Literal[name]`, which only the default world's may leave out."""

    @abstractmethod
    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        """The blueprint of a seed; drafts that fail a check are counted in `dropped` by reason."""

    @abstractmethod
    def begin(self, blueprint: Any) -> Situation:
        """The situation at the start."""

    def language_of(self, recipe: Mapping[str, Any]) -> str:
        """The language that people speak in blueprints of a recipe (as plain data)."""
        language: str = recipe.get("language", "en")
        return language

    def count_devices(self, blueprint: Mapping[str, Any]) -> int:
        """How many devices the home of a blueprint (as plain data) has."""
        return len(blueprint["home"]["devices"])

    def labels(self, blueprint: Any) -> dict[str, str]:
        """What results are counted by, beside families."""
        return {}

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        """Φ of a blueprint (as plain data), goal by goal, for people."""
        return ()

    # Who plays

    @abstractmethod
    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert, who holds the plan."""

    @property
    def baselines(self) -> Mapping[str, Callable[[], Agent]]:
        """Agents by name that need no model. `expert` is among them."""
        return {"expert": lambda: self.expert(ExpertConfig(mistakes=0.0), 0)}

    def endpoint_agent(self, setting: str) -> Callable[..., Policy] | None:
        """The agent that asks an endpoint in a setting of a suite, where that is not `LLMAgent`.

        It is called with endpoint, temperature and most tokens.
        """
        return None

    def persona(self, episode: Episode) -> Persona:
        """The person of an episode; only worlds whose `users` have `llm` need one."""
        raise NotImplementedError(f"no LLM user can speak in the world '{self.name}'")

    # Synthesis with chat models

    @property
    def paraphraser(self) -> type[Any] | None:
        """A subclass of `flow.paraphrase.Paraphraser`, where queries can be reworded by an LLM."""
        return None

    @property
    def llm_author(self) -> Callable[..., Any] | None:
        """Writes a blueprint with an LLM: `await author(recipe, split, seed, client, attempts, dropped)`."""
        return None

    @property
    def role_play(self) -> Callable[..., Any] | None:
        """Strategy m1: `await role_play(blueprint, agent, client, limits)` gives trajectories and statistics.

        The recipes of a world that has it say `toolset` and `one_answer`: an agent of one answer cannot play.
        """
        return None

    # Benchmarks

    @property
    def suites(self) -> Mapping[str, Suite]:
        """Benchmarks by name."""
        return {}

    def failure_of(self, trajectory: Trajectory) -> Failure | None:
        """The error that explains a failure; None for a success, and for what is no agent's fault."""
        if trajectory.success or not trajectory.outcome.counts:
            return None
        return Failure("outcome", str(trajectory.outcome).replace("_", " "))

    def cases(self, trajectory: Trajectory) -> list[Case]:
        """What an agent said that a judge may be asked about, in order."""
        return []

    @property
    def rubrics(self) -> Mapping[str, str]:
        """What a judge is told, by kind of case."""
        return {}

    def holds_with(self, trajectory: Trajectory, right: Mapping[int, int]) -> bool:
        """Whether the episode succeeded, where a judge found these answers right: intent -> step at which it was given."""
        return bool(right)

    def extra_results(self, trajectory: Trajectory) -> dict[str, Any]:
        """Further columns of a result."""
        return {}

    # Files and pages

    @abstractmethod
    def card(self, recipe: Mapping[str, Any]) -> Card:
        """What the card of a model shows that was trained on blueprints of a recipe (as plain data, maybe empty)."""

    def formats(self) -> Mapping[str, FileFormat]:
        """The files of the world that have a JSON Schema, by kind; its blueprints' first."""
        return {f"{self.name}-blueprint": FileFormat(1, self.blueprint)}

    def commands(self, app: Any, view: Any) -> None:  # noqa: B027, a world may have none
        """Add commands to the command line (typer apps): to `homerl` itself, and to `homerl view`."""
