"""The agent as a conversation agent: it is sent the dialogue, and its reply is spoken."""

from __future__ import annotations

from typing import Literal

from homeassistant.components import conversation
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import MATCH_ALL
from homeassistant.core import HomeAssistant
from homeassistant.helpers import intent, llm
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .agent import Agent, AgentError
from .const import DOMAIN, LANGUAGE
from .entity import AgentEntity, care_of


async def async_setup_entry(
    hass: HomeAssistant, entry: ConfigEntry[Agent], async_add_entities: AddConfigEntryEntitiesCallback
) -> None:
    """Add the conversation agent."""
    async_add_entities([Speaker(entry, "conversation")])


class Speaker(AgentEntity, conversation.ConversationEntity):
    """Speaks for the agent."""

    _attr_name = None
    _attr_supported_features = conversation.ConversationEntityFeature.CONTROL

    @property
    def supported_languages(self) -> list[str] | Literal["*"]:
        """The language of the options, or any."""
        language = self.entry.options.get(LANGUAGE)
        return [language] if language else MATCH_ALL

    async def _async_handle_message(
        self, user_input: conversation.ConversationInput, chat_log: conversation.ChatLog
    ) -> conversation.ConversationResult:
        """Send the dialogue, with what Home Assistant tells its own agents: it names the room of the speaker."""
        context, told = user_input.as_llm_context(DOMAIN), user_input.extra_system_prompt
        try:
            await chat_log.async_provide_llm_data(context, llm.LLM_API_ASSIST, None, told)
        except conversation.ConverseError as error:
            return error.as_conversation_result()
        spoken = [one for one in chat_log.content if one.role in ("system", "user", "assistant") and one.content]
        messages = [{"role": one.role, "content": one.content} for one in spoken]
        try:
            reply = await self.agent.reply(messages, care_of(self.entry.options))
        except AgentError as error:
            response = intent.IntentResponse(language=user_input.language)
            response.async_set_error(intent.IntentResponseErrorCode.FAILED_TO_HANDLE, str(error))
            return conversation.ConversationResult(response, chat_log.conversation_id)
        chat_log.async_add_assistant_content_without_tools(conversation.AssistantContent(self.entity_id, reply))
        return conversation.async_get_result_from_chat_log(user_input, chat_log)
