"""The air of a room: the steady state that weather and devices lead to, and how fast the air approaches it.

The complete model:
- The temperature of a room without appliances tends to a weighted mean of the outdoor temperature and `COMFORT`. The
  weight depends on the type of the room. The sun adds heat through windows.
- The air has the outdoor vapour pressure plus what people, baths and cooking add, so heated winter air is dry. Walls and
  textiles pull the humidity a share of the way to `MIDDLE`.
- Daylight is a share of the outdoor light, reduced by closed curtains. Lamps add light in proportion to their brightness.
- A device that heats or cools moves the temperature a share of the way to its target, never past it. The same holds for
  devices that change the humidity.
- Light changes at once. Temperature and humidity approach the steady state exponentially, each with its time constant.

Units: celsius, percent, lux, hPa, seconds.

Invariants:
- All functions are pure.
- Between two changes of weather or devices every quantity is monotonic. It is a closed form of the elapsed time, which can
  be solved for the time. One long step therefore gives the same air as any number of shorter ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import ceil, exp, log
from typing import Any, NamedTuple

from homerl.envs.core.state_encoding import state_text, written_as, written_by
from homerl.envs.homeenv.sim.devices.attributes_and_services import ServiceScope
from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, ValueType, value_means_word

Running = tuple[DeviceSpec, Mapping[str, Any]]  # a device's specification and its values by path

COMFORT = 21.0  # celsius: the temperature to which buildings tend
SOLAR_GAIN = 5.0  # celsius that 100,000 lux outdoors bring into a room with open curtains
LUX_PER_PERCENT = 3.0  # the light that a lamp adds for each percent of brightness
MIDDLE, BUFFER = 50.0, 0.3  # the humidity (percent) to which walls and textiles pull, and their share
HUMIDITY_SECONDS = 1800.0  # time constant of a room's humidity
# The share of the way to the target, by fan speed or power level.
POWER = {"low": 0.5, "auto": 0.7, "medium": 0.7, "high": 0.85}


@written_as("Outdoors", temperature="temperature", humidity="humidity", brightness="brightness")
class Outdoors(NamedTuple):
    """The weather: celsius, percent, lux."""

    temperature: float
    humidity: float
    brightness: float


BOUNDS = ((-40.0, 60.0), (0.0, 100.0), (0.0, 120_000.0))  # of temperature, humidity and light, indoors and outdoors


class WeatherChange(NamedTuple):
    """A change of the weather: it is `outdoors` from `clock` (s) on."""

    clock: int
    outdoors: Outdoors


class RoomShell(NamedTuple):
    """How the air of a type of room depends on the weather.

    `outdoors` and `daylight` are the shares (0..1) of the outdoor temperature and light that the room gets. `vapour` is the
    vapour pressure (hPa) that its use adds. `seconds` is the time constant of its temperature.
    """

    outdoors: float = 0.35
    daylight: float = 0.015
    vapour: float = 2.0
    seconds: float = 3600.0


SHELLS: dict[str, RoomShell] = {
    "living_room": RoomShell(daylight=0.02),
    "kitchen": RoomShell(vapour=4.0),
    "bathroom": RoomShell(outdoors=0.3, daylight=0.006, vapour=6.0),
    "closet": RoomShell(outdoors=0.25, daylight=0.0005, vapour=1.0),
    "pantry": RoomShell(outdoors=0.3, daylight=0.0005, vapour=1.0),
    "hallway": RoomShell(daylight=0.004, vapour=1.0),
    "laundry": RoomShell(daylight=0.006, vapour=5.0),
    "balcony": RoomShell(outdoors=0.95, daylight=0.5, vapour=0.0, seconds=600.0),
    "garage": RoomShell(outdoors=0.7, daylight=0.002, vapour=0.5, seconds=1800.0),
    "storage": RoomShell(outdoors=0.5, daylight=0.001, vapour=1.0),
}
PLAIN_SHELL = RoomShell()


class AirInputs(NamedTuple):
    """What the devices of a room do to its air.

    `openness` says how open the curtains are (0..1), and `lux` is the light that lamps add. `heating` lists the effects on
    the temperature as (mode, target in celsius, share). `moistening` lists those on the humidity as (way, target in percent,
    share), where the way is `up`, `down` or `both`. Both are in the order of the devices.
    """

    openness: float = 1.0
    lux: float = 0.0
    heating: tuple[tuple[str, float, float], ...] = ()
    moistening: tuple[tuple[str, float, float], ...] = ()


def compute_air_inputs(running: Sequence[Running]) -> AirInputs:
    """What these devices do to the air of their room in their present state."""
    positions: list[float] = []  # of the covers of windows
    lights: list[float] = []
    heating: list[tuple[str, float, float]] = []
    moistening: list[tuple[str, float, float]] = []
    for spec, own_values in running:
        values = values_in_air_terms(spec, own_values)
        for prefix, kind in spec.part_kinds:
            # Every part of a device of these categories covers a window, and so does a part whose `air` says so.
            if (kind if prefix in spec.air_effects else spec.category) in COVERS:
                positions.append(_number_or(100, values.get(prefix + "position")))
            if value_means_word(values.get(prefix + "state"), "on"):
                # A lamp that cannot be dimmed has full light, and a part without a lamp has none.
                brightness = _number_or(100 if kind == "light" else 0, values.get(prefix + "brightness"))
                lights.append(LUX_PER_PERCENT * brightness)
                heating += _heating_effects(values, prefix, kind)
                moistening += _moistening_effects(values, prefix, kind)
    openness = 0.05 + 0.95 * sum(positions) / len(positions) / 100 if positions else 1.0
    return AirInputs(openness, sum(lights, 0.0), tuple(heating), tuple(moistening))


def values_in_air_terms(spec: DeviceSpec, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a device in the terms of this module: celsius, percent, and what its `air` says.

    They are the values themselves for a device that says nothing of the kind.
    """
    if not spec.air_effects and not spec.fahrenheit_paths:
        return values
    seen = {path: fahrenheit_to_celsius(value) if path in spec.fahrenheit_paths else value for path, value in values.items()}
    scope = ServiceScope([seen.get(path) for path in spec.attribute_index], 0, {})
    for prefix, settings in spec.air_effects.items():
        named: dict[str, Any] = {}
        for setting, closure in settings.items():
            name = {"power": "power_level"}.get(setting, setting)
            if setting == "mode" and dict(spec.part_kinds)[prefix] == "air_conditioner":
                name = "ac_mode"
            try:
                named[prefix + name] = closure(scope)
            except (ArithmeticError, TypeError, ValueError):  # it cannot be computed from the present values
                named[prefix + name] = None
        # Of the part's own attributes, only its state counts besides what `air` says.
        own = {path for path in seen if path.startswith(prefix) and "." not in path[len(prefix) :]} - {prefix + "state"}
        seen = {path: value for path, value in seen.items() if path not in own} | named
    return seen


