"""How devices spell the states that people name: `on` is `ON`, `true` and `1` elsewhere.

Invariant: this is the one place that knows spellings. Shipped products write the word itself.
"""

from __future__ import annotations

from typing import Any

SPELLINGS = {
    "on": {"on", "true", "1", "yes", "turn_on"},
    "off": {"off", "false", "0", "no", "turn_off"},
    "locked": {"locked", "lock"},
    "unlocked": {"unlocked", "unlock"},
}


def means(value: Any, word: str) -> bool:
    """Whether a value of a state says what the word says."""
    return value == word or (value is not None and str(value).lower() in SPELLINGS.get(word, ()))
