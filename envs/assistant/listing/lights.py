"""What a light can do, by its colour modes: one that is off may not show it, and older versions tell it in mireds.

Invariant: a light that shows all this, in kelvin, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLOURED = ("hs", "xy", "rgb", "rgbw", "rgbww")  # colour modes with a hue and a saturation, in whatever numbers
PLAIN = ("onoff", "unknown")  # those without a brightness
WHITE = ("white", "rgbw", "rgbww")  # those with a white of their own, which is not known here
MIREDS = {  # millions by kelvin, as older versions tell it
    "color_temp": "color_temp_kelvin",
    "min_mireds": "max_color_temp_kelvin",
    "max_mireds": "min_color_temp_kelvin",
}


def complete_light_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a light, with null for what it can show and does not show now."""
    has = light_colour_modes(attributes)
    can = ["brightness", "color_mode"] if has.difference(PLAIN) else []
    can += ["color_temp_kelvin"] if "color_temp" in has else []
    can += ["hs_color", "rgb_color"] if has.intersection(COLOURED) else []
    can += ["effect"] if attributes.get("effect_list") else []
    kelvin = {name: _kelvin(attributes[mireds]) for mireds, name in MIREDS.items() if attributes.get(mireds)}
    shown = {name: value for name, value in attributes.items() if name not in MIREDS}
    return dict.fromkeys(can) | kelvin | shown


def limit_light_modes(spec: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of a light, which has one mode if it has no colour and no white of several kinds."""
    modes = light_colour_modes(attributes)
    if len(modes) != 1 or not modes <= {"onoff", "brightness"}:
        return spec
    (mode,) = modes
    own = {"options": [mode], "derived": f"'{mode}' if self.state == 'on' else None"}
    return spec | {"attributes": [one | own if one["name"] == "color_mode" else one for one in spec["attributes"]]}


def light_colour_modes(attributes: Mapping[str, Any]) -> set[str]:
    """The colour modes of a light."""
    modes = attributes.get("supported_color_modes")
    return {mode for mode in modes if isinstance(mode, str)} if isinstance(modes, list) else set()


def _kelvin(mireds: Any) -> int | None:
    number = isinstance(mireds, (int, float)) and not isinstance(mireds, bool) and mireds >= 1
    return int(1_000_000 // mireds) if number else None
