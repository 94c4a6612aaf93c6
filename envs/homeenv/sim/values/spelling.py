"""How devices spell the states that people name: `on` is `ON`, `true` and `1` elsewhere.

Invariant: this is the one place that knows spellings. Shipped products write the word itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

STATE = "state"  # the attribute that describes a part as a whole
SPELLINGS = {
    "on": {"on", "true", "1", "yes", "turn_on"},
    "off": {"off", "false", "0", "no", "turn_off"},
    "locked": {"locked", "lock"},
    "unlocked": {"unlocked", "unlock"},
    "open": {"open", "opened"},
    "closed": {"closed", "close"},
}
OPPOSITES = {"on": "off", "off": "on", "locked": "unlocked", "unlocked": "locked", "open": "closed", "closed": "open"}


def value_means_word(value: Any, word: str) -> bool:
    """Whether a value of a state says what the word says."""
    return value == word or (value is not None and str(value).lower() in SPELLINGS.get(word, ()))


def words_of_values(values: Sequence[Any]) -> dict[str, Any]:
    """The words that these values say, each with the first that says it. A word is none without its opposite."""
    found = {word: value for word in SPELLINGS for value in reversed(values) if value_means_word(value, word)}
    return {word: value for word, value in found.items() if OPPOSITES[word] in found}
