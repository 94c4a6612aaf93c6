"""Users from recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from homerl.play import User
from homerl.recipe import UserSettings
from homerl.users.scripted import ScriptedUser


@contextmanager
def user_factory(settings: UserSettings) -> Iterator[Callable[[int], User]]:
    """`make(seed)`; a user model that the recipe serves runs for as long as the context."""
    if settings.kind == "scripted":
        yield ScriptedUser
        return
    from homerl.users.llm import LLMUser
    from homerl.users.serve import served

    with served(settings) as (url, model):
        yield lambda seed: LLMUser(url, model, settings, seed)
