"""Intent families, one module each.

A family is a module with `SUBCATEGORIES`: functions by subcategory that propose a draft for a home, or None if the home
offers nothing suitable. The name of the family is the name of its module. A family says a `Meaning` through grammar
frames that every language has; frames of one family have the keys `<family>.*`. The environment variable HOMERL_INTENTS
may name further folders, separated as in PATH. `PARTS` are the modules that families share.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache

from homerl.envs.core.plugins import added_plugin_folders, discover
from homerl.envs.homeenv.tasks.intents.draft import Ask, Draft, Propose

__path__ += added_plugin_folders("intents")
__all__ = ["Ask", "Draft", "Propose", "intent_families"]
PARTS = ("complaints_and_scenes", "device_choice", "draft", "earlier_dialogue", "operations", "questions")


@lru_cache
def intent_families() -> dict[str, Mapping[str, Propose]]:
    """The subcategories of each family, by its name."""
    return discover(sys.modules[__name__], "SUBCATEGORIES", Mapping, PARTS)
