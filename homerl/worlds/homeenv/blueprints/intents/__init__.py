"""Intent families: one file each, found by being here.

A family is a module with `SUBCATEGORIES`: by name, a function that proposes a draft for a home, or None where the home
offers nothing of the kind. Its name is the file's. What it says is a `Meaning`, by frames that every language has; frames of
its own are the keys `<family>.*` of each language. Families of your own may lie elsewhere: each folder that the environment
variable HOMERL_INTENTS names (several are separated as in PATH) is searched too.
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
    """Subcategories by family."""
    modules = (import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {m.__name__.rpartition(".")[2]: dict(m.SUBCATEGORIES) for m in modules if hasattr(m, "SUBCATEGORIES")}
