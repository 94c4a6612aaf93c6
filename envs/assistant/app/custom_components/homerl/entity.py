"""What both entities of an agent share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.helpers.device_registry import DeviceEntryType, DeviceInfo
from homeassistant.helpers.entity import Entity

from .agent import Agent
from .const import AS_STARTED, DOMAIN, GUARD, MODE


class AgentEntity(Entity):
    """An entity of the service that an agent is."""

    _attr_has_entity_name = True

    def __init__(self, entry: ConfigEntry[Agent], key: str) -> None:
        """Take the entry of the agent. `key` tells its entities apart."""
        self.agent, self.entry = entry.runtime_data, entry
        facts = self.agent.facts
        self._attr_unique_id = f"{entry.entry_id}_{key}"
        self._attr_device_info = DeviceInfo(
            identifiers={(DOMAIN, entry.entry_id)},
            name=entry.title,
            manufacturer="homerl",
            model=facts and facts.model,
            sw_version=facts and facts.version,
            entry_type=DeviceEntryType.SERVICE,
        )


def care_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the agent reads them: the most that it may do, and what else it asks about."""
    mode = options.get(MODE, AS_STARTED)
    return ({} if mode == AS_STARTED else {"mode": mode}) | ({"guard": options[GUARD]} if options.get(GUARD) else {})
