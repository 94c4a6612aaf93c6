"""What the shell completes when Tab is pressed: names of suites and models. (Those of recipes and
runs are in `homerl.host.terminal`, since commands of worlds have such arguments too.)

Invariants: nothing here loads a model or asks a server. What cannot be listed is not completed, without a word.
"""

from __future__ import annotations

from homerl.host.recipe_files import list_runs
from homerl.host.terminal import complete_words
from homerl.worlds.registry import known_suites, known_worlds


def complete_suite(incomplete: str) -> list[str]:
    """Names of suites and of worlds that have some, and files of suites."""
    worlds = [world.name for world in known_worlds().values() if world.suites]
    return complete_words(incomplete, [*known_suites(), *worlds], (".jsonl", ".jsonl.xz"))


def complete_model(incomplete: str) -> list[str]:
    """Names of shipped models and of agents that need none, runs that were made here, and folders."""
    from homerl.train.model_sources import list_shipped_models

    agents = [name for world in known_worlds().values() for name in world.baselines]
    return complete_words(incomplete, [*list_shipped_models(), *agents, *list_runs()])


def complete_base(incomplete: str) -> list[str]:
    """Names of the bases that can be made here, and of the shipped models."""
    from homerl.train.model_sources import list_shipped_models
    from homerl.train.offline_bases import BASES

    return complete_words(incomplete, [*list_shipped_models(), *(base.name for base in BASES.values())])
