"""What an entity says of its own limits: the options and ranges of its attributes and of its services' arguments.

Invariant: a limit that the entity does not give, or that makes no sense, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from homerl.envs.assistant.listing.home_listing import ListedEntity
from homerl.envs.homeenv.sim.assist.entities_of_home import DEAD
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, UNIT_SIGNS

Typed = dict[str, Any]  # an attribute or argument as JSON

OPTIONS = {  # the attribute that lists options -> the names of what takes one of them
    "effect_list": ("effect",), "hvac_modes": ("hvac_mode",), "preset_modes": ("preset_mode",), "fan_modes": ("fan_mode",),
    "swing_modes": ("swing_mode",), "swing_horizontal_modes": ("swing_horizontal_mode",), "source_list": ("source",),
    "sound_mode_list": ("sound_mode",), "available_modes": ("mode",), "operation_list": ("operation_mode",),
    "fan_speed_list": ("fan_speed",), "available_tones": ("tone",), "supported_speeds": ("speed",), "options": ("option",),
    "event_types": ("event_type",),
}  # fmt: skip
STATES = {  # domain -> the attribute that lists the options of its state
    "climate": "hvac_modes",
    "water_heater": "operation_list",
    "select": "options",
    "input_select": "options",
    "sensor": "options",
}
RANGES = {  # names of what is limited -> the attributes with its least and greatest value
    "temperature": ("min_temp", "max_temp"),
    "target_temp_low": ("min_temp", "max_temp"),
    "target_temp_high": ("min_temp", "max_temp"),
    "humidity": ("min_humidity", "max_humidity"),
    "color_temp_kelvin": ("min_color_temp_kelvin", "max_color_temp_kelvin"),
}
VALUES = {  # domain -> the attributes that limit its state, and the argument `value`
    "number": ("min", "max"),
    "input_number": ("min", "max"),
    "counter": ("minimum", "maximum"),
    "text": ("min", "max"),
    "input_text": ("min", "max"),
}
UNROUNDED = {
    "input_number": {"state": ("precision",), "value": ("precision",), "step": ("precision", "range")}
}  # any is kept
COUNTED = 1_000_000  # to which a counter counts that is told no end
STEP = 0.1  # of what moves and is no whole number
TEXTS = ("text", "input_text")  # domains whose limits are of a length
MOMENTS = {"date": "date", "time": "time", "datetime": "instant"}  # domains of moments, with how they write their state
HELD = {(True, True): "datetime", (True, False): "date", (False, True): "time"}  # by whether it has a date, and a time
DUE = ("todo", "due_date")
WAKING = ("heat_cool", "heat", "cool")  # modes of a thermostat, of which the first that it has is on
CAPABILITIES = frozenset(  # attributes that are limits, or are of no interest to a home
    [*OPTIONS, *(name for pair in (*RANGES.values(), *VALUES.values()) for name in pair)]
) | frozenset(
    "friendly_name icon supported_features supported_color_modes device_class state_class "
    "unit_of_measurement attribution editable assumed_state step target_temp_step target_humidity_step percentage_step "
    "pattern id restored entity_picture initial "
    "precipitation_unit pressure_unit temperature_unit visibility_unit wind_speed_unit code_arm_required "
    "display_precision release_url release_summary title auto_update native_unit_of_measurement".split()
)
UNITS = {sign: unit for unit, sign in UNIT_SIGNS.items()} | {"°F": "fahrenheit"}


def apply_entity_limits(typed: Mapping[str, Any], name: str, entity: ListedEntity) -> Typed:
    """The attribute or argument of this name with the entity's own limits."""
    changed = dict(typed)
    own = moment_format(entity)
    moment = own if own and name in ("state", own, entity.domain) else "date" if (entity.domain, name) == DUE else None
    if typed["type"] == "str" and moment is not None:
        changed |= {"format": moment} | ({"zone": entity.zone} if moment == "instant" and entity.zone else {})
    if typed["type"] == "int" and isinstance(now := entity.attributes.get(name), float) and now % 1:
        changed |= {"type": "float"} | ({"precision": STEP} if "moves" in typed else {})
    if options := _list_options(name, entity):
        changed["type"] = "str"
        changed["options"] = [*options, *(one for one in DEAD if name == "state" and one not in options)]
    elif name == "state" and "options" in typed and entity.state not in (*typed["options"], *DEAD):
        changed["options"] = [*typed["options"], entity.state]
    elif (bounds := _find_bounds(name, entity)) and (typed["type"] in NUMBERS) == (entity.domain not in TEXTS):
        changed["range"] = list(bounds)
        if typed["type"] == "int" and any(bound % 1 for bound in bounds):
            changed["type"] = "float"
        precision = typed.get("precision")
        if precision and any(abs(bound / precision - round(bound / precision)) > 1e-9 for bound in bounds):
            changed["precision"] = None  # the bounds do not keep it
    unit = entity.attributes.get("unit_of_measurement") if name in ("state", "value") else None
    if isinstance(unit, str) and unit:
        changed["unit"] = UNITS.get(unit, unit)
    free = UNROUNDED.get(entity.domain, {}).get(name, ())
    return {key: one for key, one in changed.items() if key not in free}


def _list_options(name: str, entity: ListedEntity) -> list[str] | None:
    listing = next((key for key, names in OPTIONS.items() if name in names), None)
    if name == "state":
        listing = STATES.get(entity.domain)
    given = entity.attributes.get(listing or "")
    options = [str(option) for option in given] if isinstance(given, list) else []
    if options and name == "state":
        options += ["off"] if f"{entity.domain}.turn_off" in entity.services else []
        options += [entity.state] if entity.state not in DEAD else []
    return list(dict.fromkeys(options)) or None


def switched_on_state(entity: ListedEntity, options: Sequence[str]) -> str | None:
    """The state in which something is switched on that has several such: as Home Assistant chooses, else the first."""
    waking = [option for option in options if option not in ("off", *DEAD)]
    if entity.domain != "climate" or len(waking) == 1:
        return next(iter(waking), None)
    return next((mode for mode in WAKING if mode in waking), None)


def _find_bounds(name: str, entity: ListedEntity) -> tuple[float, float] | None:
    keys = VALUES.get(entity.domain) if name in ("state", "value") else RANGES.get(name)
    low, high = (entity.attributes.get(key) for key in keys or ("", ""))
    if entity.domain == "counter" and keys:  # it counts below zero, unless it is told not to
        low, high = -COUNTED if low is None else low, COUNTED if high is None else high
    number = all(isinstance(bound, (int, float)) and not isinstance(bound, bool) for bound in (low, high))
    return (low, high) if number and low < high else None  # type: ignore[return-value, operator]


def moment_format(entity: ListedEntity) -> str | None:
    """How an entity writes its state, if that is a date, a time or both: see `types_and_ranges.py` of HomeEnv."""
    if entity.domain == "input_datetime":
        return HELD.get((entity.attributes.get("has_date") is True, entity.attributes.get("has_time") is True))
    return MOMENTS.get(entity.domain)
