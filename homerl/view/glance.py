"""What a device says at a glance: a few words, whether it is active, its level and the colour of its light.

Invariants: pure functions of specification and values; nothing depends on the category, so that users' own devices
speak as well as the shipped ones; a device that is off says no more than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from envs.homeenv.spec import Attribute, Component, DeviceSpec
from envs.homeenv.types import NUMBERS, ValueType

Tone = Literal["on", "off", "alert", "plain"]
TONES: tuple[Tone, ...] = ("alert", "on", "plain", "off")  # a device has the first that a part of it has
IDLE = {"off", "locked", "closed", "docked", "idle", "standby", "stopped", "paused"}
ALERT = {"unlocked", "open", "jammed", "leak", "alarm"}
SHORT = 24  # characters; an attribute beyond the first is said only if it fits
# How an attribute is said, the most telling first; others come after these, as "name value".
SAID = {
    "position": "{} open", "playing": "{}", "running": "{}", "motion": "{}", "ac_mode": "{}",
    "target_temperature": "→ {}", "target_humidity": "→ {}", "brightness": "{}", "speed": "speed {}",
    "temperature": "{}", "humidity": "{}", "illuminance": "{}", "pm25": "PM2.5 {}", "program": "{}", "mode": "{}",
    "source": "{}", "fan_speed": "fan {}", "volume": "volume {}", "fridge_temperature": "fridge {}",
    "freezer_temperature": "freezer {}",
}  # fmt: skip
NOT = {"playing": "silent", "motion": "no motion", "running": "ready"}
FIRM = "\N{NO-BREAK SPACE}"
LEVELS = ("position", "brightness")  # shown as a bar
UNITS = {"celsius": "°C", "percentage": "%", "lux": "lx", "kelvin": "K", "minute": "min", "ug/m3": "µg/m³"}
WARM, DAYLIGHT = (255, 190, 110), (220, 233, 255)  # white light of 2700 K and of 6500 K


@dataclass(frozen=True)
class Glance:
    """`level` is a percentage, `tint` a CSS colour; both only where the device has them now."""

    tone: Tone
    words: str
    level: int | None = None
    tint: str | None = None


def glance(spec: DeviceSpec, values: Mapping[str, Any]) -> Glance:
    """The device as its tile shows it."""
    parts = {prefix: _part(prefix, part, values) for prefix, part in spec.parts() if part.attributes}
    if len(parts) < 2:
        return next(iter(parts.values()), Glance("plain", ""))
    shown = list(parts.values())
    tone = next(tone for tone in TONES if any(part.tone == tone for part in shown))
    speaking = ((prefix[:-1].replace("_", " "), part) for prefix, part in parts.items() if part.tone != "off")
    words = ", ".join(f"{name} {part.words}".strip() for name, part in speaking) or shown[0].words
    level = next((part.level for part in shown if part.level is not None), None)
    return Glance(tone, words, level, next((part.tint for part in shown if part.tint), None))


def say(kind: ValueType, value: Any) -> str:
    """A value with its unit, for people."""
    if value is None or isinstance(value, (str, bool)):
        return str(value)
    if kind.type == "dict":
        return ", ".join(f"{name} {part}" for name, part in value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if kind.unit == "degree":
        return f"{value}°"
    return f"{value}{FIRM}{UNITS.get(kind.unit, kind.unit)}" if kind.unit else str(value)


def _part(prefix: str, part: Component, values: Mapping[str, Any]) -> Glance:
    """One component, or the device itself."""
    mine = {a.name: values[prefix + a.name] for a in part.attributes}
    state = _word(mine["state"]) if "state" in mine else None
    tone = _tone(state, mine)
    if state == "off":
        return Glance("off", "off")
    order = {name: rank for rank, name in enumerate(SAID)}
    telling = sorted((a for a in part.attributes if a.name != "state"), key=lambda a: order.get(a.name, len(order)))
    words = state or ""
    for said in _telling(telling, mine, state is not None):
        if words and len(words) + len(said) + 3 > SHORT and (state is None or " · " in words):
            break
        words = f"{words} · {said}" if words else said
    return Glance(tone, words, _level(part, mine), _tint(part, mine) if tone == "on" else None)


def _word(state: Any) -> str:
    """A state as people say it; some devices keep theirs as a bool."""
    return ("on" if state else "off") if isinstance(state, bool) else str(state).lower().replace("_", " ")


def _level(part: Component, mine: Mapping[str, Any]) -> int | None:
    """How far open or bright, as a percentage of the most it can be."""
    for attribute in part.attributes:
        if attribute.name in LEVELS and attribute.type in NUMBERS and attribute.range and attribute.range[1] > 0:
            return round(100 * min(max(mine[attribute.name] / attribute.range[1], 0), 1))
    return None


def _tone(state: str | None, mine: Mapping[str, Any]) -> Tone:
    if state in ALERT:
        return "alert"
    active = [mine[name] for name in NOT if isinstance(mine.get(name), bool)]
    if state is not None:
        return "off" if state in IDLE else "on"
    return ("on" if any(active) else "off") if active else "plain"


def _telling(attributes: list[Attribute], mine: Mapping[str, Any], has_state: bool) -> Iterator[str]:
    """What attributes say; a bool says its name, and where it is false what that means, if it alone tells the state."""
    for attribute in attributes:
        name, value = attribute.name, mine[attribute.name]
        plain = name.replace("_", " ")
        if isinstance(value, bool):
            if value:
                yield plain
            elif not has_state and name in NOT:
                yield NOT[name]
        elif name in SAID:
            yield SAID[name].replace(" ", FIRM).format(say(attribute, value).replace("_", " "))
        elif attribute.type in (*NUMBERS, "enum", "str"):
            yield f"{plain} {say(attribute, value)}"


def _tint(part: Component, mine: Mapping[str, Any]) -> str | None:
    """The colour of a lamp that is on, never so dark that an icon on it could not be seen."""
    if "brightness" not in mine:
        return None
    if isinstance(hs := mine.get("hs_color"), tuple) and len(hs) == 2 and all(isinstance(x, (int, float)) for x in hs):
        hue, saturation = hs
        return f"hsl({hue:.0f} 100% {max(68, 100 - saturation / 2):.0f}%)"
    if isinstance(kelvin := mine.get("color_temperature"), (int, float)):
        share = min(max((kelvin - 2700) / 3800, 0), 1)
        red, green, blue = (round(warm + share * (cool - warm)) for warm, cool in zip(WARM, DAYLIGHT))
        return f"rgb({red} {green} {blue})"
    return "rgb(255 208 120)"
