"""Typical years: real hourly weather. A home's date, time and weather are drawn from them.

The bundled years are stored in `years.npz`, which scripts/bundle_years makes. pvlib and pandas are therefore imported only
when a user's weather file is read.

Invariants:
- A year has 8,760 hours of valid numbers. There is no 29 February. A file's hours are placed by their dates, each once.
- Daylight is zero while the sun is below the horizon. Otherwise it follows the height of the sun such that the mean of each
  hour is the mean in the file.
- The same rng gives the same weather in every process.
"""

from __future__ import annotations

import calendar
import io
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.devices.air_physics import BOUNDS, Outdoors, WeatherChange

YEAR = 2025  # the calendar year of all typical years; any year without a 29 February would do
HOURS = 8760
CELLS = 6  # values of daylight per hour
LUX_PER_WATT = 110.0  # luminous efficacy of global daylight, lumen per watt
EPW_HEADER, EPW_FIELDS = 8, 35
DAYS_APART = 182  # between a season and the same season on the other hemisphere
Hemisphere = Literal["north", "south", "any"]
BUNDLE = Path(__file__).parent / "years.npz"
BUNDLED = ("703165TY.csv", "723170TYA.CSV", "12839.tm2")  # Sand Point, Greensboro, Miami: shipped with pvlib
EPW_REMEDY = "name an EnergyPlus weather file (*.epw) or a folder of them, or leave `weather` empty to use the bundled years"


class EpwColumn(NamedTuple):
    """A column of an EPW file: its index, pvlib's name, its bounds, and the number from which on values mark a gap."""

    field: int
    pvlib: str
    low: float
    high: float
    missing: float


PLACE = ((-90, 90), (-180, 180), (-12, 14), (-1000, 9999))  # latitude, longitude, hours from Greenwich, elevation
EPW_COLUMNS = (
    EpwColumn(6, "temp_air", -70, 70, 99.9),
    EpwColumn(8, "relative_humidity", 0, 110, 999),
    EpwColumn(13, "ghi", 0, 2000, 9999),
    EpwColumn(21, "wind_speed", 0, 100, 999),
)


@dataclass(frozen=True)
class Sky:
    """The weather at a minute.

    `when` is local standard time. The quantities are in celsius, percent, lux and m/s.
    """

    when: datetime
    temperature: float
    humidity: float
    illuminance: float
    wind: float

    @property
    def clock(self) -> int:
        """The time as the clock of a home has it: seconds since 1970, in local time."""
        return calendar.timegm(self.when.timetuple())


