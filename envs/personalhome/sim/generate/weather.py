"""The time and the weather of a household, from the typical years of HomeMaker.

Invariant: rain and snow fall only from humid skies, and snow only in frost; the sun shines only by day.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from functools import lru_cache
from statistics import fmean

from homerl.envs.homeenv.maker.climate import Values
from homerl.envs.homeenv.maker.weather import CELLS, HOURS, TypicalWeather, TypicalYear
from homerl.envs.personalhome.sim.household import Indoor, Outdoor

DAY = 24 * 60  # minutes
LEVELS = 144  # values of daylight a day
NEAR = 10  # days around one in which the brightest moment counts as a clear sky
HUMID = 85.0  # percent from which it may rain
FROST = 0.5  # celsius up to which precipitation is snow
# How much a situation smells, from 0 to 5.
ODOR = {"smoke": 4.5, "stove_left_on": 3.0, "oven_left_on": 3.0, "full_bin": 3.5, "poor_air": 2.5, "fridge_ajar": 1.5}


def draw_moment(hours: tuple[int, int] | None, rng: random.Random) -> tuple[TypicalYear, int]:
    """A year and a minute of it, in local hours [from, to), over midnight if the first is larger; None is any hour."""
    year, minute = _years().draw_minute(rng)
    if hours is None:
        return year, minute
    first, last = hours
    hour = (first + rng.randrange((last - first) % 24 or 24)) % 24
    return year, minute - minute % DAY + hour * 60 + minute % 60


@lru_cache(maxsize=1)
def _years() -> TypicalWeather:
    return TypicalWeather.load_years(hemisphere="north")


def draw_outdoor_weather(year: TypicalYear, minute: int, rng: random.Random) -> Outdoor:
    """The weather outside. Precipitation is drawn; the typical years have none."""
    sky = year.sky_at(minute)
    falls = round(rng.lognormvariate(0, 0.8), 1) if sky.humidity >= HUMID and rng.random() < 0.5 else 0.0
    snows = sky.temperature <= FROST
    return Outdoor(
        rain=0.0 if snows else falls,
        snow=falls if snows else 0.0,
        sunny=0.0 if falls else _sunny(year, minute),
        temperature=sky.temperature,
        wind=sky.wind,
    )


def _sunny(year: TypicalYear, minute: int) -> float:
    """The share of a clear sky's daylight that there is: 0 at night."""
    cell = minute * CELLS // 60
    clear = max(float(year.daylight[(cell + day * LEVELS) % (HOURS * CELLS)]) for day in range(-NEAR, NEAR + 1))
    return round(float(year.daylight[cell]) / clear, 2) if clear > 0 else 0.0


def draw_indoor_air(states: Mapping[str, Values], situations: Collection[str], rng: random.Random) -> Indoor:
    """The air inside, as the devices measure it: the mean of all readings of a quantity."""
    odor = max([rng.choice((0.0, 0.5, 1.0)), *(ODOR.get(key, 0.0) for key in situations)])
    dust = _readings(states, "dust", "pm25") or [rng.randint(4, 22)]
    return Indoor(
        dust=round(fmean(dust), 1),
        humidity=round(fmean(_readings(states, "humidity")), 1),
        odor=odor,
        temperature=round(fmean(_readings(states, "current_temperature")), 1),
    )


def _readings(states: Mapping[str, Values], *paths: str) -> list[float]:
    return [values[path] for values in states.values() for path in paths if path in values]
