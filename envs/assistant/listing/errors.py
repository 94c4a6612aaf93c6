"""What goes wrong with a Home Assistant, in words for its owner."""

from __future__ import annotations


class HomeAssistantError(Exception):
    """What was wrong, where, and what to do; with the command, and Home Assistant's code and message if it gave them."""

    def __init__(self, text: str, command: str | None = None, code: str | None = None, said: str | None = None) -> None:
        super().__init__(text)
        self.command, self.code, self.said = command, code, said


class HomeAssistantUnreachable(HomeAssistantError):
    """Nothing answers at the address now."""
