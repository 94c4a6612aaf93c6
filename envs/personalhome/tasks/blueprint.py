"""PersonalHome's blueprints: a household, one task in it, and how an agent sees the household.

Invariants: a blueprint is plain data, complete in itself and immutable; the answers in it were computed, never written; what
a task asks does not state its answer.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from homerl.envs.core.model import Model
from homerl.envs.personalhome.sim.env import TOOLS
from homerl.envs.personalhome.sim.generate import HouseholdRecipe
from homerl.envs.personalhome.sim.household import Household

Setting = Literal["agentic", "sole"]
Difficulty = Literal["simple", "medium", "hard"]
LEVELS: tuple[Difficulty, ...] = ("simple", "medium", "hard")
KINDS = ("grounding", "choice", "features", "plans")
CATEGORIES = {"grounding": "IG", "choice": "MC", "features": "FR", "plans": "PG"}
LETTERS = "ABCDE"


class Part(Model):
    """One of the questions of a grounding task: under a counterfactual condition, or without one (`original`).

    `variants` are the accepted answers, the best first. `changed` tells whether the answer differs from the original's; it
    is None for the original.
    """

    key: Literal["original", "counterfactual_1", "counterfactual_2"]
    condition: str = ""
    variants: tuple[str, ...] = Field(min_length=1)
    changed: bool | None = None


class Grounding(Model):
    """Information grounding with its two counterfactuals (IG and CF). `evidence` are ids of what its program reads."""

    kind: Literal["grounding"] = "grounding"
    family: str
    difficulty: Difficulty
    personal: bool
    question: str
    parts: tuple[Part, ...]
    evidence: tuple[str, ...]


class Choice(Model):
    """A multiple-choice question (MC): five choices of one type, of which one is right."""

    kind: Literal["choice"] = "choice"
    family: str
    difficulty: Difficulty
    personal: bool
    question: str
    choices: tuple[str, ...] = Field(min_length=5, max_length=5)
    right: Literal["A", "B", "C", "D", "E"]
    evidence: tuple[str, ...]


class Features(Model):
    """Feature recommendation (FR): titles of ten features by id, in the order shown, and their right ranking, best first.

    The first three are highly relevant, the next three relevant, the others less.
    """

    kind: Literal["features"] = "features"
    titles: dict[str, str] = Field(min_length=10, max_length=10)
    ranking: tuple[str, ...] = Field(min_length=10, max_length=10)
    evidence: tuple[str, ...]


class Plans(Model):
    """Plan generation (PG): the situations that a plan should settle, the most urgent first."""

    kind: Literal["plans"] = "plans"
    situations: tuple[str, ...] = Field(min_length=1)
    evidence: tuple[str, ...]


Task = Annotated[Grounding | Choice | Features | Plans, Field(discriminator="kind")]


class PersonalHomeIntent(Model):
    """What the user asks. `family` is the kind of the task, `subcategory` its difficulty or most urgent situation."""

    id: int = 1
    family: str
    subcategory: str
    queries: tuple[str, ...] = Field(min_length=1)
    clarification: str


class PersonalHomeBlueprint(Model):
    """The script of one episode of PersonalHome. `tools` are the names of those that the agent has; None is all."""

    format: Literal[1] = 1
    world: Literal["personalhome"] = "personalhome"
    id: str
    seed: int = 0
    split: Literal["train", "heldout"] = "heldout"
    language: str = "en"
    setting: Setting = "agentic"
    tools: tuple[str, ...] | None = None
    household: Household
    task: Task
    intents: tuple[PersonalHomeIntent, ...] = Field(min_length=1, max_length=1)
    preserve: bool = False

    one_answer: ClassVar[bool] = False

    @property
    def category(self) -> str:
        """The paper's name of the task: IG, MC, FR or PG."""
        return CATEGORIES[self.task.kind]

    @property
    def difficulty(self) -> str:
        """The difficulty of a question; proactive tasks have none, and are `unrated`."""
        return getattr(self.task, "difficulty", "unrated")


class PersonalHomeRecipe(Model):
    """The blueprints to make. `tasks` and `difficulties` are weights."""

    world: Literal["personalhome"] = Field(description="The world.")
    tasks: dict[str, float] = Field(
        dict.fromkeys(KINDS, 1.0), description="Weights of the tasks `grounding`, `choice`, `features` and `plans`."
    )
    difficulties: dict[Difficulty, float] = Field(
        dict.fromkeys(LEVELS, 1.0), description="Weights of the difficulties of questions."
    )
    families: tuple[str, ...] | None = Field(None, description="Families of questions, such as `times`; null is all.")
    counterfactuals: bool = Field(True, description="Whether a grounding task asks two counterfactuals too.")
    personal: float = Field(0.5, ge=0, le=1, description="Share of questions that name people, not ids.")
    setting: Setting = Field(
        "agentic", description="Whether the agent has tools (`agentic`), or is shown the whole household (`sole`)."
    )
    tools: tuple[str, ...] | None = Field(None, description="Tools of the agent, such as `get_weather`; null is all.")
    names: Literal["split", "train", "heldout"] = Field(
        "split", description="Half of names and phrasings: that of the `split`, or always `train` or `heldout`."
    )
    scenes: bool = Field(False, description="Whether each household has a video of what goes on, in words.")
    household: HouseholdRecipe = Field(HouseholdRecipe(), description="What the households are like.")

    @property
    def language(self) -> str:
        """The language of households and questions."""
        return self.household.language

    @field_validator("tasks")
    @classmethod
    def _check_kinds(cls, weights: dict[str, float]) -> dict[str, float]:
        if unknown := sorted(set(weights) - set(KINDS)):
            raise ValueError(f"there is no task {', '.join(unknown)} (there is {', '.join(KINDS)})")
        return weights

    @field_validator("tools")
    @classmethod
    def _check_tools(cls, tools: tuple[str, ...] | None) -> tuple[str, ...] | None:
        known = [tool.name for tool in TOOLS.values() if not tool.in_plans]
        if unknown := sorted(set(tools or ()) - set(known)):
            raise ValueError(f"an agent has no tool {', '.join(unknown)} (there is {', '.join(known)})")
        return tools

    @model_validator(mode="after")
    def _check_weights(self) -> PersonalHomeRecipe:
        for name in ("tasks", "difficulties"):
            weights: dict[Any, float] = getattr(self, name)
            if min(weights.values(), default=0) < 0 or not sum(weights.values()) > 0:
                raise ValueError(f"{name}: one weight at least must be above 0, and none below it")
        return self
