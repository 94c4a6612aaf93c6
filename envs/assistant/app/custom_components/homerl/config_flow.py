"""The agent is added, and made more careful, by the user interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import voluptuous as vol
from homeassistant.config_entries import (
    ConfigEntry,
    ConfigFlow,
    ConfigFlowResult,
    OptionsFlow,
    OptionsFlowWithReload,
)
from homeassistant.const import CONF_API_KEY, CONF_HOST, CONF_PORT, CONF_URL
from homeassistant.core import callback
from homeassistant.helpers.aiohttp_client import async_get_clientsession
from homeassistant.helpers.selector import (
    EntitySelector,
    EntitySelectorConfig,
    LanguageSelector,
    SelectSelector,
    SelectSelectorConfig,
    TextSelector,
    TextSelectorConfig,
    TextSelectorType,
)
from homeassistant.helpers.service_info.hassio import HassioServiceInfo
from yarl import URL

from .agent import Agent, AgentError, KeyRefused, NoAgent, base_of
from .const import AS_STARTED, DOMAIN, GUARD, LANGUAGE, MODE, MODES

KEY = TextSelector(TextSelectorConfig(type=TextSelectorType.PASSWORD))
WHERE = vol.Schema(
    {
        vol.Required(CONF_URL, default="http://127.0.0.1:8124"): TextSelector(TextSelectorConfig(type=TextSelectorType.URL)),
        vol.Optional(CONF_API_KEY): KEY,
    }
)


class AgentFlow(ConfigFlow, domain=DOMAIN):
    """Adds an agent, by hand or as the app tells of it, and asks for its key again."""

    VERSION = 1

    def __init__(self) -> None:
        """Begin with nothing found."""
        self._found: dict[str, Any] = {}

    async def async_step_user(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Ask for the address."""
        return await self._added("user", WHERE, user_input, user_input)

    async def async_step_reconfigure(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Ask for another address or key."""
        entry = self._get_reconfigure_entry()
        shown = self.add_suggested_values_to_schema(WHERE, entry.data)
        return await self._added("reconfigure", shown, user_input, user_input, entry)

    async def async_step_reauth(self, entry_data: Mapping[str, Any]) -> ConfigFlowResult:
        """Begin to ask for another key."""
        return await self.async_step_reauth_confirm()

    async def async_step_reauth_confirm(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Ask for another key."""
        entry = self._get_reauth_entry()
        data = {**entry.data, **user_input} if user_input else None
        return await self._added("reauth_confirm", vol.Schema({vol.Required(CONF_API_KEY): KEY}), user_input, data, entry)

    async def async_step_hassio(self, discovery_info: HassioServiceInfo) -> ConfigFlowResult:
        """Take what the app tells. An agent that is known gets the address and key that it has now."""
        told = discovery_info.config
        self._found = {CONF_URL: f"http://{told[CONF_HOST]}:{told[CONF_PORT]}/v1", CONF_API_KEY: told[CONF_API_KEY]}
        await self.async_set_unique_id(discovery_info.uuid)
        self._abort_if_unique_id_configured(updates=self._found)
        return await self.async_step_hassio_confirm()

    async def async_step_hassio_confirm(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Ask whether to add the agent of the app."""
        data = self._found if user_input is not None else None
        return await self._added("hassio_confirm", vol.Schema({}), user_input, data)

    async def _added(
        self,
        step: str,
        form: vol.Schema,
        given: dict[str, Any] | None,
        data: dict[str, Any] | None,
        entry: ConfigEntry | None = None,
    ) -> ConfigFlowResult:
        """The form of a step, until an agent answers at the address; then its entry, new or updated."""
        errors: dict[str, str] = {}
        if data is not None:
            try:
                data = {**data, CONF_URL: base_of(data[CONF_URL])}
                if entry is None:
                    self._async_abort_entries_match({CONF_URL: data[CONF_URL]})
                await Agent(async_get_clientsession(self.hass), data[CONF_URL], data.get(CONF_API_KEY)).read_facts()
            except ValueError:
                errors[CONF_URL] = "invalid_url"
            except KeyRefused:
                errors["base"] = "invalid_auth"
            except NoAgent:
                errors["base"] = "no_agent"
            except AgentError:
                errors["base"] = "cannot_connect"
            else:
                if entry is not None:
                    return self.async_update_reload_and_abort(entry, data=data)
                return self.async_create_entry(title=self._new_title(data[CONF_URL]), data=data)
        shown = self.add_suggested_values_to_schema(form, given) if given else form
        return self.async_show_form(step_id=step, data_schema=shown, errors=errors)

    def _new_title(self, url: str) -> str:
        """What a new agent and its entities are called: homerl, and behind the first one its host. Its model may change."""
        return f"{DOMAIN} {URL(url).host_port_subcomponent}" if self._async_current_entries() else DOMAIN

    @staticmethod
    @callback
    def async_get_options_flow(config_entry: ConfigEntry) -> OptionsFlow:
        """The flow of the options."""
        return CareFlow()


class CareFlow(OptionsFlowWithReload):
    """Makes an agent more careful than it was started."""

    async def async_step_init(self, user_input: dict[str, Any] | None = None) -> ConfigFlowResult:
        """Ask for the mode, the language and further guarded entities."""
        if user_input is not None:
            return self.async_create_entry(data=user_input)
        form = vol.Schema(
            {
                vol.Required(MODE, default=AS_STARTED): SelectSelector(
                    SelectSelectorConfig(options=[*MODES], translation_key=MODE)
                ),
                vol.Optional(LANGUAGE): LanguageSelector(),
                vol.Optional(GUARD): EntitySelector(EntitySelectorConfig(multiple=True)),
            }
        )
        return self.async_show_form(
            step_id="init", data_schema=self.add_suggested_values_to_schema(form, self.config_entry.options)
        )
