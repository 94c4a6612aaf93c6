"""The LLM user: any OpenAI-compatible endpoint speaks from profile, scene and open intents.

Invariants: it is told neither ids nor conditions nor the plan; an endpoint that fails after retries is an
`InfraError`, words that leak an id are a `UserError`; every request has a deadline.
"""

from __future__ import annotations

import os
import re

from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from homerl.blueprints.blueprint import Blueprint, Intent
from homerl.episode import Episode
from homerl.language.paraphrase import LANGUAGES
from homerl.play import InfraError, UserError, Utterance
from homerl.recipe import UserSettings
from homerl.trajectory import Message

STOP = "<stop>"
ROLE = """You play a person at home who talks to a voice assistant. Stay in that role.
You are {name}, {age} years old, {health}. {scene}
Say one short, natural sentence: what you would say next to get what you still want. If the assistant asked you
something, answer it. Name rooms, devices and values as given below, in your own words; never mention ids, code or
that this is a simulation. If nothing is left to ask for, answer {stop}."""


class LLMUser:
    """A user simulator behind a chat endpoint."""

    def __init__(self, url: str, model: str, settings: UserSettings, seed: int) -> None:
        self.name, self.model, self.settings, self.seed = f"llm:{model}", model, settings, seed
        key = os.environ.get("OPENAI_API_KEY", "none")
        self.client = AsyncOpenAI(base_url=url, api_key=key, timeout=settings.timeout, max_retries=0)

    async def speak(self, episode: Episode) -> Utterance:
        open_intents = episode.open_intents()
        if not open_intents:
            return Utterance("")
        current = next((i for i in open_intents if i.id == episode.speaking_of), open_intents[0])
        text = await self._complete(prompt(episode.blueprint, [current], episode.messages))
        if STOP in text:
            return Utterance("")
        if leak := leaked(text, episode.blueprint):
            raise UserError(f"the user said {leak!r}, which it must not know")
        return Utterance(text.strip().strip('"'), current.id)

    async def _complete(self, messages: list[Message]) -> str:
        @retry(
            retry=retry_if_exception(is_passing),
            stop=stop_after_attempt(self.settings.retries),
            wait=wait_exponential_jitter(initial=0.5, max=20),
            reraise=True,
        )
        async def ask() -> str:
            answer = await self.client.chat.completions.create(
                model=self.model, messages=messages, temperature=self.settings.temperature, max_tokens=200, seed=self.seed
            )
            return answer.choices[0].message.content or ""

        try:
            return await ask()
        except (APIConnectionError, APIStatusError, APITimeoutError) as error:
            raise InfraError(f"the user's endpoint failed: {error}") from error


def is_passing(error: BaseException) -> bool:
    """Faults worth another try: no connection, time-outs, 408, 429 and 5xx."""
    if isinstance(error, APIStatusError):
        return error.status_code in (408, 429) or error.status_code >= 500
    return isinstance(error, (APIConnectionError, APITimeoutError))


def prompt(blueprint: Blueprint, intents: list[Intent], messages: list[Message]) -> list[Message]:
    """The role, what is still wanted, and the dialogue so far from the user's side."""
    profile = blueprint.profile
    role = ROLE.format(name=profile.name, age=profile.age, health=profile.health, scene=blueprint.scene, stop=STOP)
    if blueprint.language != "en":
        role += f"\nSpeak {LANGUAGES.get(blueprint.language, blueprint.language)}."
    wanted = "\n".join(f"- {intent.clarification}" for intent in intents)
    said = [(m["role"], m["content"]) for m in messages if m["role"] in ("user", "assistant") and m["content"]]
    dialogue = "\n".join(f"{'You' if role == 'user' else 'Assistant'}: {text}" for role, text in said) or "(nothing yet)"
    return [
        {"role": "system", "content": role},
        {"role": "user", "content": f"You still want:\n{wanted}\n\nSaid so far:\n{dialogue}\n\nYour next sentence:"},
    ]


def leaked(text: str, blueprint: Blueprint) -> str | None:
    """A device id, code or condition in a user's words."""
    ids = {device["did"] for device in blueprint.home["devices"]}
    words = set(re.findall(r"\w+", text))
    return next(iter(sorted(ids & words)), None) or ("device(" if "device(" in text else None)
