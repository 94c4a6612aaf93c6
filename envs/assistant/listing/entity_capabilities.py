"""What an entity can do: which services it supports, with which fields, and the limits of its attributes.

`services.json` holds the forms of services of one version, for homes that do not list theirs. `scripts/ha/forms.py` makes it
from the records.

Invariants: a service is supported as Home Assistant's `get_services_for_target` says. A limit that the entity does not give,
or that makes no sense, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from homerl.envs.assistant.listing.home_listing import ListedEntity, entity_domain, is_number
from homerl.envs.core.documents import read_json
from homerl.envs.homeenv.sim.assist.entities_of_home import DEAD
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, UNIT_SIGNS

Forms = Mapping[str, Mapping[str, Mapping[str, Any]]]  # domain -> service -> form
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


@cache
def shipped_service_forms() -> dict[str, Any]:
    """The forms of the version that homerl knows."""
    forms: dict[str, Any] = read_json(Path(__file__).with_name("services.json")).data["services"]
    return forms


def supported_services(forms: Forms, entity: str, attributes: Mapping[str, Any]) -> list[str]:
    """The services of its own domain that an entity supports, as `light.turn_on`."""
    domain, found = entity_domain(entity), []
    for name, form in forms.get(domain, {}).items():
        target = form.get("target")
        places = [] if target is None else target.get("entity") or [{}]
        for place in [places] if isinstance(places, Mapping) else places:
            features, kinds = place.get("supported_features"), place.get("device_class")
            if (
                domain in (place.get("domain") or [domain])
                and (not features or _has_any_feature(features, attributes))
                and (not kinds or attributes.get("device_class") in kinds)
            ):
                found.append(f"{domain}.{name}")
                break
    return sorted(found)


def applicable_fields(form: Mapping[str, Any], attributes: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of a service that make sense for an entity with these attributes; those in sections among them."""
    for name, field in all_service_fields(form):
        needs = field.get("filter") or {}
        features, wanted = needs.get("supported_features"), needs.get("attribute") or {}
        if features and not _has_any_feature(features, attributes):
            continue
        if all(set(values) & set(attributes.get(key) or ()) for key, values in wanted.items()):
            yield name, field


def all_service_fields(form: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All fields of a service, for whatever entity."""
    for name, field in form.get("fields", {}).items():
        if "fields" in field:
            yield from all_service_fields(field)
        else:
            yield name, field


def supported_feature_bits(attributes: Mapping[str, Any]) -> int:
    """The features of an entity as bits; none if it tells no number."""
    told = attributes.get("supported_features")
    return int(told) if isinstance(told, int) or (isinstance(told, float) and isfinite(told)) else 0


def _has_any_feature(needed: list[int], attributes: Mapping[str, Any]) -> bool:
    """Whether one of several features, or combinations of them, is supported."""
    has = supported_feature_bits(attributes)
    return any(has & bits == bits for bits in needed)


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
    return (low, high) if is_number(low) and is_number(high) and low < high else None


def moment_format(entity: ListedEntity) -> str | None:
    """How an entity writes its state, if that is a date, a time or both: see `types_and_ranges.py` of HomeEnv."""
    if entity.domain == "input_datetime":
        return HELD.get((entity.attributes.get("has_date") is True, entity.attributes.get("has_time") is True))
    return MOMENTS.get(entity.domain)
