"""What Home Assistant itself calls states, attributes and services in the language of a home, as its own translations say.

`home_words.yaml` has words for what it does not say: an older Home Assistant, a home that it does not tell, a home file.

Invariants: names that an owner gave, such as the options of a select, are told as they are; English is what it is. What
neither has a word for is told as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.sim.devices.device_spec import Device

CATEGORIES = ("entity_component", "services", "title")  # of `frontend/get_translations`
FILE = Path(__file__).with_suffix(".yaml")
OWNERS = frozenset("input_select input_text select text todo".split())  # domains whose states are an owner's own words
ANY_KIND = "_"


@dataclass(frozen=True)
class HomeWords:
    """The translations of a language, by Home Assistant's keys."""

    language: str = "en"
    texts: Mapping[str, str] = field(default_factory=dict)

    def name_of_path(self, device: Device | None, path: str) -> str:
        """What an attribute is called; the last part of its path if there is no word for it."""
        found = self._find(device, f"state_attributes.{path}.name") or self._own_word(device, "attributes", path)
        return found or path.replace("_", " ").replace(".", " ")

    def name_of_value(self, device: Device | None, path: str, value: str) -> str:
        """What a state, or a value of an attribute, is called."""
        key = f"state.{value}" if path == "state" else f"state_attributes.{path}.state.{value}"
        return self._find(device, key) or self._own_word(device, "values", value) or value

    def name_of_service(self, device: Device | None, service: str, argument: str = "") -> str:
        """What a service is called, or an argument of it."""
        own = argument or service
        category = device.spec.userdata.category if device else ""
        key = f"component.{category}.services.{service}" + (f".fields.{argument}" if argument else "")
        found = self.texts.get(f"{key}.name") or self._own_word(device, "attributes" if argument else "services", own)
        return found or own.replace("_", " ").replace(".", " ")

    def name_of_domain(self, domain: str) -> str:
        """What things of a domain are called: `lock`."""
        own: str | None = _read_own_words().get(self._short_language, {}).get(domain, {}).get("title")
        return self.texts.get(f"component.{domain}.title") or own or domain.replace("_", " ")

    @property
    def _short_language(self) -> str:
        return self.language.partition("-")[0]

    def _find(self, device: Device | None, end: str) -> str | None:
        """A text of the device's class, or else of its domain."""
        data = device.spec.userdata if device else None
        kinds = (data.subcategory, "_") if data else ()
        found = (self.texts.get(f"component.{data.category}.entity_component.{kind}.{end}") for kind in kinds if data)
        return next(filter(None, found), None)

    def _own_word(self, device: Device | None, part: str, key: str) -> str | None:
        """A word of `home_words.yaml` for a device's kind, or else for any kind."""
        kind = device.spec.userdata.category if device else ANY_KIND
        if part == "values" and kind in OWNERS:
            return None
        words = _read_own_words().get(self._short_language, {})
        key = key if part == "values" else key.rpartition(".")[2]
        found: list[str | None] = [words.get(one, {}).get(part, {}).get(key) for one in (kind, ANY_KIND)]
        return next(filter(None, found), None)


@lru_cache(maxsize=1)
def _read_own_words() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """By language and kind: the `title` of the kind, and words by part."""
    words: Mapping[str, Mapping[str, Mapping[str, Any]]] = read_yaml(FILE).data
    return words
