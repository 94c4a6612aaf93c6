"""Makes the users that a recipe asks for.

Invariants: only the recipe decides who speaks; all users of a run share one `Line`, so that the least busy replica is
chosen among all requests, and usage is counted in one place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homerl.envs.core.documents import InputError
from homerl.models.endpoint.settings import NO_KEY, EndpointSettings, UserSettings
from homerl.play.loop import User
from homerl.play.scripted_user import ScriptedUser

if TYPE_CHECKING:
    from homerl.worlds.users.llm import SharedEndpoint


class UserFactory:
    """A factory of users: `users(seed)` makes one. Without a `shared` endpoint they are scripted."""

    def __init__(self, shared: SharedEndpoint | None = None) -> None:
        self.shared = shared

    def __call__(self, seed: int) -> User:
        if self.shared is None:
            return ScriptedUser(seed)
        from homerl.worlds.users.llm import LLMUser

        return LLMUser(self.shared, seed)

    def usage_totals(self) -> dict[str, Any]:
        """Requests, tokens, retries and faults of the endpoint, utterances, and user errors by reason; empty if scripted."""
        if self.shared is None:
            return {}
        return asdict(self.shared.endpoint.usage) | {
            "utterances": self.shared.utterances,
            "errors": dict(self.shared.errors),
        }

    def usage_metrics(self) -> dict[str, float]:
        """The usage as flat numbers named `user/...`, for a run's monitor."""
        return {f"user/{key}": float(value) for key, value in _flat(self.usage_totals())}


def make_llm_users(settings: UserSettings, urls: Sequence[str], model: str) -> UserFactory:
    """Users behind endpoints that answer; raises `InputError` if the key's variable is not set."""
    refuse_missing_key(settings)
    from homerl.worlds.users.llm import SharedEndpoint

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
    from homerl.models.endpoint.serve import serve_endpoint

    with serve_endpoint(settings, log) as (urls, model):
        yield make_llm_users(settings, urls, model)


def _flat(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}/")
        else:
            yield above + key, value
