"""The LLM user's prompt (who it is, its unmet requests and how it tells them, what it
notices, the dialogue) and its answer.

Invariants: the prompt holds no ids, conditions or plans; an id in an agent's words is replaced by the device's everyday
name, because otherwise an agent could make its user leave its role.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, StrictBool, StrictInt, StrictStr, ValidationError

from homerl.envs.core.messages import Message
from homerl.models.endpoint.settings import UserSettings
from homerl.play.episode import Episode
from homerl.play.messages import replace_surrogates
from homerl.play.situation import IntentProtocol
from homerl.play.speech import strip_thoughts_and_controls
from homerl.play.words.manner import Manner, load_manner
from homerl.worlds.contract import Persona

JSON = re.compile(r"""^[{\[]|\{\s*["']|```""")  # a text that is meant to be JSON
STOP = "<stop>"
LINES = 4  # most lines of a plain-text utterance


class MalformedAnswer(Exception):
    """An answer that is neither the requested JSON nor a plain utterance."""


class UserAnswer(BaseModel):
    """A parsed answer. `about` is the id of an intent, or None if a plain text does not tell."""

    say: StrictStr = ""
    about: StrictInt | None = None
    stop: StrictBool = False


def build_user_prompt(
    episode: Episode, persona: Persona, intents: Sequence[IntentProtocol], settings: UserSettings, seed: int
) -> list[Message]:
    """Two messages: the person as the system message, the present situation as the user message."""
    words = load_manner(episode.blueprint.language)
    wishes = "\n".join(
        [*(describe_wish(episode, intent) for intent in intents), *describe_behaviours(episode, intents, words)]
    )
    said = dialogue_text(episode, persona, words)
    situation = words.situation.format(wishes=wishes, around=persona.notices(words), said=said)
    return [
        {
            "role": "system",
            "content": build_person_prompt(persona.role(words), words, is_noisy_utterance(settings, seed, episode.turn)),
        },
        {"role": "user", "content": situation},
    ]


def describe_wish(episode: Episode, intent: IntentProtocol) -> str:
    """A wish as the person has it now: before a change of mind it is another one."""
    parts, at = episode.situation.course_of(intent.id).parts, episode.course_position(intent.id, episode.turn + 1)
    other = at == 0 and parts and parts[0].behaviour == "change_of_mind"
    return f"{intent.id}. {parts[0].text if other else intent.clarification}"


def describe_behaviours(episode: Episode, intents: Sequence[IntentProtocol], words: Manner) -> Iterator[str]:
    """How the person tells its wishes this time, one line for each that is not told at once."""
    for intent in intents:
        course, at = episode.situation.course_of(intent.id), episode.course_position(intent.id, episode.turn + 1)
        if at is None:
            yield words.behaviours.beside_the_point.format(wish=intent.id, text=course.aside)
        elif at < len(course.parts):
            part = course.parts[at]
            if at or part.behaviour != "change_of_mind":
                yield getattr(words.behaviours, part.behaviour).format(wish=intent.id, text=part.text)


def build_person_prompt(role: str, words: Manner, stumbles: bool) -> str:
    """The system prompt: the role, its rules, and how this person talks; `stumbles` asks for slips of speech."""
    return "\n".join([role, words.rules, words.style, *([words.noise] if stumbles else []), words.format.format()])


def is_noisy_utterance(settings: UserSettings, seed: int, turn: int) -> bool:
    """Whether this utterance gets slips of speech; a pure function of seed and turn."""
    return random.Random(f"noise {seed} {turn}").random() < settings.noise


def dialogue_text(episode: Episode, persona: Persona, words: Manner) -> str:
    """What was said so far, one line for each message, with the speaker's name."""
    spoken = [
        (m["role"], episode.spoken_words_of(m).text if m["role"] == "assistant" else m["content"]) for m in episode.messages
    ]
    who = {"user": words.you, "assistant": words.assistant}
    lines = [f"{who[role]}: {persona.overhears(text)}" for role, text in spoken if role in who and text.strip()]
    return "\n".join(lines) or words.silence


def utterance_schema(intents: Sequence[IntentProtocol]) -> dict[str, Any]:
    """The field `response_format` that asks for a `UserAnswer`; `about` is one of these intents."""
    about = {"anyOf": [{"type": "integer", "enum": [intent.id for intent in intents]}, {"type": "null"}]}
    properties = {"say": {"type": "string"}, "about": about, "stop": {"type": "boolean"}}
    shape = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "utterance", "strict": True, "schema": shape}}


def parse_user_answer(text: str, cut: bool, intents: Sequence[IntentProtocol]) -> UserAnswer:
    """Parse a model's text: the JSON in it, else the text as the utterance. `cut` says that the tokens ran out.

    Raises `Malformed`, with a reason that can be told to the model.
    """
    text = strip_thoughts_and_controls(text).strip()
    if cut:
        raise MalformedAnswer("it was cut off; be shorter")
    said = _from_json(text) if JSON.search(text) else _plain(text)
    if not (said.stop or said.say.strip()):
        raise MalformedAnswer("it says nothing")
    if not said.stop and said.about not in (None, *(intent.id for intent in intents)):
        raise MalformedAnswer(f"there is no wish {said.about}")
    return said


def _from_json(text: str) -> UserAnswer:
    """The single JSON object in a text; text around it is ignored."""
    text = text[max(0, text.find("{")) :]
    try:
        found, end = json.JSONDecoder().raw_decode(text)
        if "{" in text[end:]:
            raise MalformedAnswer("it is more than one answer")
        said = UserAnswer.model_validate(found)
    except (ValidationError, ValueError, RecursionError):
        raise MalformedAnswer('it is not the JSON {"say", "about", "stop"}') from None
    return said.model_copy(update={"say": replace_surrogates(said.say)})


def _plain(text: str) -> UserAnswer:
    if STOP in text:
        return UserAnswer(stop=True)
    if len(text.splitlines()) > LINES:
        raise MalformedAnswer("it is more than an utterance")
    return UserAnswer(say=text.strip('"“” \n'))