def fahrenheit_to_celsius(value: Any) -> Any:
    """A temperature in celsius, from fahrenheit. None stays None."""
    return (value - 32) * 5 / 9 if isinstance(value, (int, float)) else value


def quantity_in_unit(quantity: float, type: ValueType) -> float:
    """A quantity of the air in the unit of a type: temperatures in fahrenheit, if that is its unit."""
    return quantity * 9 / 5 + 32 if type.unit == "fahrenheit" else quantity


THERMAL = frozenset({"air_conditioner", "heater", "thermostat"})  # kinds of parts that heat or cool
COVERS = frozenset({"curtain", "blind", "cover"})
CLIMATE = THERMAL | COVERS | {"humidifier", "dehumidifier"}
# An attribute's `measures`, and the name of an attribute of a sensor -> the index of the quantity of the room
MEASURED = {"temperature": 0, "humidity": 1, "brightness": 2}
REPORTS = {"temperature": 0, "current_temperature": 0, "humidity": 1, "current_humidity": 1, "illuminance": 2}


def measured_quantities(spec: DeviceSpec) -> Iterator[tuple[str, int]]:
    """The (path, quantity) pairs of the attributes by which a device measures the air of its room."""
    for path, (_, attribute) in spec.attribute_index.items():
        if attribute.measures is not None:
            yield path, MEASURED[attribute.measures]
    if spec.category.endswith("_sensor") or spec.category == "thermostat":
        for path, (_, attribute) in spec.attribute_index.items():
            if path in REPORTS and attribute.type in NUMBERS and not attribute.options and not attribute.changes_by_itself:
                yield path, REPORTS[path]


