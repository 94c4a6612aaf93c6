"""Homes for episodes: five rooms and 19 to 33 devices, some of which are running (SimuHome, section 4.2, step 1).

Invariants: the same seed gives the same home; calls lead from a home whose devices are all off to its state, so the
simulator can be in that state.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import service
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.device_calls import DeviceCalls
from homerl.envs.simuhome.sim.episode_file import HomeConfig
from homerl.envs.simuhome.sim.home import MatterHome

FIXED_ROOMS = ("bathroom", "kitchen", "living_room", "utility_room")
OTHER_ROOMS = ("bedroom", "dining_room", "study_room", "kids_room", "office")
LIGHTS = ("on_off_light", "dimmable_light")
AIR = ("air_purifier", "humidifier", "dehumidifier", "fan")
LIVING = (*LIGHTS, *AIR, "air_conditioner", "heat_pump", "tv", "window_covering_controller", "rvc")
KINDS_BY_ROOM: dict[str, Sequence[str]] = {
    "bathroom": (*LIGHTS, *AIR, "laundry_washer", "laundry_dryer", "window_covering_controller"),
    "kitchen": (*LIGHTS, *AIR, "dishwasher", "refrigerator", "freezer", "rvc", "heat_pump"),
    "utility_room": (*LIGHTS, *AIR, "laundry_washer", "laundry_dryer", "dishwasher", "freezer", "heat_pump"),
    "living_room": LIVING,
}
FIXED_KINDS = {
    "bathroom": ("laundry_washer",),
    "kitchen": ("dishwasher", "refrigerator"),
    "utility_room": ("laundry_dryer", "laundry_washer"),
}
ALL_KINDS = tuple(sorted({kind for kinds in (*KINDS_BY_ROOM.values(), *FIXED_KINDS.values()) for kind in kinds}))
MAX_OF_A_KIND = 2


@dataclass(frozen=True)
class Scale:
    """The size of homes: the fewest and the most devices, and the kinds that they may have. The defaults are the paper's."""

    devices: tuple[int, int] = (19, 33)
    kinds: tuple[str, ...] = ALL_KINDS


def furnished_config(rng: Random, scale: Scale = Scale()) -> HomeConfig:
    """The configuration of a random home whose devices have been used a little."""
    rooms = [*FIXED_ROOMS, rng.choice(OTHER_ROOMS)]
    chosen = {room: [kind for kind in FIXED_KINDS.get(room, ()) if kind in scale.kinds] for room in rooms}
    for _ in range(rng.randint(*scale.devices) - sum(map(len, chosen.values()))):
        room = rng.choice(rooms)
        kinds = [kind for kind in KINDS_BY_ROOM.get(room, LIVING) if kind in scale.kinds]
        if free := [kind for kind in kinds if chosen[room].count(kind) < MAX_OF_A_KIND]:
            chosen[room].append(rng.choice(free))
    base_time = f"2025-08-23 {rng.randint(7, 19):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    filled: dict[str, Any] = {}
    for room in rooms:
        state = {name: float(rng.randint(*bounds)) for name, bounds in STARTING_AIR.items()}
        devices, numbers = [], Counter[str]()
        for kind in sorted(chosen[room]):
            numbers[kind] += 1
            devices.append({"device_id": f"{room}_{kind}_{numbers[kind]}", "device_type": kind})
        filled[room] = {"state": state, "devices": devices}
    home = load.start_home({"base_time": base_time, "rooms": filled})
    for device in home.plan.devices.values():
        perform_calls(home, _draw_past_calls(rng, DeviceCalls(home, device)))
    passage.advance_home(home, 10 * rng.randint(2, 300))
    return home_to_config(home)


STARTING_AIR = {"temperature": (2000, 2900), "humidity": (3200, 6800), "illuminance": (150, 700), "pm10": (15, 60)}


def _draw_past_calls(rng: Random, calls: DeviceCalls) -> list[dict[str, Any]]:
    """Calls that someone may have made for a device before the episode."""
    kind = calls.device.type.name
    if kind == "air_conditioner":
        return [*calls.switch_on_calls(), calls.write_call("Thermostat", "SystemMode", 3)]
    if kind == "heat_pump":
        return [calls.write_call("Thermostat", "SystemMode", rng.choice((0, 4)))]
    if kind in AIR and rng.random() < 0.4:
        return [*calls.switch_on_calls(), calls.write_call("FanControl", "PercentSetting", rng.randint(5, 80))]
    if kind == "dimmable_light" and rng.random() < 0.5:
        return [*calls.switch_on_calls(), calls.command_call("LevelControl", "MoveToLevel", Level=rng.randint(1, 254))]
    if calls.device.type.cycle:
        starts = rng.random() < 0.5
        return calls.switch_on_calls() + ([calls.command_call("OperationalState", "Start")] if starts else [])
    if kind == "window_covering_controller":
        position = rng.choice((0, 5000, 7525, 10000))
        return [calls.command_call("WindowCovering", "GoToLiftPercentage", lift_percent_100ths=position)]
    return []


def perform_calls(home: MatterHome, acts: list[dict[str, Any]]) -> None:
    """Run commands and writes in a home. Raises `OperationError` if one is refused, which is an error of the caller."""
    for act in acts:
        arguments = {key: value for key, value in act.items() if key != "name"}
        (service.execute_command if act["name"] == "execute_command" else service.write_attribute)(home, **arguments)


def home_to_config(home: MatterHome) -> HomeConfig:
    """The configuration of a home that starts in the present state of `home`, as plain JSON values."""
    return HomeConfig(base_time=home.clock_text, rooms=json.loads(json.dumps(service.home_state(home)["rooms"])))
