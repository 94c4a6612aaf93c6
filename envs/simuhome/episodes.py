"""Episodes: a home, a request and what must hold afterwards (SimuHome 4.2), as the released files have them.

Invariant: a released file loads as it is, and what is not read here is kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.documents import InputError, read_json
from envs.simuhome.config import HomeConfig

RULE_DECIDED = {"qt2", "qt3", "qt4-1", "qt4-2", "qt4-3"}  # whose feasible episodes a rule decides; judges decide the others


class _FilePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class RequiredAction(_FilePart):
    """A call that the agent must have made."""

    tool: str
    params: dict[str, Any] = Field(default_factory=dict)


class AttributeAssert(_FilePart):
    """A flat attribute and the value that it must have."""

    attribute: str
    value: Any


class TargetDevice(_FilePart):
    device_id: str
    room_id: str = ""
    device_type: str = ""
    asserts: tuple[AttributeAssert, ...] = ()


class DueTime(_FilePart):
    at_tick: int
    tolerance_ticks: int = 0

    @property
    def window(self) -> range:
        """The ticks at one of which the goal must hold."""
        return range(max(0, self.at_tick - self.tolerance_ticks), self.at_tick + self.tolerance_ticks + 1)


class GoalSpec(_FilePart):
    """A goal of any query type: a room variable's direction, a device's asserts, or targets at a time."""

    room_id: str = ""
    room_state: str = ""
    direction: Literal["increase", "decrease", ""] = ""
    device_id: str = ""
    device_type: str = ""
    asserts: tuple[AttributeAssert, ...] = ()
    when: DueTime | None = None
    anchor: dict[str, Any] = Field(default_factory=dict)
    targets: tuple[TargetDevice, ...] = ()

    @property
    def rooms(self) -> set[str]:
        """The rooms of the goal's anchor and targets."""
        return {self.anchor.get("room_id", ""), *(target.room_id for target in self.targets)} - {""}


def due_time_of(goal: GoalSpec) -> DueTime:
    """When a goal of QT4 is due, or `ValueError` where the file does not say."""
    if goal.when is None:
        raise ValueError("a goal of this query type says when it is due, and one does not")
    return goal.when


class EvaluationSpec(_FilePart):
    required_actions: tuple[RequiredAction, ...] = ()
    goals: tuple[GoalSpec, ...] = ()


class EpisodeMeta(_FilePart):
    query_type: Literal["qt1", "qt2", "qt3", "qt4-1", "qt4-2", "qt4-3"]
    case: Literal["feasible", "infeasible"]
    seed: int = 0


class EpisodeFile(_FilePart):
    """One benchmark file."""

    meta: EpisodeMeta
    query: str
    user_location: str = ""
    temporal_conflict: dict[str, Any] | None = None
    eval: EvaluationSpec
    initial_home_config: HomeConfig

    @property
    def decided_by_rule(self) -> bool:
        """A rule over end states decides, not a judge."""
        return self.meta.case == "feasible" and self.meta.query_type in RULE_DECIDED


def read_episode(path: str | Path) -> EpisodeFile:
    """An episode from its file, or `InputError`."""
    document = read_json(path)
    try:
        return EpisodeFile.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        where = document.where(tuple(first["loc"]))
        raise InputError(f"not an episode: {first['msg']}", where, "see docs/simuhome.md for the format") from None