def _number_or(otherwise: float, value: Any) -> float:
    """A value, or `otherwise` if the product lacks it or it is no number."""
    return value if isinstance(value, (int, float)) else otherwise


def _heating_effects(values: Mapping[str, Any], prefix: str, kind: str) -> Iterator[tuple[str, float, float]]:
    if kind not in THERMAL:
        return
    modes = {"air_conditioner": values.get(prefix + "ac_mode"), "thermostat": values.get(prefix + "mode", "heat")}
    mode: Any = modes.get(kind, "heat")
    power: Any = values.get(prefix + "fan_speed", values.get(prefix + "power_level"))
    share = POWER.get(power, 0.7)
    for bound, way in (("target_temperature", mode), ("target_low", "heat"), ("target_high", "cool")):
        target = values.get(prefix + bound)
        if isinstance(target, (int, float)) and way in ("heat", "cool", "auto"):
            yield way, target, share


def _moistening_effects(values: Mapping[str, Any], prefix: str, kind: str) -> Iterator[tuple[str, float, float]]:
    way = {"humidifier": "up", "dehumidifier": "down", "air_conditioner": "both"}.get(kind)
    target = values.get(prefix + "target_humidity")
    if way and isinstance(target, (int, float)):
        yield way, target, 0.7
    elif kind == "air_conditioner" and (share := {"dry": 0.6, "cool": 0.3}.get(values.get(prefix + "ac_mode", ""))):
        yield "down", MIDDLE, share  # in cool mode, drying is a side effect of the cold coils


def steady_air(shell: RoomShell, outdoors: Outdoors, devices: AirInputs, drift: float = 0.0) -> Outdoors:
    """The temperature, humidity and light to which a room tends under constant weather and devices.

    `drift` (celsius) is added to the temperature before the devices act on it.
    """
    share, daylight = shell.outdoors, outdoors.brightness * devices.openness
    temperature = share * outdoors.temperature + (1 - share) * COMFORT + drift
    if shell.daylight >= 0.01:  # the sun warms rooms with such windows
        temperature += SOLAR_GAIN * daylight / 100_000
    for mode, target, part in devices.heating:
        gap = target - temperature
        # A heater never cools, and a cooler never heats.
        if mode == "auto" or (gap > 0) == (mode == "heat"):
            temperature += gap * part
    temperature = _clamp(temperature, *BOUNDS[0])  # the target of a user's own device may be outside
    # The air indoors has the vapour of the air outdoors, so warming it lowers its relative humidity.
    vapour = saturation_pressure(outdoors.temperature) * outdoors.humidity / 100 + shell.vapour
    humidity = (1 - BUFFER) * min(100 * vapour / saturation_pressure(temperature), 100) + BUFFER * MIDDLE
    for way, target, part in devices.moistening:
        gap = target - humidity
        if way == "both" or (gap > 0) == (way == "up"):
            humidity += gap * part
    light = daylight * shell.daylight + devices.lux
    return Outdoors(temperature, _clamp(humidity, *BOUNDS[1]), _clamp(light, *BOUNDS[2]))


def saturation_pressure(temperature: float) -> float:
    """The vapour pressure (hPa) of saturated air at a temperature in celsius (Magnus formula)."""
    return 6.112 * exp(17.62 * temperature / (243.12 + temperature))


TEMPERATURE, HUMIDITY, LIGHT = range(3)  # a room's quantities, in the order of its slots


