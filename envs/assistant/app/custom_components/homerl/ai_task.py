"""The agent for AI tasks: it reads the home, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import voluptuous as vol
from homeassistant.components import ai_task, conversation
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from homeassistant.helpers.selector import Selector

from .agent import Agent
from .const import MODE
from .entity import AgentEntity, care_of


async def async_setup_entry(
    hass: HomeAssistant, entry: ConfigEntry[Agent], async_add_entities: AddConfigEntryEntitiesCallback
) -> None:
    """Add the entity for AI tasks."""
    async_add_entities([Clerk(entry, "ai_task")])


class Clerk(AgentEntity, ai_task.AITaskEntity):
    """Answers in text, or in data of a structure."""

    _attr_translation_key = "task"
    _attr_supported_features = ai_task.AITaskEntityFeature.GENERATE_DATA

    async def _async_generate_data(
        self, task: ai_task.GenDataTask, chat_log: conversation.ChatLog
    ) -> ai_task.GenDataTaskResult:
        """The answer to a task. Raises `HomeAssistantError` if it has not the structure that was asked for."""
        asked = task.instructions + (f"\n\n{form_of(task.structure)}" if task.structure else "")
        care = care_of(self.entry.options) | {MODE: "shadow"}
        form = {"type": "json_object"} if task.structure else None
        reply = "".join([part async for part in self.agent.parts([{"role": "user", "content": asked}], care, form)])
        chat_log.async_add_assistant_content_without_tools(conversation.AssistantContent(self.entity_id, reply))
        data = data_of(reply, task.structure) if task.structure else reply
        return ai_task.GenDataTaskResult(chat_log.conversation_id, data)


def form_of(structure: vol.Schema) -> str:
    """A structure in words."""
    fields: Mapping[Any, Any] = structure.schema
    told = [_field(key, value) for key, value in fields.items()]
    return "\n".join(["Answer with one JSON object and nothing else. Its keys:", *told])


def _field(key: Any, value: Any) -> str:
    kind = json.dumps(value.serialize()["selector"]) if isinstance(value, Selector) else str(value)
    need = "" if isinstance(key, vol.Required) else ", may be missing"
    return f"- {key} ({kind}{need}){f': {key.description}' if getattr(key, 'description', None) else ''}"


def data_of(reply: str, structure: vol.Schema) -> Any:
    """The data in a reply, which may stand between other words. Raises `HomeAssistantError`."""
    try:
        return structure(json.loads(reply[reply.index("{") : reply.rindex("}") + 1]))
    except (ValueError, vol.Invalid) as error:
        raise HomeAssistantError(f"The agent gave no data of this structure ({error}). It said: {reply}") from error
