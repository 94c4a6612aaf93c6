"""What agents are told at the start: rules of conduct, and in a last paragraph where the user is and what time it is.

Invariant: nothing of the home but that: an agent must look.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from envs.documents import read_yaml, validate
from envs.model import Model


class SystemPrompts(Model):
    brief: str
    full: str
    context: str


@lru_cache
def system_prompts(language: str) -> SystemPrompts:
    """The texts of a language."""
    document = read_yaml(Path(__file__).parent / "prompts.yaml")
    return validate(SystemPrompts, document, document.data[language])


def system_message(style: str, language: str, location: str, now: str) -> str:
    """The system message."""
    told = system_prompts(language)
    return f"{getattr(told, style)}\n\n{told.context.format(location=location, now=now)}"