# State keys hold four parts of the air. The others follow from the values and the plan. An f-string is what is fast enough.
@written_by(lambda air: f"({air.since!r}, {air.temperature!r}, {air.humidity!r}, {state_text(air.goal)})")
class RoomAir(NamedTuple):
    """The air of a room from `since` (s) on, until the weather or the devices change.

    `temperature` and `humidity` are the values at `since`, and `goal` is what the air tends to. `devices` are the inputs
    from which the goal was computed, or None if they are not known. `bias` is the part of temperature and humidity that the
    model of weather and devices does not explain.
    """

    since: int
    temperature: float
    humidity: float
    goal: Outdoors
    devices: AirInputs | None
    bias: tuple[float, float]
    shell: RoomShell

    def quantity_at(self, quantity: int, clock: int) -> float:
        """A quantity at `clock` (s), not rounded."""
        if quantity == LIGHT:
            return self.goal[LIGHT]
        start, goal, seconds = self._approach_of(quantity)
        # x(t) = goal + (start - goal) e^(-(t - since) / seconds)
        return goal + (start - goal) * exp((self.since - clock) / seconds) if clock > self.since else start

    def time_of_value(self, quantity: int, value: float) -> int:
        """The second, give or take one, at which temperature or humidity passes a value; `since` if it never does."""
        start, goal, seconds = self._approach_of(quantity)
        # The same equation, solved for t. It has a solution if the value lies between start and goal.
        way, rest = start - goal, value - goal
        return self.since + (ceil(seconds * log(way / rest)) if way * rest > 0 else 0)

    def _approach_of(self, quantity: int) -> tuple[float, float, float]:
        """Start, goal and time constant of temperature or humidity."""
        if quantity == TEMPERATURE:
            return self.temperature, self.goal[TEMPERATURE], self.shell.seconds
        return self.humidity, self.goal[HUMIDITY], HUMIDITY_SECONDS

    def after_weather(self, weather: Iterable[WeatherChange]) -> RoomAir:
        """The air after these changes of the weather, which must be in order of time and after `since`."""
        since, warm, humid, goal, devices, bias, shell = self
        for clock, outdoors in weather:
            warm = goal[0] + (warm - goal[0]) * exp((since - clock) / shell.seconds)
            humid = goal[1] + (humid - goal[1]) * exp((since - clock) / HUMIDITY_SECONDS)
            since, goal = clock, air_goal(shell, bias, outdoors, devices)
        return RoomAir(since, warm, humid, goal, devices, bias, shell)

    def with_devices(self, devices: AirInputs, clock: int, outdoors: Outdoors) -> RoomAir:
        """The air from `clock` (s) on with these inputs of the devices. If the goal stays the same, so does `since`."""
        goal = air_goal(self.shell, self.bias, outdoors, devices)
        if goal == self.goal:
            return self if devices == self.devices else self._replace(devices=devices)
        start = self.quantity_at(TEMPERATURE, clock), self.quantity_at(HUMIDITY, clock)
        return RoomAir(clock, *start, goal, devices, self.bias, self.shell)


@lru_cache(maxsize=1 << 14)
def air_goal(shell: RoomShell, bias: tuple[float, float], outdoors: Outdoors, devices: AirInputs) -> Outdoors:
    """The goal of a room's air: its steady state plus its bias, within `BOUNDS`."""
    warm, humid, light = steady_air(shell, outdoors, devices)
    return Outdoors(_clamp(warm + bias[0], *BOUNDS[0]), _clamp(humid + bias[1], *BOUNDS[1]), light)


def restore_air(
    since: int, start: Sequence[float], goal: Sequence[float], bias: tuple[float, float], shell: RoomShell, clock: int
) -> RoomAir:
    """The air of a room from the values in a file. Raises `ValueError` if these values are impossible."""
    within = [low <= value <= high for values in (start, goal) for value, (low, high) in zip(values, BOUNDS)]
    if not 0 <= since <= clock or not all(within):
        raise ValueError(f"a room's air since {since}, from {list(start)} to {list(goal)}, cannot be at {clock}")
    return RoomAir(since, start[0], start[1], Outdoors(*goal), None, bias, shell)


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
