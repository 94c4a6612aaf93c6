"""What the LLM user is told: who it is, what it still wants, what it notices, what was said; and how it answers.

Invariants: neither ids nor conditions nor the plan are told; an id in an agent's words is told by its everyday name,
or else an agent could make its user leave its role.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, StrictBool, StrictInt, StrictStr, ValidationError

from homerl.llm.settings import UserSettings
from homerl.play.episode import Episode
from homerl.play.messages import Message, plain_text
from homerl.play.situation import Intent
from homerl.users.manner import Manner, manner
from homerl.worlds.contract import Persona

JSON = re.compile(r"""^[{\[]|\{\s*["']|```""")  # a text that is meant for it
THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.S)
STOP = "<stop>"
LINES = 4  # lines of plain text that can still be one utterance


class Malformed(Exception):
    """An answer that is neither the JSON asked for nor an utterance."""


class Said(BaseModel):
    """The answer. `about` is the id of an intent, None where a plain text does not say."""

    say: StrictStr = ""
    about: StrictInt | None = None
    stop: StrictBool = False


def prompt(
    episode: Episode, persona: Persona, intents: Sequence[Intent], settings: UserSettings, seed: int
) -> list[Message]:
    """The person as the system's message, the situation as the user's."""
    words = manner(episode.blueprint.language)
    wishes = "\n".join(f"{intent.id}. {intent.clarification}" for intent in intents)
    said = dialogue(episode, persona, words)
    situation = words.situation.format(wishes=wishes, around=persona.notices(words), said=said)
    return [
        {"role": "system", "content": person(persona.role(words), words, settings, noisy(settings, seed, episode.turn))},
        {"role": "user", "content": situation},
    ]


def person(role: str, words: Manner, settings: UserSettings, stumbles: bool) -> str:
    """The role, its rules, and how this person talks."""
    style = [words.verbosity[settings.verbosity], words.cooperation[settings.cooperation]]
    return "\n".join([role, words.rules, *style, *([words.noise] if stumbles else []), words.format.format()])


def noisy(settings: UserSettings, seed: int, turn: int) -> bool:
    """Whether the person stumbles over this utterance."""
    return random.Random(f"noise {seed} {turn}").random() < settings.noise


def dialogue(episode: Episode, persona: Persona, words: Manner) -> str:
    """What was said aloud, by whom."""
    spoken = [
        (m["role"], episode.words_of(m).text if m["role"] == "assistant" else m["content"]) for m in episode.messages
    ]
    who = {"user": words.you, "assistant": words.assistant}
    lines = [f"{who[role]}: {persona.overhears(text)}" for role, text in spoken if role in who and text.strip()]
    return "\n".join(lines) or words.silence


def schema(intents: Sequence[Intent]) -> dict[str, Any]:
    """The `response_format` of an answer."""
    about = {"anyOf": [{"type": "integer", "enum": [intent.id for intent in intents]}, {"type": "null"}]}
    properties = {"say": {"type": "string"}, "about": about, "stop": {"type": "boolean"}}
    shape = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "utterance", "strict": True, "schema": shape}}


def read(text: str, cut: bool, intents: Sequence[Intent]) -> Said:
    """The answer in a model's text: the JSON in it, or else the utterance itself; `cut` says that it ran out of tokens."""
    text = THOUGHT.sub("", text).strip()
    if cut:
        raise Malformed("it was cut off; be shorter")
    said = _from_json(text) if JSON.search(text) else _plain(text)
    if not (said.stop or said.say.strip()):
        raise Malformed("it says nothing")
    if not said.stop and said.about not in (None, *(intent.id for intent in intents)):
        raise Malformed(f"there is no wish {said.about}")
    return said


def _from_json(text: str) -> Said:
    """The one object in a text, whatever stands around it."""
    text = text[max(0, text.find("{")) :]
    try:
        found, end = json.JSONDecoder().raw_decode(text)
        if "{" in text[end:]:
            raise Malformed("it is more than one answer")
        said = Said.model_validate(found)
    except (ValidationError, ValueError, RecursionError):
        raise Malformed('it is not the JSON {"say", "about", "stop"}') from None
    return said.model_copy(update={"say": plain_text(said.say)})


def _plain(text: str) -> Said:
    if STOP in text:
        return Said(stop=True)
    if len(text.splitlines()) > LINES:
        raise Malformed("it is more than an utterance")
    return Said(say=text.strip('"“” \n'))
