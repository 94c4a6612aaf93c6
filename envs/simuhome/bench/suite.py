"""SimuHome as a benchmark suite: released episode files, or 50 generated episodes for each of the 12 groups.

Invariants:
- Generated episodes are a pure function of seed and language.
- Their homes and sentences are held out from training, and their frames from recipes of `frames: train`.
- Each of them was played: the expert succeeds, and both the agent that does nothing and the one that refuses everything
  fail.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.core.model import Model
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim.episode_file import read_episode
from homerl.envs.simuhome.tasks.answer_checks import expert_reply
from homerl.envs.simuhome.tasks.author import make_group_blueprint
from homerl.envs.simuhome.tasks.blueprint import GROUPS, SimuHomeBlueprint, SimuHomeRecipe, blueprint_from_episode
from homerl.envs.simuhome.tasks.expert import BASELINES, ExpertWithoutLastAct
from homerl.envs.simuhome.tasks.sentences import check_simuhome_language
from homerl.envs.simuhome.tasks.situation import MAX_TURNS
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import Agent, play
from homerl.play.trajectory import Trajectory
from homerl.worlds import contract
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

HERE = Path(__file__).parent
NAME = "simuhome"
PER_GROUP = 50
TOTAL = PER_GROUP * len(GROUPS)
MAX_CANDIDATES = 40
Setting = Literal["eia", "react"]


class SimuHomeInstance(Model):
    """An episode of the suite. `category` is a column of the paper's Table 1."""

    id: str
    category: str
    subcategory: str
    blueprint: SimuHomeBlueprint

    def blueprint_for(self, setting: Setting) -> SimuHomeBlueprint:
        """The blueprint, which is the same in every setting."""
        return self.blueprint

    def limits_for(self, setting: Setting) -> EpisodeLimits:
        """The limits of the released program: one request, and 20 messages of the agent."""
        return EpisodeLimits(1, MAX_TURNS, MAX_TURNS)


class SimuHomeSuite(contract.Suite):
    """600 episodes, 50 for each group."""

    name = NAME
    settings = ("eia", "react")
    instance = SimuHomeInstance
    labels = ("category", "subcategory")
    shipped = HERE / "data" / f"{NAME}.jsonl.xz"
    judge_votes = 3

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[SimuHomeInstance]]:
        """The number of instances, and the instances in order."""
        check_simuhome_language(language)
        places = product(GROUPS, range(PER_GROUP))
        return TOTAL, (make_simuhome_instance(*place, seed, language, dropped) for place in places)

    def near_misses(self, instance: SimuHomeInstance, setting: str) -> Iterator[tuple[str, Agent]]:
        """A refusal without the right reason, and for tasks that are done by acts: the expert's, but for the last one."""
        yield "a refusal without the reason", BASELINES["refuses"]()
        if instance.blueprint.episode_file.is_decided_by_rule:
            yield "without the last act", ExpertWithoutLastAct()

    def printed(self) -> Mapping[str, Any]:
        """The figures that the paper prints."""
        figures: Mapping[str, Any] = read_yaml(HERE / "printed.yaml").data[NAME]
        return figures

    def read_files(self, folder: Path) -> list[SimuHomeInstance]:
        """The instances of a folder of released files."""
        return read_released_episodes(folder)


def simuhome_instance(blueprint: SimuHomeBlueprint) -> SimuHomeInstance:
    """A blueprint as an instance, with its category and subcategory."""
    meta = blueprint.task["meta"]
    kinds = (meta.get(key) for key in ("conflict_type", "scenario", "infeasible_family"))
    kind = next(filter(None, kinds), meta["case"])
    category = blueprint.category
    return SimuHomeInstance(
        id=blueprint.id, category=category, subcategory=f"{category}: {kind.replace('_', ' ')}", blueprint=blueprint
    )


# Released files


def read_released_episodes(folder: Path) -> list[SimuHomeInstance]:
    """The instances of all episode files in a folder, or of one file, in the order of groups, seeds and names.

    Raises `InputError` if there is no file, or if a file is not an episode.
    """
    files = sorted(folder.glob("*.json")) if folder.is_dir() else [folder]
    if not files or not all(file.is_file() for file in files):
        raise InputError(
            "there are no episode files", str(folder), "name a folder of `qt1_feasible_seed_1.json` and the like"
        )
    instances = []
    for file in files:
        episode = read_episode(file)
        reply = expert_reply(episode, load.start_home(episode.initial_home_config), "en")
        place = GROUPS.index(f"{episode.meta.query_type}/{episode.meta.case}"), episode.meta.seed, file.stem
        blueprint = blueprint_from_episode(episode, f"{NAME}-{file.stem}", reply=reply)
        instances.append((place, simuhome_instance(blueprint)))
    return [instance for _, instance in sorted(instances, key=itemgetter(0))]


# Generated episodes


def make_simuhome_instance(
    group: str, number: int, seed: int, language: str = "en", dropped: Counter[str] | None = None
) -> SimuHomeInstance:
    """The first valid candidate for instance `number` of a group. Raises `RuntimeError` after too many invalid ones."""
    dropped = Counter() if dropped is None else dropped
    recipe = SimuHomeRecipe(world="simuhome", language=language, phrasings=1, frames="heldout")
    id = f"{NAME}-{group.replace('/', '-')}-{number:03d}"
    rng, (query_type, case) = random.Random(f"{NAME} {seed} {language} {id}"), group.split("/")
    for _ in range(MAX_CANDIDATES):
        instance = simuhome_instance(make_group_blueprint(recipe, "heldout", query_type, case, id, rng, dropped))
        if (flaw := next(simuhome_instance_flaws(instance), None)) is None:
            return instance
        dropped[f"validity: {flaw}"] += 1
    raise RuntimeError(f"no valid instance for {id} in {MAX_CANDIDATES} candidates: {dict(dropped)}")


def simuhome_instance_flaws(instance: SimuHomeInstance) -> Iterator[str]:
    """All that makes an instance invalid."""
    reference = play_simuhome_instance(instance, BASELINES["expert"]())
    if not (reference.success and reference.is_valid):
        yield "the reference fails"
    for name in ("nothing", "refuses"):
        if play_simuhome_instance(instance, BASELINES[name]()).success:
            yield f"'{name}' succeeds"


def play_simuhome_instance(instance: SimuHomeInstance, agent: Agent) -> Trajectory:
    """Play an instance once, with tool calls."""
    episode = begin_episode(instance.blueprint, instance.limits_for("eia"))
    return asyncio.run(play(episode, agent, ScriptedUser()))
