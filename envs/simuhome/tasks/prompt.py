"""The system message: rules of conduct, and in its last paragraph the user's location and the time.

Invariant: it tells nothing else about the home, so that an agent must look.
"""

from __future__ import annotations

from homerl.envs.simuhome.tasks.languages import language_file


def system_message(style: str, language: str, location: str, now: str) -> str:
    """The system message. `style` is `brief` or `full`, and `now` is the virtual time as text."""
    told = language_file(language).prompts
    return f"{getattr(told, style)}\n\n{told.context.format(location=location, now=now)}"
