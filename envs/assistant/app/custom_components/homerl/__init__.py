"""homerl in Home Assistant: an agent of `homerl serve-agent` as conversation agent and for AI tasks.

Invariants:
- Home Assistant makes no call for this integration: the agent does, by its own guard and consent.
- The options only ever make the agent more careful than it was started.
"""

from __future__ import annotations

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import CONF_API_KEY, CONF_URL, Platform
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import ConfigEntryAuthFailed, ConfigEntryNotReady
from homeassistant.helpers.aiohttp_client import async_get_clientsession

from .agent import Agent, AgentError, KeyRefused

PLATFORMS = (Platform.AI_TASK, Platform.CONVERSATION)


async def async_setup_entry(hass: HomeAssistant, entry: ConfigEntry[Agent]) -> bool:
    """Set up an agent that answers. The entry keeps it if it does not, for its diagnostics."""
    entry.runtime_data = agent = make_agent(hass, entry)
    try:
        await agent.read_facts()
    except KeyRefused as error:
        raise ConfigEntryAuthFailed(f"{agent.url}: {error}") from error
    except AgentError as error:
        raise ConfigEntryNotReady(f"{agent.url}: {error}") from error
    await hass.config_entries.async_forward_entry_setups(entry, PLATFORMS)
    return True


def make_agent(hass: HomeAssistant, entry: ConfigEntry[Agent]) -> Agent:
    """The agent at the address of an entry."""
    return Agent(async_get_clientsession(hass), entry.data[CONF_URL], entry.data.get(CONF_API_KEY))


async def async_unload_entry(hass: HomeAssistant, entry: ConfigEntry[Agent]) -> bool:
    """Unload an agent."""
    return await hass.config_entries.async_unload_platforms(entry, PLATFORMS)
