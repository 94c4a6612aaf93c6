"""What time does to a home between events: the air of rooms, sensors, counters, and what moves.

Invariants: see `time_passing.py`, which calls this at each event.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from homerl.envs.homeenv.sim.devices.air_physics import Outdoors, RoomAir, air_goal
from homerl.envs.homeenv.sim.plan.time_driven_slots import AirReading
from homerl.envs.homeenv.sim.state.home_state import HomeState


def update_air(home: HomeState, rooms: Iterable[int] | None = None) -> list[RoomAir]:
    """Bring the air of rooms up to date with their devices. Returns the air of all rooms, in the order of the plan.

    `rooms` are the indices of the rooms to update, by default all. The first call creates the air from the room's state.
    """
    wiring, clock, outdoors = home.plan.time_wiring, home.clock, Outdoors(*home.values[:3])
    if home.air is None:
        states = [(room, room.air_inputs_of(home.values), home.values[room.slot : room.slot + 2]) for room in wiring.rooms]
        home.air = [
            RoomAir(clock, warm, humid, air_goal(room.shell, bias, outdoors, devices), devices, bias, room.shell)
            for (room, devices, (warm, humid)), bias in zip(states, home.plan.bias)
        ]
    elif home.air_stale:
        for index in range(len(home.air)) if rooms is None else rooms:
            home.air[index] = current_air(home, home.air[index]).with_devices(
                wiring.rooms[index].air_inputs_of(home.values), clock, outdoors
            )
    return home.air


def current_air(home: HomeState, air: RoomAir) -> RoomAir:
    """The air of a room after all weather changes between `air.since` and the clock."""
    moments = home.plan.time_wiring.moments
    first, last = bisect_right(moments, air.since), bisect_right(moments, home.clock)
    return air.after_weather(home.plan.forecast[first:last]) if first < last else air


def write_readings(home: HomeState, air: list[RoomAir], rooms: Iterable[int], readings: Iterable[AirReading]) -> None:
    """Bring the air of these rooms up to date, then write these readings to their slots."""
    for room in rooms:
        air[room] = current_air(home, air[room])
    for reading in readings:
        home.write_slot(reading.slot, reading.value_at(air, home.clock))
    _write_derived(home)


def weather_at(home: HomeState, clock: int) -> Outdoors | None:
    """The weather that begins at exactly this second; None if there is no change."""
    index = bisect_right(home.plan.time_wiring.moments, clock) - 1
    return home.plan.forecast[index].outdoors if index >= 0 and home.plan.forecast[index].clock == clock else None


def advance_counters(home: HomeState, seconds: int) -> None:
    """Let counters grow and attributes move for `seconds`. A counter is 0 while its condition does not hold."""
    for counter in home.plan.time_wiring.counters:
        home.write_slot(counter.slot, counter.value_after(home.values, seconds))
    for mover in home.plan.time_wiring.movers:
        home.write_slot(mover.slot, mover.value_after(home.values, home.clock, seconds))
    _write_derived(home)


def _write_derived(home: HomeState) -> None:
    """Give derived attributes the values that follow from the others."""
    for follower in home.plan.time_wiring.followers:
        home.write_slot(follower.slot, follower.derived_value(home.values))
