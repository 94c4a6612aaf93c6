"""Episode files in the released format (SimuHome, section 4.2): a home, a request, and what must hold afterwards.

Invariants:
- Every released file loads unchanged, and keys that are not used here are kept (`model_extra`).
- The configuration of a home that passes these checks either makes a home or raises `InputError` with the device's name.
- Unknown keys in a room's state are ignored, as the released program ignores them.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from homerl.envs.core.documents import InputError, read_json

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
TICK_INTERVALS = {"minimum": 0.001, "maximum": 3_600}  # in virtual seconds; within them no clock outruns a calendar
VARIABLES: dict[str, float] = {"temperature": 2500.0, "pm10": 35.0, "illuminance": 1000.0, "humidity": 5000.0}


class DeviceConfig(BaseModel):
    """A device. `attributes` replaces the type's initial values, by flat key such as `1.OnOff.OnOff`."""

    model_config = ConfigDict(frozen=True)

    device_id: str
    device_type: str
    attributes: dict[str, Any] = Field(default_factory=dict)


class RoomConfig(BaseModel):
    """A room: its variables and its devices.

    `baseline` is our own addition and used in mended mode only: the values to which variables return, if not `state`.
    """

    model_config = ConfigDict(frozen=True)

    state: dict[str, Any] = Field(default_factory=dict)
    baseline: dict[str, float] = Field(default_factory=dict)
    devices: tuple[DeviceConfig, ...] = ()

    @field_validator("state", "devices", mode="before")
    @classmethod
    def _empty_if_none(cls, value: Any, info: Any) -> Any:
        return ({} if info.field_name == "state" else ()) if value is None else value

    @field_validator("state")
    @classmethod
    def _check_variables(cls, state: dict[str, Any]) -> dict[str, Any]:
        for name in VARIABLES:
            if name in state and not isinstance(state[name], (int, float)):
                raise ValueError(f"{name} is a number, not {state[name]!r}")
        return state

    def variable_values(self) -> tuple[float, ...]:
        """The values of the room's variables, in the order of `VARIABLES`."""
        return tuple(float(self.state.get(name, default)) for name, default in VARIABLES.items())


class HomeConfig(BaseModel):
    """A home at tick 0. `tick_interval` is in virtual seconds, and `base_time` is the virtual time at tick 0."""

    model_config = ConfigDict(frozen=True)

    tick_interval: float = Field(default=0.1, ge=TICK_INTERVALS["minimum"], le=TICK_INTERVALS["maximum"])
    base_time: str
    rooms: dict[str, RoomConfig]
    enable_aggregators: bool = True
    max_ticks: int | None = None
    fast_forward: bool = False

    @field_validator("base_time")
    @classmethod
    def _check_base_time(cls, text: str) -> str:
        datetime.strptime(text, TIME_FORMAT)
        return text


RULE_DECIDED = {"qt2", "qt3", "qt4-1", "qt4-2", "qt4-3"}  # query types whose feasible episodes are decided by a rule


class _FilePart(BaseModel):
    """A part of an episode file. Unknown keys are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def further_keys(self) -> dict[str, Any]:
        """The keys of the file that are no field here."""
        return self.model_extra or {}


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
    def due_time(self) -> DueTime:
        """When a QT4 goal is due. Raises `ValueError` if the file does not say."""
        if self.when is None:
            raise ValueError("a goal of this query type says when it is due, and one does not")
        return self.when

    @property
    def asked_attribute(self) -> str:
        """The attribute that QT1 asks for, by flat key; empty in goals of other kinds."""
        return str(self.further_keys.get("attribute", ""))

    @property
    def concerned_rooms(self) -> set[str]:
        """The rooms of the goal's anchor and targets."""
        return {self.anchor.get("room_id", ""), *(target.room_id for target in self.targets)} - {""}


class EvaluationSpec(_FilePart):
    """What decides the episode: the calls that the agent must make, and the goals that must hold."""

    required_actions: tuple[RequiredAction, ...] = ()
    goals: tuple[GoalSpec, ...] = ()

    @property
    def required_calls(self) -> list[dict[str, Any]]:
        """The required actions as calls of an agent."""
        return [{"name": action.tool, **action.params} for action in self.required_actions]


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
