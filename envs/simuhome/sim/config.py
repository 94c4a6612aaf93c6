"""The configuration of a home: `initial_home_config` of an episode file, checked when it is read.

Invariants: a configuration that passes these checks either makes a home or raises `InputError` with the device's name;
unknown keys in a room's state are ignored, as the released program ignores them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

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
    def _absent(cls, value: Any, info: Any) -> Any:
        return ({} if info.field_name == "state" else ()) if value is None else value

    @field_validator("state")
    @classmethod
    def _are_numbers(cls, state: dict[str, Any]) -> dict[str, Any]:
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
    def _is_a_time(cls, text: str) -> str:
        datetime.strptime(text, TIME_FORMAT)
        return text
