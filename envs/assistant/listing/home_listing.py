"""What a light can do, by its colour modes: one that is off may not show it, and older versions tell it in mireds.

Invariant: a light that shows all this, in kelvin, stays as it is.

What a Home Assistant says of its home.

Invariants: `sources` holds its answers as it gave them, by command; all else is read from them. A listing written as JSON
and read again is equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

COLOURED = ("hs", "xy", "rgb", "rgbw", "rgbww")  # colour modes with a hue and a saturation, in whatever numbers
WITHOUT_BRIGHTNESS = ("onoff", "unknown")  # those without a brightness
WHITE = ("white", "rgbw", "rgbww")  # those with a white of their own, which is not known here
MIREDS = {  # millions by kelvin, as older versions tell it
    "color_temp": "color_temp_kelvin",
    "min_mireds": "max_color_temp_kelvin",
    "max_mireds": "min_color_temp_kelvin",
}


def complete_light_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a light, with null for what it can show and does not show now."""
    has = light_colour_modes(attributes)
    can = ["brightness", "color_mode"] if has.difference(WITHOUT_BRIGHTNESS) else []
    can += ["color_temp_kelvin"] if "color_temp" in has else []
    can += ["hs_color", "rgb_color"] if has.intersection(COLOURED) else []
    can += ["effect"] if attributes.get("effect_list") else []
    kelvin: dict[str, int | None] = {}
    for mireds, name in MIREDS.items():
        if told := attributes.get(mireds):
            number = isinstance(told, (int, float)) and not isinstance(told, bool) and told >= 1
            kelvin[name] = int(1_000_000 // told) if number else None
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


CONFIG = "get_config"
FLOORS = "config/floor_registry/list"
AREAS = "config/area_registry/list"
LABELS = "config/label_registry/list"
DEVICES = "config/device_registry/list"
REGISTERED = "config/entity_registry/list"
EXPOSED = "homeassistant/expose_entity/list"
STATES = "get_states"
FORMS = "get_services"  # by domain and service: the fields of its data, with their selectors
PLAIN = (CONFIG, FLOORS, AREAS, LABELS, DEVICES, REGISTERED, EXPOSED, STATES, FORMS)  # commands without fields
ENTRIES = "config/entity_registry/get_entries"  # by registered entity: its entry with aliases
SERVICES = "get_services_for_target"  # by entity: the services that it supports
AUTOMATIONS = "automation/config"  # by entity: an automation as its owner wrote it; None where it could not be read
SCRIPTS = "script/config"  # by entity: a script as its owner wrote it; empty where none could be read
HISTORY = "history/states"  # by entity that moves: the states in which it was; empty where there is no history
ASSIST = "conversation"  # the assistant to which entities are exposed
ENTITY = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")  # the id of an entity, where other texts may stand too


class FrozenModel(BaseModel):
    """Data that nobody changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ListedFloor(FrozenModel):
    """A floor, with the names that people give it; `level` 0 is the ground floor."""

    floor_id: str
    name: str
    aliases: tuple[str, ...]
    level: int | None


class ListedArea(FrozenModel):
    """A room, or another place."""

    area_id: str
    name: str
    aliases: tuple[str, ...]
    floor_id: str | None


class ListedEntity(FrozenModel):
    """One thing that has a state. Without a registry entry it has no area, device, labels or aliases."""

    entity_id: str
    name: str
    aliases: tuple[str, ...]
    area_id: str | None  # its own, else its device's
    device_id: str | None
    labels: tuple[str, ...]
    platform: str | None
    category: str | None  # `config` or `diagnostic`: of no interest to a speaker
    hidden: bool
    exposed: bool  # to Assist
    state: str
    attributes: dict[str, Any]
    services: tuple[str, ...]  # as `light.turn_on`
    lasts: int | None = None  # seconds for which it runs, of a script that tells
    past: tuple[str, ...] = ()  # the states in which it was, of one that moves
    units: dict[str, Any] = {}  # of its home, by quantity: `temperature` is `°F`
    zone: str | None = None  # of its home, such as `Europe/Berlin`

    @property
    def domain(self) -> str:
        """The kind of thing: `light`, `cover`."""
        return self.entity_id.partition(".")[0]


class Listing(FrozenModel):
    """The answers of one Home Assistant: its version, and for each command the result."""

    version: str
    sources: dict[str, Any]

    @property
    def floors(self) -> tuple[ListedFloor, ...]:
        """The floors, in their order there."""
        return tuple(ListedFloor(**_pick_fields(row, ListedFloor)) for row in self.sources[FLOORS])

    @property
    def areas(self) -> tuple[ListedArea, ...]:
        """The areas, in their order there."""
        return tuple(ListedArea(**_pick_fields(row, ListedArea)) for row in self.sources[AREAS])

    @property
    def entities(self) -> tuple[ListedEntity, ...]:
        """Every entity that has a state, sorted by id."""
        return tuple(
            self._read_entity(state) for state in sorted(self.sources[STATES], key=lambda state: state["entity_id"])
        )

    def area_of_entity(self, entity: str) -> str | None:
        """The id of an entity's area: its own, else that of its device, or of the device that this is a part of."""
        entry = self.sources[ENTRIES].get(entity) or {}
        devices = {device["id"]: device for device in self.sources[DEVICES]}
        area, device = entry.get("area_id"), devices.get(entry.get("device_id"))
        seen: set[str] = set()  # a device may be said to be a part of itself
        while area is None and device is not None and device["id"] not in seen:
            seen.add(device["id"])
            area, device = device.get("area_id"), devices.get(device.get("parent_device_id"))
        return area

    def _read_entity(self, state: Mapping[str, Any]) -> ListedEntity:
        name, attributes = state["entity_id"], state["attributes"]
        entry = self.sources[ENTRIES].get(name) or {}
        services = tuple(self.sources[SERVICES].get(name, ()))
        domain, _, id = name.partition(".")
        id = str(entry.get("unique_id") or id)
        if domain == "script" and self.sources.get(FORMS, {}).get(domain, {}).get(id, {}).get("fields"):
            services += (f"script.{id}",)  # its own one, which takes its fields
        return ListedEntity(
            entity_id=name,
            name=attributes.get("friendly_name") or name,
            aliases=tuple(alias for alias in entry.get("aliases", ()) if alias is not None),  # None stands for the name
            area_id=self.area_of_entity(name),
            device_id=entry.get("device_id"),
            labels=tuple(entry.get("labels", ())),
            platform=entry.get("platform"),
            category=entry.get("entity_category"),
            hidden=entry.get("hidden_by") is not None,
            exposed=bool(self.sources[EXPOSED]["exposed_entities"].get(name, {}).get(ASSIST)),
            state=state["state"],
            attributes=complete_light_attributes(attributes) if name.startswith("light.") else attributes,
            services=services,
            past=tuple(self.sources.get(HISTORY, {}).get(name, ())),
            units=self.sources[CONFIG].get("unit_system") or {},
            zone=self.sources[CONFIG].get("time_zone"),
        )


def _pick_fields(row: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The fields of a model, from a row that has more."""
    return {name: row.get(name) for name in model.model_fields}
