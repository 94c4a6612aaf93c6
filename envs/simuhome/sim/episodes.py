"""Episode files: a home, a request, and what must hold afterwards (SimuHome, section 4.2), in the released format.

Invariant: every released file loads unchanged, and keys that are not used here are kept (`model_extra`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from homerl.envs.core.documents import InputError, read_json
from homerl.envs.simuhome.sim.config import HomeConfig

RULE_DECIDED = {"qt2", "qt3", "qt4-1", "qt4-2", "qt4-3"}  # query types whose feasible episodes are decided by a rule


class _FilePart(BaseModel):
    """A part of an episode file. Unknown keys are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class RequiredAction(_FilePart):
    """A tool call that the agent must make, with at least these parameters."""

    tool: str
    params: dict[str, Any] = Field(default_factory=dict)


class AttributeAssert(_FilePart):
    """An attribute, by flat key such as `1.OnOff.OnOff`, and the value that it must have."""

    attribute: str
    value: Any


class TargetDevice(_FilePart):
    """A device of a QT4 goal, and the asserts that must hold for it."""

    device_id: str
    room_id: str = ""
    device_type: str = ""
    asserts: tuple[AttributeAssert, ...] = ()


class DueTime(_FilePart):
    """When a goal must hold: at tick `at_tick` (0.1 s each), give or take `tolerance_ticks`."""

    at_tick: int
    tolerance_ticks: int = 0

    @property
    def tick_window(self) -> range:
        """The ticks of the window. The goal must hold at one of them."""
        return range(max(0, self.at_tick - self.tolerance_ticks), self.at_tick + self.tolerance_ticks + 1)

    @property
    def further_keys(self) -> dict[str, Any]:
        """The other keys of the file, which say how the time is told."""
        return self.model_extra or {}


class GoalSpec(_FilePart):
    """One goal of an episode. Which fields are used depends on the query type.

    QT2 has a room's variable and a direction. QT3 has a device and asserts. QT4 has a due time, targets, and in some
    cases an anchor: the device whose programme the time refers to. QT1 has further keys in `model_extra`.
    """

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
    def asked_attribute(self) -> str:
        """The attribute that QT1 asks for, by flat key; empty in goals of other kinds."""
        return str((self.model_extra or {}).get("attribute", ""))

    @property
    def concerned_rooms(self) -> set[str]:
        """The rooms of the goal's anchor and targets."""
        return {self.anchor.get("room_id", ""), *(target.room_id for target in self.targets)} - {""}


def due_time_of(goal: GoalSpec) -> DueTime:
    """When a QT4 goal is due. Raises `ValueError` if the file does not say."""
    if goal.when is None:
        raise ValueError("a goal of this query type says when it is due, and one does not")
    return goal.when


class EvaluationSpec(_FilePart):
    """What decides the episode: the calls that the agent must make, and the goals that must hold."""

    required_actions: tuple[RequiredAction, ...] = ()
    goals: tuple[GoalSpec, ...] = ()


class EpisodeMeta(_FilePart):
    """The query type, whether the request can be met, and the seed from which the episode was generated."""

    query_type: Literal["qt1", "qt2", "qt3", "qt4-1", "qt4-2", "qt4-3"]
    case: Literal["feasible", "infeasible"]
    seed: int = 0


class EpisodeFile(_FilePart):
    """One benchmark file: a home, a user's request and its evaluation.

    `temporal_conflict` describes the contradiction of times in an infeasible QT4 episode.
    """

    meta: EpisodeMeta
    query: str
    user_location: str = ""
    temporal_conflict: dict[str, Any] | None = None
    eval: EvaluationSpec
    initial_home_config: HomeConfig

    @property
    def is_decided_by_rule(self) -> bool:
        """Whether a rule on the end state decides the episode. A judge decides the others: QT1 and all infeasible ones."""
        return self.meta.case == "feasible" and self.meta.query_type in RULE_DECIDED


def read_episode(path: str | Path) -> EpisodeFile:
    """The episode of a file. Raises `InputError` if the file is not an episode."""
    document = read_json(path)
    try:
        return EpisodeFile.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        where = document.locate_key(tuple(first["loc"]))
        raise InputError(f"not an episode: {first['msg']}", where, "see docs/simuhome.md for the format") from None
