"""The system message: rules of conduct, and in its last paragraph the user's location and the time.

Invariant: it tells nothing else about the home, so that an agent must look.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from envs.documents import read_yaml, validate
from envs.model import Model


class SystemPrompts(Model):
    """The texts of one language: two variants of the rules of conduct, and the last paragraph."""

    brief: str
    full: str
    context: str


@lru_cache
def system_prompts(language: str) -> SystemPrompts:
    """The texts of a language."""
    document = read_yaml(Path(__file__).parent / "prompts.yaml")
    return validate(SystemPrompts, document, document.data[language])


def system_message(style: str, language: str, location: str, now: str) -> str:
    """The system message. `style` is `brief` or `full`, and `now` is the virtual time as text."""
    told = system_prompts(language)
    return f"{getattr(told, style)}\n\n{told.context.format(location=location, now=now)}"
