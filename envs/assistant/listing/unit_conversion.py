"""Products in the units of a home: a product is written in celsius and km/h, and its home may show fahrenheit and mph.

Invariants: every bound, start and target of what is in another unit there is converted with it; the unit of an entity is
its own, else that of its home, else that of the home's sensors, which a note says.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NamedTuple

from homerl.envs.assistant.listing.generic_products import ImportNote
from homerl.envs.assistant.listing.home_listing import CONFIG, STATES, ListedEntity, Listing

TOLD = {  # the unit in which a product is written -> the attribute, and the part of the unit system, with that of a home
    "celsius": ("temperature_unit", "temperature"),
    "km/h": ("wind_speed_unit", "wind_speed"),
}

SYSTEMS = {  # the units of a home by the name of its system
    "metric": {"temperature": "°C", "wind_speed": "m/s"},
    "us_customary": {"temperature": "°F", "wind_speed": "mph"},
}
SYSTEMS["imperial"] = SYSTEMS["us_customary"]  # as it was called before
DEGREES = ("°C", "°F")
SHOWN = frozenset("temperature current_temperature target_temp_low target_temp_high min_temp max_temp".split())


class UnitConversion(NamedTuple):
    """From the unit of a product to `unit`: `value * factor + offset`."""

    unit: str
    factor: float
    offset: float = 0

    def convert_value(self, value: float) -> float:
        """The value in the other unit, to one place."""
        return round(value * self.factor + self.offset, 1)


CONVERSIONS = {
    ("celsius", "°F"): UnitConversion("fahrenheit", 1.8, 32),
    ("km/h", "mph"): UnitConversion("mph", 0.621371),
    ("km/h", "m/s"): UnitConversion("m/s", 1 / 3.6),
    ("km/h", "kn"): UnitConversion("kn", 0.539957),
    ("km/h", "ft/s"): UnitConversion("ft/s", 0.911344),
}


def temperature_unit(entity: ListedEntity) -> str | None:
    """The unit of the temperatures that an entity shows, as Home Assistant writes it; None if nothing tells it."""
    return _shown_unit(entity, "celsius")


def with_temperature_unit(listing: Listing) -> tuple[Listing, list[ImportNote]]:
    """The listing of a home that tells in which unit its temperatures are, if only by its sensors, and what is not known."""
    config, rows = listing.sources[CONFIG], listing.sources[STATES]
    units = config.get("unit_system") or {}
    bare = [
        row["entity_id"] for row in rows if SHOWN & row["attributes"].keys() and "temperature_unit" not in row["attributes"]
    ]
    if units.get("temperature") in DEGREES or not bare:
        return listing, []
    seen = {unit for row in rows if (unit := row["attributes"].get("unit_of_measurement")) in DEGREES}
    unit = seen.pop() if len(seen) == 1 else DEGREES[0]
    why = f"nothing tells in which units this home measures, so {', '.join(sorted(bare))} are taken to show {unit}"
    sources = listing.sources | {CONFIG: config | {"unit_system": units | {"temperature": unit}}}
    return listing.model_copy(update={"sources": sources}), [ImportNote("", "unit_system", why)]


def convert_to_entity_units(entity: ListedEntity, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification with its attributes and arguments in the units that the entity shows."""
    attributes = [_convert_typed(one, entity) for one in spec.get("attributes", ())]
    services = [dict(service) for service in spec.get("services", ())]
    for service in services:
        if "arguments" in service:
            service["arguments"] = [_convert_typed(one, entity) for one in service["arguments"]]
    return {**spec, "attributes": attributes, "services": services}


def _shown_unit(entity: ListedEntity, unit: str) -> str | None:
    attribute, part = TOLD[unit]
    told = entity.attributes.get(attribute) or entity.units.get(part)
    return told if isinstance(told, str) else None


def _convert_typed(typed: Mapping[str, Any], entity: ListedEntity) -> dict[str, Any]:
    unit = typed.get("unit")
    conversion = CONVERSIONS.get((unit, _shown_unit(entity, unit) or "")) if unit in TOLD else None
    if conversion is None:
        return dict(typed)
    changed = {**typed, "unit": conversion.unit}
    if "range" in typed:
        changed["range"] = [conversion.convert_value(bound) for bound in typed["range"]]
    if "starts" in typed:
        changed["starts"] = _convert_expression(typed["starts"], conversion)
    if moves := typed.get("moves"):
        rate = round(moves["rate"] * conversion.factor, 9)
        changed["moves"] = {"to": _convert_expression(moves["to"], conversion), "rate": rate}
    return changed


def _convert_expression(text: str, conversion: UnitConversion) -> str:
    """The expression, with the numbers that may be its value converted. What it compares is left as it is."""
    return ast.unparse(_convert_node(ast.parse(text, mode="eval").body, conversion))


def _convert_node(node: ast.expr, conversion: UnitConversion) -> ast.expr:
    if isinstance(node, ast.IfExp):
        return ast.IfExp(node.test, _convert_node(node.body, conversion), _convert_node(node.orelse, conversion))
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return ast.Constant(conversion.convert_value(node.value))
    return node
