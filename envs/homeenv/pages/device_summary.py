"""A short summary of a device: a few words, whether it is active, its level, and the colour of its light.

Invariants: all functions depend on specification and values alone, and not on the category, so that user-defined devices
are summarised as well as the shipped ones; the summary of a device that is off is just "off".
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from homerl.envs.homeenv.sim.devices.attributes_and_services import Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Component, DeviceSpec
from homerl.envs.homeenv.sim.values.types_and_ranges import HEX, NUMBERS, UNIT_SIGNS, ValueType

Tone = Literal["on", "off", "alert", "plain"]
TONES: tuple[Tone, ...] = ("alert", "on", "off", "plain")  # a device has its components' first tone in this order
STATES = ("state", "work_state", "contact")  # the attributes that hold a state, as brands name them
IDLE = {"off", "locked", "closed", "docked", "charging", "disarmed", "idle", "standby", "stopped", "paused"}
ALERT = {
    "unlocked", "open", "jammed", "alarm", "triggered", "smoke", "leak", "gas", "ringing", "tampered", "obstructed",
    "overloaded", "offline", "door open", "window open", "tank empty", "tank full", "bin full", "lint full", "food empty",
    "unavailable",
}  # fmt: skip
HARMFUL = {"carbon_monoxide", "open_zones"}  # numbers that should be zero, and are shown only if they are not
SHORT = 24  # characters; attributes after the first are shown only if they fit
# Words for true and for false; a bool that is not listed shows its name if true, and nothing if false.
TRUTH = {
    **{name: (name, f"no {name}") for name in ("motion", "smoke", "leak", "gas", "vibration")},
    **dict.fromkeys(("human_detected", "presence", "occupancy"), ("someone there", "nobody there")),
    "playing": ("playing", "silent"),
    "ringing": ("ringing", "silent"),
    "pressed": ("someone rings", "nobody rings"),
    "running": ("running", "ready"),
    "watering": ("watering", "not watering"),
    "recording": ("recording", "not recording"),
    "rain_detected": ("rain", ""),
    "brewing": ("brewing", ""),
    "online": ("", "offline"),
    "available": ("", "unavailable"),
    "on_base": ("", "off its base"),
}
YES_NO = {"yes": True, "no": False}
# Formats of numbers and words, the most informative first; other attributes follow as "name value".
VALUE_FORMATS = {
    "position": "{} open", "current_position": "{}", "carbon_monoxide": "CO {}", "ac_mode": "{}",
    "current_temperature": "{}",
    "current_water_temperature": "{}", "target_temperature": "→ {}", "target_water_temperature": "→ {}",
    "current_humidity": "{}", "target_humidity": "→ {}", "brightness": "{}", "screen_brightness": "{}",
    "speed": "speed {}", "speed_level": "speed {}", "power": "{}", "power_level": "power {}", "pm25": "PM2.5 {}",
    "carbon_dioxide": "CO₂ {}", "temperature": "{}", "humidity": "{}", "illuminance": "{}",
    "no_move_duration": "still for {}", "program": "{}", "mode": "{}", "work_mode": "{}", "drink": "{}", "minutes": "{}",
    "source": "{}", "fan_speed": "fan {}", "volume": "volume {}", "volume_level": "volume {}",
    "fridge_temperature": "fridge {}", "freezer_temperature": "freezer {}", "battery": "battery {}",
    "battery_level": "battery {}",
}  # fmt: skip
RANK = {name: rank for rank, name in enumerate((*TRUTH, *VALUE_FORMATS))}
FIRM = "\N{NO-BREAK SPACE}"
BYTE = 255
LEVELS = ("position", "brightness", "screen_brightness")  # shown as a bar
UNITS = UNIT_SIGNS | {"watt": "W", "litre": "l", "ug/m3": "µg/m³"}
WARM, DAYLIGHT = (255, 190, 110), (220, 233, 255)  # white light of 2700 K and of 6500 K


@dataclass(frozen=True)
class DeviceSummary:
    """What a tile shows of a device.

    `level` is a percentage and `tint` a CSS colour; each is None if the device does not have it now.
    """

    tone: Tone
    words: str
    level: int | None = None
    tint: str | None = None


@dataclass(frozen=True)
class _AttributeText:
    """The words for one attribute. The most informative text sorts first by `rank`."""

    rank: tuple[bool, int, bool]
    words: str
    tone: Tone
    measured: bool


def device_summary(spec: DeviceSpec, values: Mapping[str, Any]) -> DeviceSummary:
    """The summary of a device; `values` maps each attribute path to its value."""
    parts = {prefix: _summarise_part(prefix, part, values) for prefix, part in spec.parts_by_prefix() if part.attributes}
    shown = list(parts.values())
    tone: Tone = next((tone for tone in TONES if any(part.tone == tone for part in shown)), "plain")
    words = shown[0].words if len(shown) == 1 else _join_parts(parts, tone)
    if not words:  # all values are false or zero
        false = (path for path in spec.attribute_index if values.get(path) in (False, 0))
        words = next((f"no {path.replace('.', ' ').replace('_', ' ')}" for path in false), "")
    level = next((part.level for part in shown if part.level is not None), None)
    tint = next((part.tint for part in shown if part.tint), None) if tone == "on" else None
    return DeviceSummary(tone, words, level, tint)


def value_with_unit(kind: ValueType, value: Any) -> str:
    """A value with its unit, as readable text."""
    if value is None or isinstance(value, (str, bool)):
        return str(value)
    if kind.type == "dict":
        return ", ".join(f"{name} {part}" for name, part in value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return _add_unit(value, kind.unit)


def _add_unit(value: Any, unit: str | None) -> str:
    if unit == "degree":
        return f"{value}°"
    return f"{value}{FIRM}{UNITS.get(unit, unit)}" if unit else str(value)


def _join_parts(parts: Mapping[str, DeviceSummary], tone: Tone) -> str:
    """The words of several components: the urgent ones first. Components that are off are left out unless all are off."""
    speaking = sorted((part for part in parts.items() if part[1].words), key=lambda part: TONES.index(part[1].tone))
    said = []
    for prefix, words in ((prefix, part.words) for prefix, part in speaking if part.tone != "off"):
        # After a component's name, "on" is left out if there are more words.
        said.append(f"{prefix[:-1].replace('_', FIRM)}{FIRM}{words.removeprefix('on · ')}" if prefix else words)
    if tone == "off":
        said.insert(0, speaking[0][1].words.partition(" · ")[0])
    return ", ".join(said)


def _summarise_part(prefix: str, part: Component, values: Mapping[str, Any]) -> DeviceSummary:
    """The summary of one component, or of the device itself. An idle one shows its measurements but not its settings."""
    mine = {a.name: value for a in part.attributes if (value := values.get(prefix + a.name)) is not None}
    key = next((name for name in STATES if name in mine), None)
    state, tones = None, {"plain"}
    if key:  # some devices store their state as a bool
        shown = mine[key]
        state = ("on" if shown else "off") if isinstance(shown, bool) else str(shown).lower().replace("_", " ")
        if type(shown) in (int, float):  # a sensor that is its measurement
            state = _shorten_value(next(a for a in part.attributes if a.name == key), shown)
        tones = {"alert" if state in ALERT else "off" if state in IDLE else "on"}
    if state == "off":
        return DeviceSummary("off", "off")
    told = {f"is_{option}" for a in part.attributes if a.name == key for option in a.options or ()}  # by the state itself
    others = (a for a in part.attributes if a.name != key and a.name in mine and a.name not in told)
    said = [said for a in others if (said := _describe_attribute(a, mine[a.name], state is not None))]
    tones |= {one.tone for one in said}
    tone = next(tone for tone in TONES if tone in tones)
    telling = [one for one in said if tone != "off" or one.measured or one.tone != "plain"]
    # The state and the first text are shown, then as many of the other texts as fit.
    words, sure = [state] if state else [], 2 if state else 1
    for text in (one.words for one in sorted(telling, key=lambda one: one.rank)):
        if len(words) >= sure and len(" · ".join((*words, text))) > SHORT:
            break
        words.append(text)
    return DeviceSummary(tone, " · ".join(words), _level_percent(part, mine), _lamp_colour(mine) if tone == "on" else None)


def _describe_attribute(attribute: Attribute, value: Any, has_state: bool) -> _AttributeText | None:
    """The words for one attribute, or None."""
    if attribute.options:
        value = YES_NO.get(value, value)
    if isinstance(value, bool):
        words, tone = _describe_bool(attribute.name, value, has_state)
    else:
        words, tone = _describe_value(attribute, value)
    rank = (tone != "alert", RANK.get(attribute.name, len(RANK)), not attribute.read_only)
    return _AttributeText(rank, words.replace("_", " "), tone, attribute.read_only) if words else None


def _describe_bool(name: str, value: bool, has_state: bool) -> tuple[str, Tone]:
    """The words for a bool. False is shown if it is an alert, or if the component has no state attribute."""
    true, false = TRUTH.get(name, (name.replace("_", " "), ""))
    words = true if value else false
    if words in ALERT:
        return words, "alert"
    if has_state and not value:
        return "", "plain"
    return words.replace(" ", FIRM), ("on" if value else "off") if true and false else "plain"


def _describe_value(attribute: Attribute, value: Any) -> tuple[str, Tone]:
    """The words for a number or a word. Attributes of other types have none."""
    name = attribute.name
    if attribute.type not in (*NUMBERS, "enum", "str") or value == "" or (name in HARMFUL and not value):
        return "", "plain"
    if name == "position" and value == 0:
        return "closed", "plain"
    known = VALUE_FORMATS.get(name)
    said = known.replace(" ", FIRM) if known else f"{name.replace('_', ' ')}{FIRM}{{}}"
    return said.format(_shorten_value(attribute, value)), "alert" if name in HARMFUL else "plain"


def _shorten_value(kind: ValueType, value: Any) -> str:
    """A short form of a value: large numbers are rounded, and long times are in minutes or hours."""
    if kind.type not in NUMBERS:
        return str(value)
    if kind.unit == "second" and value >= 120:
        return f"{value / 3600:.1f}{FIRM}h" if value >= 7200 else f"{value / 60:.0f}{FIRM}min"
    if kind.range and kind.range[1] == BYTE and not kind.unit:  # as Home Assistant counts brightness
        return f"{100 * value / BYTE:.0f}{FIRM}%"
    return _add_unit(f"{value:,.0f}", kind.unit) if abs(value) >= 1000 else value_with_unit(kind, value)


def _level_percent(part: Component, mine: Mapping[str, Any]) -> int | None:
    """How far open or how bright, as a percentage of the attribute's maximum."""
    for attribute in part.attributes:
        bounded = attribute.type in NUMBERS and attribute.range and attribute.range[1] > 0
        if attribute.range and bounded and attribute.name in LEVELS and attribute.name in mine:
            share: float = min(max(mine[attribute.name] / attribute.range[1], 0), 1)
            return round(100 * share)
    return None


