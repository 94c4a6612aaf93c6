"""Modules that plug-ins of November 2026 import by the names that they had then. They are found for one release more.

A plug-in that says `from envs.world import StepFacts` or `from homerl.terminal.commands import Command` goes on, with a
DeprecationWarning that tells the name of today.

Invariants:
- An object has one identity: an old name gives the object of today.
- A package `envs` or `rewards` of somebody else stays theirs.
- Nothing of homerl is imported here before an old name is.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parents[2]  # the folder of `envs` and `rewards`
TOPS = ("envs", "rewards")
# no plug-ins, then and now
OWN_OF_WORLDS = ("behaviour_rates", "contract", "paraphraser", "plugin_checks", "registry", "sources", "visit_contract")
OLD_LOSSES = ("bnpo", "cispo", "dapo", "dr_grpo", "grpo", "gspo")
# The longest that fits counts; what follows it is kept.
NEW_NAMES = {
    "envs": "homerl.envs",
    **{
        f"envs.{name}": f"homerl.envs.core.{name}"
        for name in ("documents", "messages", "model", "plugins", "spaces", "world")
    },
    "envs.homeenv": "homerl.envs.homeenv.sim",
    "envs.homeenv.tools": "homerl.envs.homeenv.sim.toolset",
    "envs.homemaker": "homerl.envs.homeenv.maker",
    "envs.personalhome": "homerl.envs.personalhome.sim",
    "envs.personalhome.shown": "homerl.envs.personalhome.sim.household_view",
    "envs.simuhome": "homerl.envs.simuhome.sim",
    "envs.simuhome.evaluate": "homerl.envs.simuhome.sim.evaluation",
    "envs.simuhome.generate": "homerl.envs.simuhome.tasks.episode_generator",
    "rewards": "homerl.rewards",
    "homerl.agents": "homerl.models.policy",
    "homerl.envs.core.hashing": "homerl.envs.core.state_encoding",
    "homerl.language": "homerl.play.words",
    "homerl.language.splits": "homerl.play.words.grammar",
    "homerl.llm": "homerl.models.endpoint",
    "homerl.play.candidates": "homerl.play.loop",
    "homerl.play.chat_messages": "homerl.play.tool_call_parser",
    "homerl.play.metrics.registry": "homerl.play.bench_results",
    "homerl.play.user_behaviours": "homerl.play.situation",
    "homerl.play.words.splits": "homerl.play.words.grammar",
    "homerl.terminal": "homerl.host",
    "homerl.terminal.commands": "homerl.host.terminal",
    "homerl.terminal.console": "homerl.host.terminal",
    "homerl.terminal.endings": "homerl.host.exit_codes",
    "homerl.terminal.progress": "homerl.host.progress_bar",
    "homerl.train.credit.common": "homerl.train.credit.step",
    **{f"homerl.train.losses.{name}": "homerl.train.losses.clipped" for name in OLD_LOSSES},
    **{f"homerl.train.{name}": "homerl.train.watch.phase_deadlines" for name in ("phases", "watchdog")},
    "homerl.users": "homerl.worlds.users",
    "homerl.worlds.home_visits": "homerl.worlds.contract",
    "homerl.worlds.visits": "homerl.worlds.contract",
    "homerl.worlds": "homerl.envs",  # a world of a folder of one's own
    "homerl.worlds.homeenv.blueprints": "homerl.envs.homeenv.tasks",
    "homerl.worlds.homeenv.blueprints.intents.draft": "homerl.envs.homeenv.tasks.intents",
    "homerl.worlds.homeenv.language": "homerl.envs.homeenv.language",
}


# What was renamed in these modules: (old module, old name) -> the name of today, with its module if it went elsewhere.
NEW_MEMBERS = {
    ("homerl.language.splits", "of_split"): "draw_of_split",
    ("homerl.play.candidates", "candidates"): "draw_candidates",
    ("homerl.train.credit.common", "normalised"): "normalise_values",
    ("homerl.train.credit.common", "returns_to_go"): "compute_returns_to_go",
    ("homerl.train.phases", "Phases"): "PhaseTimer",
    ("homerl.train.watchdog", "Stalled"): "RunStalled",
    ("homerl.play.chat_messages", "Observation"): "homerl.play.situation.Observation",
    ("homerl.play.chat_messages", "SpokenWords"): "homerl.play.spoken_words.SpokenWords",
    ("homerl.play.chat_messages", "spoken_words_of"): "homerl.play.spoken_words.spoken_words_of",
    ("homerl.play.user_behaviours", "Behaviours"): "homerl.models.endpoint.endpoint_settings.Behaviours",
    ("homerl.worlds.homeenv.blueprints.intents.draft", "control"): "draft_of_actions",
    ("homerl.worlds.homeenv.language.meaning", "Sayer"): "homerl.envs.homeenv.language.speaker.Speaker",
    ("envs.personalhome.shown", "shown"): "household_shown",
    ("envs.simuhome.evaluate", "evaluate"): "evaluate_episode",
}


class OldModule(ModuleType):
    """A module under its old name: what is asked of it, the module of today answers."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module, _, member = NEW_MEMBERS.get((self.__name__, name), name).rpartition(".")
        today = importlib.import_module(module or current_module_name(self.__name__) or "")
        warnings.warn(f"{self.__name__} is {today.__name__} now", DeprecationWarning, stacklevel=2)
        return getattr(today, member)


class OldNames(MetaPathFinder, Loader):
    """Finds modules by old names."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of an old name; None for any other."""
        top, _, rest = fullname.partition(".")
        if top in TOPS and not (isinstance(sys.modules.get(top), OldModule) if rest else _is_own_package(top)):
            return None
        return ModuleSpec(fullname, self, is_package=True) if current_module_name(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module."""
        return OldModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module of today is imported when something is asked of it."""


def current_module_name(old: str) -> str | None:
    """The module of today that an old name means; None if it is no old name."""
    parts = old.split(".")
    if parts[:2] == ["homerl", "worlds"] and (len(parts) == 2 or parts[2] in (*OWN_OF_WORLDS, "users")):
        return None
    for length in range(len(parts), 0, -1):
        if today := NEW_NAMES.get(".".join(parts[:length])):
            return ".".join([today, *parts[length:]])
    return None


def _is_own_package(top: str) -> bool:
    """Whether nobody else has a package of this name. In a checkout the folder itself may be on the path."""
    spec = PathFinder.find_spec(top)
    return spec is None or (spec.origin is not None and Path(spec.origin).resolve() == HERE / top / "__init__.py")


def install_old_names() -> None:
    """Let old names be found."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldNames())
