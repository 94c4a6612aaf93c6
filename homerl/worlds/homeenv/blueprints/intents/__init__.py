"""Intent families, one module each.

A family is a module with `SUBCATEGORIES`: functions by subcategory that propose a draft for a home, or None if the home
offers nothing suitable. The name of the family is the name of its module, and every module in the folder is found. A
family says a `Meaning` through grammar frames that every language has; frames of one family have the keys `<family>.*`.
The environment variable HOMERL_INTENTS may name further folders, separated as in PATH.
"""

from __future__ import annotations

import os
import pkgutil
from functools import lru_cache
from importlib import import_module

from homerl.worlds.homeenv.blueprints.intents.draft import Ask, Draft, Propose

__path__ += [folder for folder in os.environ.get("HOMERL_INTENTS", "").split(os.pathsep) if folder]
__all__ = ["Ask", "Draft", "Propose", "families"]


@lru_cache
def families() -> dict[str, dict[str, Propose]]:
    """The subcategories of each family, by its name."""
    modules = (import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {m.__name__.rpartition(".")[2]: dict(m.SUBCATEGORIES) for m in modules if hasattr(m, "SUBCATEGORIES")}
