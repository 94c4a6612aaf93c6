"""The scripted user, and the factory that makes the users which a recipe asks for.

The scripted user speaks for unmet intents, follows their courses, rewords, answers questions, and stops when no intent is
unmet.

Invariants: an utterance is a pure function of blueprint, seed and dialogue; it contains no id, condition or plan; only the
recipe decides who speaks; all LLM users of a run share one `SharedEndpoint`, so that the least busy replica is chosen among
all requests, and usage is counted in one place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homerl.envs.core.documents import InputError
from homerl.models.endpoint.endpoint_settings import NO_KEY, EndpointSettings, UserSettings
from homerl.play.episode import Episode
from homerl.play.loop import User
from homerl.play.situation import Utterance

if TYPE_CHECKING:
    from homerl.worlds.users.llm_user import SharedEndpoint


class ScriptedUser:
    """Starts with the wording that `seed` selects, and cycles through the intent's wordings from there."""

    name = "scripted"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    async def speak(self, episode: Episode) -> Utterance:
        """What comes next in the course of the current or first unmet intent. After the course, the plain answer if the
        agent asked a question, else the next wording.

        The utterance is empty if every intent is met.
        """
        open_intents = episode.open_intents()
        if not open_intents:
            return Utterance("")
        intent = next((i for i in open_intents if i.id == episode.speaking_of), open_intents[0])
        course = episode.situation.course_of(intent.id)
        at = episode.course_position(intent.id, episode.turn + 1)
        if at is None:
            return Utterance(course.aside or "", intent.id)
        if at < len(course.parts):
            return Utterance(course.parts[at].text, intent.id)
        if intent.id == episode.speaking_of and episode.spoken_words_of(episode.messages[-1]).question:
            return Utterance(intent.clarification, intent.id)
        times = sum(m["role"] == "user" and m["content"] in intent.queries for m in episode.messages)
        return Utterance(intent.queries[(self.seed + times) % len(intent.queries)], intent.id)


class UserFactory:
    """A factory of users: `users(seed)` makes one. Without a `shared` endpoint they are scripted."""

    def __init__(self, shared: SharedEndpoint | None = None) -> None:
        self.shared = shared

    def __call__(self, seed: int) -> User:
        if self.shared is None:
            return ScriptedUser(seed)
        from homerl.worlds.users.llm_user import LLMUser

        return LLMUser(self.shared, seed)

    def usage_totals(self) -> dict[str, Any]:
        """Requests, tokens, retries and faults of the endpoint, utterances, and user errors by reason; empty if scripted."""
        if self.shared is None:
            return {}
        counts = {"utterances": self.shared.utterances, "errors": dict(self.shared.errors)}
        return asdict(self.shared.endpoint.usage) | counts

    def usage_metrics(self) -> dict[str, float]:
        """The usage as flat numbers named `user/...`, for a run's monitor."""
        return {f"user/{key}": float(value) for key, value in _flatten_numbers(self.usage_totals())}


def make_llm_users(settings: UserSettings, urls: Sequence[str], model: str) -> UserFactory:
    """Users behind endpoints that answer; raises `InputError` if the key's variable is not set."""
    refuse_missing_key(settings)
    from homerl.worlds.users.llm_user import SharedEndpoint

    return UserFactory(SharedEndpoint(settings, urls, model))


def refuse_missing_key(settings: EndpointSettings) -> None:
    """Raise `InputError` if the settings name a key whose variable is not set."""
    if settings.key != NO_KEY and settings.key not in os.environ:
        raise InputError(f"the environment variable {settings.key} is not set", "key", "export it")


@contextmanager
def open_user_factory(settings: UserSettings, log: Path = Path("user_server.log")) -> Iterator[UserFactory]:
    """Yield the users of a recipe; a model that the recipe serves runs until the context ends."""
    if settings.kind == "scripted":
        yield UserFactory()
        return
    from homerl.models.endpoint.vllm_server import serve_endpoint

    with serve_endpoint(settings, log) as (urls, model):
        yield make_llm_users(settings, urls, model)


def _flatten_numbers(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten_numbers(value, f"{above}{key}/")
        else:
            yield above + key, value
