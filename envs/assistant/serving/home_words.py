"""What Home Assistant itself calls states, attributes and services in the language of a home, as its own translations say.

Invariants: what it does not translate, such as names that an owner gave, is told as it is; English is what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from homerl.envs.homeenv.sim.devices.device_spec import Device

CATEGORIES = ("entity_component", "services", "title")  # of `frontend/get_translations`


@dataclass(frozen=True)
class HomeWords:
    """The translations of a language, by Home Assistant's keys."""

    language: str = "en"
    texts: Mapping[str, str] = field(default_factory=dict)

    def name_of_path(self, device: Device | None, path: str) -> str:
        """What an attribute is called; the last part of its path if there is no word for it."""
        return self._find(device, f"state_attributes.{path}.name") or path.replace("_", " ").replace(".", " ")

    def name_of_value(self, device: Device | None, path: str, value: str) -> str:
        """What a state, or a value of an attribute, is called."""
        return self._find(device, f"state.{value}" if path == "state" else f"state_attributes.{path}.state.{value}") or value

    def name_of_service(self, device: Device | None, service: str, argument: str = "") -> str:
        """What a service is called, or an argument of it."""
        own = argument or service
        category = device.spec.userdata.category if device else ""
        key = f"component.{category}.services.{service}" + (f".fields.{argument}" if argument else "")
        return self.texts.get(f"{key}.name") or own.replace("_", " ").replace(".", " ")

    def name_of_domain(self, domain: str) -> str:
        """What things of a domain are called: `lock`."""
        return self.texts.get(f"component.{domain}.title") or domain.replace("_", " ")

    def _find(self, device: Device | None, end: str) -> str | None:
        """A text of the device's class, or else of its domain."""
        data = device.spec.userdata if device else None
        kinds = (data.subcategory, "_") if data else ()
        found = (self.texts.get(f"component.{data.category}.entity_component.{kind}.{end}") for kind in kinds if data)
        return next(filter(None, found), None)