def _lamp_colour(mine: Mapping[str, Any]) -> str | None:
    """The colour of a lamp that is on, always light enough for an icon on it to be visible."""
    if "brightness" not in mine:
        return None
    if (colour := _hue_and_saturation(mine)) and mine.get("mode") != "white":
        hue, saturation = colour
        return f"hsl({hue:.0f} 100% {max(68, 100 - saturation / 2):.0f}%)"
    if isinstance(kelvin := mine.get("color_temperature"), (int, float)):
        share = min(max((kelvin - 2700) / 3800, 0), 1)
        red, green, blue = (round(warm + share * (cool - warm)) for warm, cool in zip(WARM, DAYLIGHT))
        return f"rgb({red} {green} {blue})"
    return "rgb(255 208 120)"


def _hue_and_saturation(mine: Mapping[str, Any]) -> tuple[float, float] | None:
    """Hue in degrees and saturation in percent."""
    if isinstance(hs := mine.get("hs_color"), tuple) and len(hs) == 2 and all(isinstance(x, (int, float)) for x in hs):
        return hs
    if isinstance(colour := mine.get("color"), str) and HEX.fullmatch(colour):
        hue, saturation, _ = colorsys.rgb_to_hsv(*(byte / 255 for byte in bytes.fromhex(colour[1:])))
        return 360 * hue, 100 * saturation
    return None
