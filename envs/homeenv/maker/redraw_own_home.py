"""Homes that are known, as people's own files: one is drawn, and its weather, hour and state are drawn anew.

Rooms, names, ids, products, automations and the entrance never change. A value is drawn if a service can write it; all
others stay as in the file. Three kinds follow the draw instead: what sensors read of the air, what the drawn values
entail (a device that is off uses no power), and counters of seconds whose condition no longer holds, which are 0.

Invariants:
- The result is a pure function of the files and the rng, and gives the same bytes in every process.
- What a file keeps for the guards of a real home is in no drawn one.
- Files are read once per process, all of them before the first home is drawn, so that a bad file is refused at the start.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.initial_state import Values, initial_state
from homerl.envs.homeenv.maker.weather import Sky, TypicalWeather
from homerl.envs.homeenv.sim.automation import arm_rule
from homerl.envs.homeenv.sim.devices.air_physics import WeatherChange, measured_quantities
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import REPORT, load_home

Keep = Literal["nothing", "weather", "state"]
WHERE = "home.files"
FREE = ("str", "list", "dict", "hex")  # types of values that a draw without options would make meaningless


def draw_own_home(files: tuple[str, ...], keep: Keep, weather: TypicalWeather, hours: int, rng: random.Random) -> Home:
    """One of the homes of `files`, with a state drawn as `keep` says, and `hours` of weather to come if it is drawn.

    Raises `InputError` if any of the files cannot be used.
    """
    home = rng.choice(load_own_homes(files))
    if keep == "state":
        return home.fork()
    if keep == "weather":
        air = home.state_of(OUTDOORS)
        when = datetime.fromtimestamp(home.clock, UTC).replace(tzinfo=None)
        sky = Sky(when, air["temperature"], air["humidity"], air["brightness"], 0.0)
        return _redraw_state(home, sky, home.plan.forecast, rng)
    return redraw_home(home, weather, hours, rng)


def redraw_home(home: Home, weather: TypicalWeather, hours: int, rng: random.Random) -> Home:
    """The home at another time: weather, hour and state are drawn, and `hours` of weather to come."""
    year, minute = weather.draw_minute(rng)
    return _redraw_state(home, year.sky_at(minute), year.forecast_ahead(minute, hours), rng)


def _redraw_state(home: Home, sky: Sky, forecast: Sequence[WeatherChange], rng: random.Random) -> Home:
    plan = home.plan
    kept: dict[str, Values] = {}  # by did: the values that stay as in the file, unless drawn ones contradict them
    for device in plan.devices:
        paths = drawn_paths(device.spec)
        kept[device.did] = {path: value for path, value in home.state_of(device.did).items() if path not in paths}
    state = initial_state(plan.rooms, plan.devices, sky, rng, kept=kept)
    drawn = Home.build_home(plan.rooms, plan.devices, state, sky.clock, plan.entrance, forecast, origin=plan.origin)
    for counter in drawn.plan.time_wiring.counters:
        if not counter.is_counting(drawn.values):
            drawn.write_slot(counter.slot, counter.attribute.check_value(0))
    shift = sky.clock - home.clock
    for rule in home.rules:
        at = rule.definition.at
        moved = replace(rule, definition=replace(rule.definition, at=None if at is None else at + shift))
        drawn.rules += (arm_rule(moved.with_progress(fired=None), drawn),)
    return drawn


def drawn_paths(spec: DeviceSpec) -> frozenset[str]:
    """The paths of the values that are drawn: those that services write, but for free text, and readings of the air."""
    paths = list(spec.attribute_index)
    written = {offset for service in spec.service_index.values() for offset, *_ in service.writes}
    kinds = [attribute for _, attribute in spec.attribute_index.values()]
    free = {path for path, kind in zip(paths, kinds) if kind.type in FREE and kind.options is None}
    return frozenset({paths[offset] for offset in written} - free | {path for path, _ in measured_quantities(spec)})


# Files


@lru_cache(maxsize=16)
def load_own_homes(files: tuple[str, ...]) -> tuple[Home, ...]:
    """The homes of all files and folders, in this order. Raises `InputError` if one of them cannot be used."""
    return tuple(_load_usable_home(path) for name in files for path in home_files(name))


def home_files(name: str) -> list[Path]:
    """The home files of a folder, sorted by name; for any other path, the path itself. A report of an import is none."""
    if not Path(name).is_dir():
        return [Path(name)]
    if found := sorted(path for path in Path(name).glob("*.json") if not path.name.endswith(REPORT)):
        return found
    raise InputError(f"{WHERE}: the folder holds no home file (*.json)", name, "make one: homerl make-home --out home.json")


def _load_usable_home(path: Path) -> Home:
    """The home of a file, if people can speak of all its rooms and devices."""
    try:
        home = load_home(path)
    except InputError as error:
        raise InputError(f"{WHERE}: {error.what}", error.where, error.remedy) from None
    things = [(f"rooms.{i}.name", room.id, room.name) for i, room in enumerate(home.plan.rooms)]
    things += [(f"devices.{i}.name", device.did, device.name) for i, device in enumerate(home.plan.devices)]
    for key, id, name in things:
        if not any(map(str.isalnum, name)):
            what = f"{WHERE}: {key}: '{id}' has no name, so nobody can speak of it"
            raise InputError(what, str(path), "give it the name that people call it by")
    if not any(device.spec.service_index for device in home.plan.devices):
        what = f"{WHERE}: devices: none has a service, so there is nothing to ask for"
        raise InputError(what, str(path), "name a home with devices")
    # Everybody may read a task, so what a file keeps for the guards of a real home stays out of it.
    home.plan = replace(home.plan, origin=home.plan.origin and home.plan.origin.without_guarded_parts)
    return home
