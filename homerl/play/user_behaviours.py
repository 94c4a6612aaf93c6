"""How people tell their wishes other than at once: how often each behaviour occurs, and the course in which a wish is told.

A world draws the courses of a blueprint's wishes (`WorldAdapter.tell`).

Invariants: a course is part of the blueprint, so all users of a blueprint follow the same one; where a user stands in it
(`Episode.course_position`) is counted in turns and not in words, so that an LLM user follows it in words of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import Field, model_validator

from homerl.envs.core.model import Model

Behaviour = Literal["disclosure", "self_correction", "change_of_mind", "beside_the_point"]
BEHAVIOURS: tuple[Behaviour, ...] = ("disclosure", "self_correction", "change_of_mind", "beside_the_point")


class Behaviours(Model):
    """How often people tell a wish other than at once, as shares of wishes."""

    disclosure: float = Field(0.0, ge=0, le=1, description="Share (0 to 1) told in parts, over two utterances.")
    self_correction: float = Field(
        0.0, ge=0, le=1, description="Share (0 to 1) in which the user errs and corrects it at once."
    )
    change_of_mind: float = Field(0.0, ge=0, le=1, description="Share (0 to 1) that a later turn replaces.")
    beside_the_point: float = Field(
        0.0, ge=0, le=1, description="Share (0 to 1) whose question is first answered with something else."
    )

    @model_validator(mode="after")
    def _one_a_wish(self) -> Behaviours:
        if self.disclosure + self.self_correction + self.change_of_mind > 1:
            raise ValueError(
                "disclosure, self_correction and change_of_mind: their sum should be at most 1, for a wish has one of them"
            )
        return self


AT_ONCE = Behaviours()


class CoursePart(Protocol):
    """One utterance of a course: its words, and the behaviour that it belongs to."""

    @property
    def behaviour(self) -> Behaviour: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Course:
    """What the user says of a wish before its usual wordings, one part a turn; and `aside`, the answer beside the point
    that the agent's first question gets.
    """

    parts: Sequence[CoursePart] = ()
    aside: str | None = None


@dataclass(frozen=True)
class AddedLimits:
    """What the courses of a blueprint take more than wishes told at once: turns of the user, and calls of the agent."""

    turns: int = 0
    calls: int = 0


NOTHING = AddedLimits()
