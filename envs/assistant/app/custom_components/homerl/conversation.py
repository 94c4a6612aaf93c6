"""The agent as a conversation agent: it is sent the dialogue, and its reply is spoken as it comes.

The timers of a satellite are Home Assistant's own: what its matcher knows as a sentence about them, it does itself.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Literal

from homeassistant.components import conversation
from homeassistant.components.intent import async_device_supports_timers
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import MATCH_ALL
from homeassistant.core import HomeAssistant
from homeassistant.helpers import intent, llm
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .agent import Agent, AgentError
from .const import DOMAIN, LANGUAGE
from .entity import AgentEntity, care_of

if TYPE_CHECKING:
    from hassil.recognize import RecognizeResult

log = logging.getLogger(__name__)
TIMERS = {
    intent.INTENT_START_TIMER,
    intent.INTENT_CANCEL_TIMER,
    intent.INTENT_CANCEL_ALL_TIMERS,
    intent.INTENT_INCREASE_TIMER,
    intent.INTENT_DECREASE_TIMER,
    intent.INTENT_PAUSE_TIMER,
    intent.INTENT_UNPAUSE_TIMER,
    intent.INTENT_TIMER_STATUS,
}


async def async_setup_entry(
    hass: HomeAssistant, entry: ConfigEntry[Agent], async_add_entities: AddConfigEntryEntitiesCallback
) -> None:
    """Add the conversation agent."""
    async_add_entities([Speaker(entry, "conversation")])


class Speaker(AgentEntity, conversation.ConversationEntity):
    """Speaks for the agent."""

    _attr_name = None
    _attr_supports_streaming = True
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
        if (answer := await self._of_timers(user_input, chat_log)) is not None:
            return conversation.ConversationResult(answer, chat_log.conversation_id)
        context, told = user_input.as_llm_context(DOMAIN), user_input.extra_system_prompt
        try:
            await chat_log.async_provide_llm_data(context, llm.LLM_API_ASSIST, None, told)
        except conversation.ConverseError as error:
            return error.as_conversation_result()
        spoken = [one for one in chat_log.content if one.role in ("system", "user", "assistant") and one.content]
        messages = [{"role": one.role, "content": one.content} for one in spoken]
        try:
            async for _ in chat_log.async_add_delta_content_stream(self.entity_id, self._deltas(messages)):
                pass
        except AgentError as error:
            log.warning("%s: %s", self.agent.url, error, exc_info=error.__cause__)
            response = intent.IntentResponse(language=user_input.language)
            response.async_set_error(intent.IntentResponseErrorCode.FAILED_TO_HANDLE, str(error))
            return conversation.ConversationResult(response, chat_log.conversation_id)
        return conversation.async_get_result_from_chat_log(user_input, chat_log)

    async def _deltas(self, messages: Sequence[dict[str, str]]) -> AsyncIterator[conversation.AssistantContentDeltaDict]:
        """The reply in the parts in which it comes."""
        yield {"role": "assistant", "content": ""}
        async for part in self.agent.parts(messages, care_of(self.entry.options)):
            yield {"content": part}

    async def _of_timers(
        self, user_input: conversation.ConversationInput, chat_log: conversation.ChatLog
    ) -> intent.IntentResponse | None:
        """Home Assistant's own answer to a sentence about timers, if the device that heard it has any."""
        if not user_input.device_id or not async_device_supports_timers(self.hass, user_input.device_id):
            return None
        answer = await conversation.async_handle_intents(self.hass, user_input, chat_log, intent_filter=_is_other)
        if answer is not None:
            speech = answer.speech.get("plain", {}).get("speech", "")
            chat_log.async_add_assistant_content_without_tools(conversation.AssistantContent(self.entity_id, speech))
        return answer


def _is_other(found: RecognizeResult) -> bool:
    """Whether a sentence is not about timers alone. A command for later is the agent's, since nobody could consent then."""
    return found.intent.name not in TIMERS or "conversation_command" in found.entities
