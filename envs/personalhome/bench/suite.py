"""PersonalHomeBench as a suite: 1,000 households with a grounding task, a choice, a feature and a plan task each.

A grounding task asks a question and its two counterfactuals in one episode, so these are 4,000 episodes with 6,000 answers,
as many as the paper has on text.

Invariants:
- Instances are a pure function of seed and language. An instance keeps the seed of its household and a digest, and makes the
  household again; a household that came out differently is refused.
- Names, frames and questions are held out from training.
- Each instance was tried: the right answer meets all of Φ, and no answer, "unknown" and a near miss do not.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, ClassVar, Literal

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.core.state_encoding import text_hash
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.tasks.author import draw_task, task_to_blueprint
from homerl.envs.personalhome.tasks.blueprint import (
    CATEGORIES,
    KINDS,
    LEVELS,
    Difficulty,
    PersonalHomeBlueprint,
    PersonalHomeRecipe,
    Setting,
    Task,
)
from homerl.envs.personalhome.tasks.expert import right_answer, wrong_answer
from homerl.envs.personalhome.tasks.situation import answer_goals
from homerl.play.episode import EpisodeLimits
from homerl.worlds import contract

NAME = "personalhome-bench"
HOUSEHOLDS = 1000
TURNS = 15  # of the agent, before its answer


class PersonalHomeInstance(Model):
    """One task of the suite. `household` is the seed of its household, and `digest` a hash of that household."""

    id: str
    world: Literal["personalhome"] = "personalhome"
    category: str
    difficulty: str
    language: str
    household: int
    digest: str
    task: Task

    suite: ClassVar[str] = NAME

    @property
    def blueprint(self) -> PersonalHomeBlueprint:
        """The blueprint, with tools. Raises `InputError` if the household is not the one of the digest."""
        return self.blueprint_for("agentic")

    def blueprint_for(self, setting: Setting) -> PersonalHomeBlueprint:
        """The blueprint in a setting."""
        household = self.remake_household()
        if household is None or household_digest(household) != self.digest:
            what = f"household {self.household} came out otherwise than when the suite was built"
            raise InputError(what, self.id, f"build the suite again: homerl bench build {self.suite}")
        recipe = PersonalHomeRecipe(world="personalhome", setting=setting)
        return task_to_blueprint(household, self.task, self.id, self.household, "heldout", recipe)

    def remake_household(self) -> Household | None:
        """The household, made again; None if it cannot be made any more."""
        return make_suite_household(self.household, self.language)

    def limits_for(self, setting: Setting) -> EpisodeLimits:
        """One message of the user, and 15 turns of the agent before its answer."""
        return EpisodeLimits(1, TURNS + 1, TURNS + 1)


class PersonalHomeSuite(contract.Suite):
    """4,000 episodes in 1,000 households."""

    name = NAME
    settings = ("agentic", "sole")
    instance = PersonalHomeInstance
    labels = ("category", "difficulty")

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[PersonalHomeInstance]]:
        """The number of instances, and the instances household by household."""
        return HOUSEHOLDS * len(KINDS), build_household_instances(seed, language, dropped, progress)


@lru_cache(maxsize=8)  # the tasks of a household follow each other
def make_suite_household(seed: int, language: str) -> Household:
    """The household of a seed, in held-out words."""
    return make_household(seed, HouseholdRecipe(language=language, lexicon="heldout"))


def household_digest(household: Household) -> str:
    """A 64-bit hash of a household, in hex."""
    return f"{text_hash(household.model_dump_json()):032x}"[:16]


def build_household_instances(
    seed: int, language: str, dropped: Counter[str], progress: contract.Progress, households: int = HOUSEHOLDS
) -> Iterator[PersonalHomeInstance]:
    """The instances of as many households as have all four tasks, in the order of their seeds."""
    candidates = itertools.count(seed * 1_000_000)
    for number in range(households):
        level, tasks = LEVELS[number % len(LEVELS)], list[Task]()
        while not tasks:
            candidate = next(candidates)
            tasks = draw_household_tasks(candidate, language, level, dropped)
        digest = household_digest(make_suite_household(candidate, language))
        about: dict[str, Any] = {"language": language, "household": candidate, "digest": digest}
        for task in tasks:
            yield PersonalHomeInstance(**task_fields(f"{NAME}-{task.kind}-{candidate}", task), **about)
        progress((number + 1) * len(KINDS), households * len(KINDS))


def task_fields(id: str, task: Task) -> dict[str, Any]:
    """The fields of an instance that follow from its task."""
    difficulty = getattr(task, "difficulty", "unrated")
    return {"id": id, "category": CATEGORIES[task.kind], "difficulty": difficulty, "task": task}


def draw_household_tasks(seed: int, language: str, level: Difficulty, dropped: Counter[str]) -> list[Task]:
    """One task of each kind; none, counted by reason, if the household lacks one or a task is not valid."""
    household = make_suite_household(seed, language)
    rng = random.Random(f"{NAME} {language} {seed}")
    recipe = PersonalHomeRecipe(world="personalhome", personal=1.0 if rng.random() < 0.5 else 0.0)
    drawn = ((kind, draw_task(kind, level, household, recipe, "heldout", rng)) for kind in KINDS)
    return keep_valid_tasks(drawn, household, recipe, dropped)


def keep_valid_tasks(
    drawn: Iterable[tuple[str, Task | None]], household: Household, recipe: PersonalHomeRecipe, dropped: Counter[str]
) -> list[Task]:
    """The tasks of some kinds; none, counted by reason, if one is missing or not valid. Then no further one is drawn."""
    tasks: list[Task] = []
    for kind, task in drawn:
        flaw = find_task_flaw(household, task, recipe) if task else f"no task '{kind}'"
        if task is None or flaw is not None:
            dropped[f"validity: {flaw}"] += 1
            return []
        tasks.append(task)
    return tasks


def find_task_flaw(household: Household, task: Task, recipe: PersonalHomeRecipe) -> str | None:
    """What makes a task invalid: a right answer that fails, or a lazy or wrong one that succeeds; None if it is valid."""
    blueprint = task_to_blueprint(household, task, "candidate", 0, "heldout", recipe)
    if not all(answer_goals(blueprint, right_answer(blueprint))):
        return f"{task.kind}: the right answer fails"
    wrong = {"nothing": "", "a near miss": wrong_answer(blueprint, random.Random(0))}
    if task.kind != "plans":
        wrong["'unknown'"] = '{"answer": "unknown"}'
    for name, text in wrong.items():
        if all(answer_goals(blueprint, text)):
            return f"{task.kind}: {name} succeeds"
    return None
