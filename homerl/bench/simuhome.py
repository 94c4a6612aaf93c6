"""SimuHome as a suite: released episode files as they are, or 50 new ones of each of the 12 groups, from a seed.

Invariants: the new ones are a pure function of seed and language, held out from training (homes, frames, sentences), and
each was played: the reference succeeds, and neither doing nothing nor a refusal that fits everything does.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from envs.documents import InputError
from envs.model import Model
from envs.simuhome import load
from envs.simuhome.episodes import Episode as File
from envs.simuhome.episodes import read_episode
from envs.simuhome.react import MOST_TURNS
from homerl.episode import Episode, EpisodeLimits
from homerl.play import Agent, play
from homerl.trajectory import Trajectory
from homerl.users.scripted import ScriptedUser
from homerl.worlds.simuhome.agents import BASELINES
from homerl.worlds.simuhome.answers import reply_to
from homerl.worlds.simuhome.author import author
from homerl.worlds.simuhome.blueprint import GROUPS, SimuHomeBlueprint, SimuHomeRecipe, blueprint_of

NAME = "simuhome"
EACH = 50  # episodes of a group
COUNT = EACH * len(GROUPS)
TRIES = 40
Setting = Literal["eia", "react"]


class SimuHomeInstance(Model):
    """An episode of the suite. `category` is a column of the paper's Table 1."""

    id: str
    category: str
    subcategory: str
    blueprint: SimuHomeBlueprint

    def blueprint_for(self, setting: Setting) -> SimuHomeBlueprint:
        return self.blueprint

    def limits_for(self, setting: Setting) -> EpisodeLimits:
        """The reference's: one request, 20 messages of the agent."""
        return EpisodeLimits(1, MOST_TURNS, MOST_TURNS)

    def labels(self) -> dict[str, Any]:
        return {"category": self.category, "subcategory": self.subcategory}


def instance_of(blueprint: SimuHomeBlueprint) -> SimuHomeInstance:
    meta = blueprint.task["meta"]
    kinds = (meta.get(key) for key in ("conflict_type", "scenario", "infeasible_family"))
    kind = next(filter(None, kinds), meta["case"])
    category = blueprint.category
    return SimuHomeInstance(
        id=blueprint.id, category=category, subcategory=f"{category}: {kind.replace('_', ' ')}", blueprint=blueprint
    )


# Released files


def read_episodes(folder: Path, mended: bool = False) -> list[SimuHomeInstance]:
    """Every episode file of a folder, in the order of groups and names."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else [folder]
    if not files or not all(file.is_file() for file in files):
        raise InputError(
            "there are no episode files", str(folder), "name a folder of `qt1_feasible_seed_1.json` and the like"
        )
    found = [(file.stem, read_episode(file)) for file in files]
    return [_released(episode, f"{NAME}-{stem}", not mended) for stem, episode in sorted(found, key=_place)]


def _released(episode: File, id: str, strict: bool) -> SimuHomeInstance:
    reply = reply_to(episode, load.start(episode.initial_home_config, strict), "en")
    return instance_of(blueprint_of(episode, id, reply=reply, strict=strict))


def _place(found: tuple[str, File]) -> tuple[int, int, str]:
    meta = found[1].meta
    return GROUPS.index(f"{meta.query_type}/{meta.case}"), meta.seed, found[0]


# New ones


def build(
    seed: int, language: str = "en", dropped: Counter | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[SimuHomeInstance]:  # fmt: skip
    """All instances, group by group."""
    dropped = Counter() if dropped is None else dropped
    for index in range(COUNT):
        yield make_instance(GROUPS[index // EACH], index % EACH, seed, language, dropped)
        progress(index + 1, COUNT)


def make_instance(
    group: str, number: int, seed: int, language: str = "en", dropped: Counter | None = None
) -> SimuHomeInstance:
    """The first candidate of a place that is valid."""
    dropped = Counter() if dropped is None else dropped
    recipe = SimuHomeRecipe(world="simuhome", language=language, phrasings=1, frames="heldout")
    id = f"{NAME}-{group.replace('/', '-')}-{number:03d}"
    rng = random.Random(f"{NAME} {seed} {language} {id}")
    for _ in range(TRIES):
        instance = instance_of(author(recipe, "heldout", *group.split("/"), id, rng, dropped))
        if (flaw := next(flaws(instance), None)) is None:
            return instance
        dropped[f"validity: {flaw}"] += 1
    raise RuntimeError(f"no valid instance for {id} in {TRIES} candidates: {dict(dropped)}")


def flaws(instance: SimuHomeInstance) -> Iterator[str]:
    """Everything that is wrong with an instance."""
    reference = attempt(instance, BASELINES["expert"]())
    if not (reference.success and reference.valid):
        yield "the reference fails"
    for name in ("nothing", "refuses"):
        if attempt(instance, BASELINES[name]()).success:
            yield f"'{name}' succeeds"


def attempt(instance: SimuHomeInstance, agent: Agent) -> Trajectory:
    """The instance played once."""
    episode = Episode.begin(instance.blueprint, instance.limits_for("eia"))
    return asyncio.run(play(episode, agent, ScriptedUser()))
