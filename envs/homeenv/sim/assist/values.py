"""Values of Home Assistant as our services take them, and back.

Invariant: `taken(what, given(what, value, kind), kind) == value` wherever `given` gives something.
"""

from __future__ import annotations

import colorsys
import math
from functools import lru_cache
from typing import Any

from homerl.envs.homeenv.sim.assist.table import colour_codes
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.sim.values.types import ValueType

SHARES = {"brightness", "position", "percentage", "humidity", "volume"}  # numbers from 0 to 100 there


def to_service_value(what: str, value: Any, kind: ValueType) -> Any:
    """A value of a slot as a service takes it. Raises `Refused` if it takes no such value."""
    if what in SHARES:
        return kind.check_value(_from_share(value, kind))
    if what == "color":
        return kind.check_value(_colour(value, kind))
    if kind.type == "int" and isinstance(value, float) and value.is_integer():
        value = int(value)
    return kind.check_value(value)


def to_slot_value(what: str, value: Any, kind: ValueType) -> Any:
    """The value of a slot that stands for a service's argument, or None if there is none."""
    if what in SHARES:
        return _share(value, kind)
    if what == "color":
        return next((name for name in sorted(colour_codes()) if _matches(name, value, kind)), None)
    return value


def value_as_share(value: Any, kind: ValueType) -> int | None:
    """How far a setting is up, from 0 to 100, or None if it is no such setting."""
    return _share(value, kind)


@lru_cache(maxsize=4096)
def rgb_of_colour(name: str) -> tuple[int, int, int] | None:
    """The colour of a name, whose case and spaces do not matter; None if there is no such colour."""
    digits = colour_codes().get(name.replace(" ", "").lower())
    return None if digits is None else (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16))


def _from_share(share: int, kind: ValueType) -> Any:
    """An ordered list has its items at equal parts of 100, as levels that begin with 1 have."""
    if kind.options and kind.type in ("enum", "str", "int"):
        return kind.options[max(math.ceil(share * len(kind.options) / 100), 1) - 1]
    low, high = kind.range or (0, 100)
    if kind.type == "float" and high <= 1:
        return round(share / 100, 4)
    if high == 100 or kind.unit == "percentage":
        return float(share) if kind.type == "float" else share
    return round(share * high / 100) if low == 0 or high == 255 else max(math.ceil(share * high / 100), int(low))


def _share(value: Any, kind: ValueType) -> int | None:
    """The largest share that gives this value: a half of two levels is 50."""
    if value is None:
        return None
    for share in range(100, -1, -1):
        try:
            if kind.check_value(_from_share(share, kind)) == value:
                return share
        except Refused:
            continue
    return None


def _colour(name: Any, kind: ValueType) -> Any:
    rgb = rgb_of_colour(name) if isinstance(name, str) else None
    if rgb is None:
        raise Refused("out_of_range", "there is no such colour")
    if kind.type == "hex":
        return "#{:02x}{:02x}{:02x}".format(*rgb)
    if len(kind.items or ()) == 3:
        return rgb
    hue, saturation, _ = colorsys.rgb_to_hsv(*(part / 255 for part in rgb))
    return round(hue * 360, 3), round(saturation * 100, 3)


def _matches(name: str, value: Any, kind: ValueType) -> bool:
    try:
        return bool(kind.check_value(_colour(name, kind)) == value)
    except Refused:
        return False
