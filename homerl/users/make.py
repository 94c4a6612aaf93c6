"""Users from recipes.

Invariants: the recipe alone decides who speaks; all users of a run share one line, so that replicas are chosen by
load and what was asked is counted once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.documents import InputError
from homerl.llm.settings import NO_KEY, EndpointSettings, UserSettings
from homerl.play.loop import User
from homerl.users.scripted import ScriptedUser

if TYPE_CHECKING:
    from homerl.users.llm import Line


class Users:
    """`users(seed)` makes one."""

    def __init__(self, line: Line | None = None) -> None:
        self.line = line

    def __call__(self, seed: int) -> User:
        if self.line is None:
            return ScriptedUser(seed)
        from homerl.users.llm import LLMUser

        return LLMUser(self.line, seed)

    def usage(self) -> dict[str, Any]:
        """What was asked of the endpoint so far, and the users' faults by reason; empty for scripted users."""
        if self.line is None:
            return {}
        return asdict(self.line.endpoint.usage) | {"utterances": self.line.utterances, "errors": dict(self.line.errors)}

    def metrics(self) -> dict[str, float]:
        """The same as flat numbers, for a run's monitor."""
        return {f"user/{key}": float(value) for key, value in _flat(self.usage())}


def llm_users(settings: UserSettings, urls: Sequence[str], model: str) -> Users:
    """Users behind endpoints that answer."""
    check_key(settings)
    from homerl.users.llm import Line

    return Users(Line(settings, urls, model))


def check_key(settings: EndpointSettings) -> None:
    """Refuse a key that is named and not there."""
    if settings.key != NO_KEY and settings.key not in os.environ:
        raise InputError(f"the environment variable {settings.key} is not set", "key", "export it")


@contextmanager
def user_factory(settings: UserSettings, log: Path = Path("user_server.log")) -> Iterator[Users]:
    """`make(seed)`; a user model that the recipe serves runs for as long as the context."""
    if settings.kind == "scripted":
        yield Users()
        return
    from homerl.llm.serve import served

    with served(settings, log) as (urls, model):
        yield llm_users(settings, urls, model)


def _flat(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}/")
        else:
            yield above + key, value
