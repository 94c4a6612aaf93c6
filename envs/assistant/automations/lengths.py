"""How long a script runs, where its text tells: its delays, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.assistant.automations.states import parse_duration
from homerl.envs.assistant.automations.telling import UnreadableAutomation
from homerl.envs.assistant.automations.text import NESTING

UNTOLD = ("wait_template", "wait_for_trigger", "repeat")  # what takes as long as it takes


def script_duration(text: Any) -> int | None:
    """The seconds for which a script runs; None if that is not told, or depends on the home."""
    sequence = text.get("sequence") if isinstance(text, Mapping) else None
    try:
        return _seconds(sequence if isinstance(sequence, list) else [sequence])
    except UnreadableAutomation:
        return None


def _seconds(actions: list[Any]) -> int:
    total = 0
    for action in actions:
        if not isinstance(action, Mapping) or any(key in action for key in UNTOLD):
            raise UnreadableAutomation("it is not told how long it takes")
        if "delay" in action:
            total += parse_duration(action["delay"])
        elif "delay" in str({key: action[key] for key in NESTING if key in action}) or "wait_" in str(action):
            raise UnreadableAutomation("how long it takes depends on the home")
    return total
