"""What a person may attach to a report: versions, how the agent is reached, what is exposed, and what failed last.

Invariant: no key, code or token, no name of a person, an entity or a host, and no word that was spoken.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import asdict
from typing import Any

from homeassistant.components import conversation
from homeassistant.components.diagnostics import REDACTED
from homeassistant.components.homeassistant.exposed_entities import async_should_expose
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import CONF_API_KEY
from homeassistant.core import HomeAssistant
from homeassistant.loader import async_get_integration
from yarl import URL

from . import make_agent
from .agent import Agent, AgentError
from .const import AS_STARTED, DOMAIN, GUARD, LANGUAGE, MODE


async def async_get_config_entry_diagnostics(hass: HomeAssistant, entry: ConfigEntry[Agent]) -> dict[str, Any]:
    """The diagnostics of an agent. It is asked once more, so an agent that is away now is told as its last failure.

    An entry that was never set up has no agent yet.
    """
    agent = getattr(entry, "runtime_data", None) or make_agent(hass, entry)
    try:
        facts = await agent.read_facts()
    except AgentError:
        facts = None
    url = URL(agent.url)
    states = hass.states.async_all()
    exposed = Counter(one.domain for one in states if async_should_expose(hass, conversation.DOMAIN, one.entity_id))
    return {
        "component": str((await async_get_integration(hass, DOMAIN)).version),
        "entry": {"state": entry.state.value, "source": entry.source, "has_key": bool(entry.data.get(CONF_API_KEY))},
        "endpoint": {"scheme": url.scheme, "host": shown_host(url.host or ""), "port": url.port},
        "agent": facts and asdict(facts),
        "options": {
            "mode": entry.options.get(MODE, AS_STARTED),
            "language": entry.options.get(LANGUAGE),
            "guarded_entities": len(entry.options.get(GUARD, ())),
        },
        "exposed_entities": dict(sorted(exposed.items())),
        "last_failures": [asdict(failure) for failure in agent.failures],
    }


def shown_host(host: str) -> str:
    """A host of the home's own network by its address. A name may be a person's, and other addresses are the home's."""
    if host == "localhost":
        return host
    try:
        return host if ipaddress.ip_address(host).is_private else REDACTED
    except ValueError:
        return REDACTED