@dataclass(frozen=True)
class TypicalYear:
    """A typical year at a place.

    `temperature` (celsius), `humidity` (percent) and `wind` (m/s) have one value for the end of each hour, shape (8760,).
    `daylight` (whole lux) has one value for every ten minutes, shape (52560,).
    """

    place: str
    latitude: float
    longitude: float
    temperature: np.ndarray
    humidity: np.ndarray
    wind: np.ndarray
    daylight: np.ndarray

    def sky_at(self, minute: int) -> Sky:
        """The weather `minute` minutes after New Year, interpolated between full hours."""
        hour, part = divmod(minute, 60)

        def between(hourly: np.ndarray) -> float:
            # In the first hour of the year, `hour - 1` is -1: the last hour of the year.
            return round(float(hourly[hour - 1] + (hourly[hour] - hourly[hour - 1]) * part / 60), 1)

        return Sky(
            when=datetime(YEAR, 1, 1) + timedelta(minutes=minute),
            temperature=between(self.temperature),
            humidity=between(self.humidity),
            illuminance=float(self.daylight[minute * CELLS // 60]),
            wind=between(self.wind),
        )

    def forecast_ahead(self, minute: int, hours: int) -> list[WeatherChange]:
        """The weather at each of the full hours after a minute of the year. The year repeats after its end."""
        new_year, first = calendar.timegm((YEAR, 1, 1, 0, 0, 0)), minute // 60 + 1
        ahead = range(first, first + hours)
        return [WeatherChange(new_year + 3600 * hour, self._weather_at_hour(hour % HOURS)) for hour in ahead]

    def _weather_at_hour(self, hour: int) -> Outdoors:
        """The weather at a full hour of the year, rounded to tenths."""
        if hour not in self._known_hours:
            quantities = (self.temperature[hour - 1], self.humidity[hour - 1], self.daylight[hour * CELLS])
            self._known_hours[hour] = Outdoors(*(round(float(quantity), 1) for quantity in quantities))
        return self._known_hours[hour]

    @cached_property
    def _known_hours(self) -> dict[int, Outdoors]:
        """The hours that were asked for: to round a whole year takes longer than to make a home."""
        return {}


@dataclass(frozen=True)
class TypicalWeather:
    """The typical years from which the weather of homes is drawn."""

    years: tuple[TypicalYear, ...]

    @classmethod
    def load_years(cls, paths: tuple[str, ...] = (), hemisphere: Hemisphere = "any") -> TypicalWeather:
        """The years of EPW files and folders, or without any the bundled years of a hemisphere.

        Files are read once per process. Raises `InputError`, which names file and line, if a file is invalid.
        """
        files = (file for path in paths for file in _find_epw_files(path))
        return cls(tuple(map(_load_epw_year, files)) or _load_bundled_years(hemisphere))

    def draw_minute(self, rng: random.Random) -> tuple[TypicalYear, int]:
        """A year and a minute of it, drawn uniformly."""
        return rng.choice(self.years), rng.randrange(HOURS * 60)


@lru_cache(maxsize=64)
def _find_epw_files(path: str) -> tuple[str, ...]:
    """The EPW files of a folder, sorted by name; for any other path, the path itself."""
    if not Path(path).is_dir():
        return (path,)
    files = sorted(str(file) for file in Path(path).iterdir() if file.suffix.lower() == ".epw")
    if not files:
        raise InputError("the folder holds no EPW file", path, EPW_REMEDY)
    return tuple(files)


# The bundled years


@lru_cache(maxsize=3)
def _load_bundled_years(hemisphere: Hemisphere) -> tuple[TypicalYear, ...]:
    if hemisphere == "any":
        return _load_bundled_years("north") + _load_bundled_years("south")
    if hemisphere == "south":
        return tuple(map(mirror_year, _load_bundled_years("north")))
    with np.load(BUNDLE) as file:
        arrays = dict(file)
    years = []
    for i, (place, (latitude, longitude)) in enumerate(zip(arrays["places"], arrays["coordinates"])):
        hourly = {name: arrays[f"{name}_{i}"].astype(float) / scale for name, scale in STORED.items()}
        years.append(TypicalYear(str(place), float(latitude), float(longitude), **hourly))
    return tuple(years)


def mirror_year(year: TypicalYear) -> TypicalYear:
    """The same weather on the other hemisphere, shifted by half a year. The hours of the day stay."""
    hours = DAYS_APART * 24
    return replace(
        year,
        place=f"opposite of {year.place}",
        latitude=-year.latitude,
        temperature=np.roll(year.temperature, hours),
        humidity=np.roll(year.humidity, hours),
        wind=np.roll(year.wind, hours),
        daylight=np.roll(year.daylight, hours * CELLS),
    )


# The arrays of a bundled year, and the factor by which each is multiplied to be stored as integers.
STORED = {"temperature": 10, "humidity": 1, "wind": 10, "daylight": 1}


def write_bundle(path: Path = BUNDLE) -> None:
    """Write the file of bundled years from the weather files that come with pvlib."""
    years = pvlib_years()
    arrays = {
        f"{name}_{i}": np.rint(getattr(year, name) * scale).astype(np.int32)
        for i, year in enumerate(years)
        for name, scale in STORED.items()
    }
    coordinates = np.array([(year.latitude, year.longitude) for year in years])
    np.savez_compressed(path, places=np.array([year.place for year in years]), coordinates=coordinates, **arrays)


def pvlib_years() -> tuple[TypicalYear, ...]:
    """The three typical years that come with pvlib, as pvlib reads them."""
    import pvlib

    sand_point, greensboro, miami = (Path(pvlib.__file__).parent / "data" / name for name in BUNDLED)
    years = []
    for path in (sand_point, greensboro):
        data, meta = pvlib.iotools.read_tmy3(path, coerce_year=YEAR)
        place = f"{meta['Name']}, {meta['State']}".replace('"', "")
        years.append(_make_year(place, meta, data["temp_air"], data["relative_humidity"], data["ghi"], data["wind_speed"]))
    data, meta = pvlib.iotools.read_tmy2(miami)
    place = f"{meta['City']}, {meta['State']}"
    # Temperature and wind stand in tenths in this file.
    years.append(_make_year(place, meta, data["DryBulb"] / 10, data["RHum"], data["GHI"], data["Wspd"] / 10))
    return tuple(years)


# Years from users' files


@lru_cache(maxsize=64)
def _load_epw_year(path: str) -> TypicalYear:
    """A year from an EPW file. Raises `InputError`, which names the file and, where known, the line."""
    from pvlib.iotools import read_epw

    text = _read_epw_text(path)
    try:
        data, meta = read_epw(io.StringIO(text), coerce_year=YEAR)
        columns = []
        for column in EPW_COLUMNS:  # gaps are filled by linear interpolation
            values = data[column.pvlib].to_numpy(float)
            known = np.flatnonzero(values < column.missing)
            filled = np.interp(np.arange(len(values)), known, values[known]) if len(known) else np.zeros(len(values))
            columns.append(filled)
    except Exception as error:  # pandas raises many types of errors for malformed rows
        raise InputError(f"the weather cannot be read: {error}", path, EPW_REMEDY) from None
    if len(data) != HOURS:
        what = f"the weather cannot be read: {len(data)} of {HOURS} hours are left, a quotation mark may have swallowed some"
        raise InputError(what, path, EPW_REMEDY)
    return _make_year(", ".join(part for part in (meta["city"], meta["country"]) if part), meta, *columns)


def _read_epw_text(path: str) -> str:
    """The text of an EPW file without a 29 February, after a check of its coordinates and of the columns that are used."""
    try:
        text = Path(path).read_bytes().decode("latin-1")
    except (OSError, ValueError) as error:  # ValueError: the path holds a null character
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the weather file cannot be read: {reason}", path, EPW_REMEDY) from None
    lines = text.replace("\r\n", "\n").rstrip().split("\n")  # splitlines would also split at \x85
    head = lines[0].split(",")
    numbers = zip(map(_finite_number, head[6:10]), PLACE)
    placed = all(number is not None and low <= number <= high for number, (low, high) in numbers)
    if len(head) < 10 or head[0].upper() != "LOCATION" or not placed:
        what = "not an EPW file: its first line gives no LOCATION with coordinates"
        raise InputError(what, f"{path}:1", EPW_REMEDY)
    rows = dict[int, str]()  # by the hour of the year
    for number, row in enumerate(lines[EPW_HEADER:], EPW_HEADER + 1):
        fields = row.split(",")
        if problem := _find_row_problem(fields):
            raise InputError(problem, f"{path}:{number}", EPW_REMEDY)
        month, day, hour = (_finite_number(field) for field in fields[1:4])
        if (month, day) == (2, 29):
            continue
        hour_of_year = _hour_of_year(month, day, hour)
        if hour_of_year is None:
            what = f"no hour of a year has month {fields[1]}, day {fields[2]} and hour {fields[3]}, which is 1 to 24"
            raise InputError(what, f"{path}:{number}", EPW_REMEDY)
        if hour_of_year in rows:
            what = f"month {fields[1]}, day {fields[2]}, hour {fields[3]} stands twice; read are files of one record an hour"
            raise InputError(what, f"{path}:{number}", EPW_REMEDY)
        rows[hour_of_year] = row
    if len(rows) != HOURS:
        what = f"the file holds {len(rows)} hours, a year has {HOURS}"
        raise InputError(what, f"{path}:{len(lines)}", EPW_REMEDY)
    return "\n".join([*lines[:EPW_HEADER], *(rows[place] for place in range(HOURS))])


def _hour_of_year(month: float | None, day: float | None, hour: float | None) -> int | None:
    """The number of an hour in the year, from 0; None if no year has it. Hours of a day are 1 to 24, by their ends."""
    if month is None or day is None or hour is None or hour not in range(1, 25) or month not in range(1, 13):
        return None
    if day not in range(1, calendar.monthrange(YEAR, int(month))[1] + 1):
        return None
    return (datetime(YEAR, int(month), int(day)) - datetime(YEAR, 1, 1)).days * 24 + int(hour) - 1


def _find_row_problem(fields: list[str]) -> str | None:
    """What is wrong with one hour of an EPW file, if anything."""
    if len(fields) < EPW_FIELDS:
        return f"this hour has {len(fields)} fields, an EPW hour has {EPW_FIELDS}"
    for column in EPW_COLUMNS:
        text = fields[column.field]
        value = _finite_number(text)
        if value is None or not (column.low <= value <= column.high or value >= column.missing):
            return f"{column.pvlib} (field {column.field + 1}) is '{text}', not {column.low}..{column.high}"
    return None


def _finite_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _make_year(
    place: str, meta: Mapping[str, Any], temperature: Any, humidity: Any, irradiance: Any, wind: Any
) -> TypicalYear:
    """A year from hourly columns. `irradiance` (W/m2) is the mean of the hour that ends at the time of the row."""
    latitude, longitude = round(float(meta["latitude"]), 3), round(float(meta["longitude"]), 3)
    height = _sun_heights(latitude, longitude, float(meta["TZ"])).reshape(HOURS, CELLS)
    mean = height.mean(axis=1)
    # The light of an hour is spread over its ten-minute cells in proportion to the height of the sun.
    share = np.divide(height, mean[:, None], out=np.zeros_like(height), where=mean[:, None] > 0.01)
    daylight = np.asarray(irradiance, float)[:, None] * share * LUX_PER_WATT
    return TypicalYear(
        place,
        latitude,
        longitude,
        temperature=np.clip(np.asarray(temperature, float), *BOUNDS[0]),
        humidity=np.clip(np.asarray(humidity, float), 0, 100),
        wind=np.asarray(wind, float),
        daylight=np.rint(np.clip(daylight, 0, 120_000)).ravel(),
    )


def _sun_heights(latitude: float, longitude: float, timezone: float) -> np.ndarray:
    """The sine of the sun's elevation in the middle of every ten minutes of the year, shape (52560,); 0 at night."""
    from pvlib import solarposition

    hours = (np.arange(HOURS * CELLS) + 0.5) / CELLS
    day = hours // 24 + 1
    solar_time = hours % 24 + longitude / 15 - timezone + solarposition.equation_of_time_spencer71(day) / 60
    # The sun moves by 15 degrees an hour, and is highest at noon of solar time.
    zenith = solarposition.solar_zenith_analytical(
        np.radians(latitude), np.radians(15 * (solar_time - 12)), solarposition.declination_spencer71(day)
    )
    height: np.ndarray = np.maximum(np.cos(zenith), 0)
    return height
