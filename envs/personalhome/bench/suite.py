"""PersonalHomeBench as suites: on text, and with videos in words.

On text: 1,000 households with a grounding task, a choice, a feature and a plan task each. A grounding task asks a
question and its two counterfactuals in one episode, so these are 4,000 episodes with 6,000 answers, as many as the paper
has.

With videos: 742 grounding tasks and choices, 100 feature and plan tasks, in 100 households. The households are 30 of
safety, 38 of health and 32 of daily life (Table 6), each with a transcript of a situation of its domain. Questions are
about the scene. A folder may hold real clips of the households (`homerl bench run --videos`).

Invariants:
- Instances are a pure function of seed and language. An instance keeps the seed of its household and a digest, and with
  videos its domain, and makes the household again; a household that came out differently is refused.
- Names, frames and questions are held out from training.
- Each instance was tried: the right answer meets all of Φ, and no answer, "unknown" and a near miss do not.
- With videos, a household asks no question twice in one kind of task, and each difficulty as often as the others, up to
  one.
- Each clip that was found has a first frame, and a folder's images are images. An agent is shown the clip of its own
  household, and what a tool showed of it.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.core.state_encoding import text_hash
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.generate.household_maker import household_id_of_seed
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene.scene_scripts import domain_counts
from homerl.envs.personalhome.sim.scene.transcript import Domain
from homerl.envs.personalhome.sim.scene.video_clips import ClipFolder, frame_handles_in
from homerl.envs.personalhome.tasks import author
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
from homerl.envs.personalhome.tasks.expert import ConstantAgent, right_answer, wrong_answer
from homerl.envs.personalhome.tasks.questions.question_maker import QuestionWording, draw_questions, load_phrases
from homerl.envs.personalhome.tasks.situation import answer_goals
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import Agent
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
    instance: type[PersonalHomeInstance] = PersonalHomeInstance
    labels: tuple[str, ...] = ("category", "difficulty")

    def near_misses(self, instance: PersonalHomeInstance, setting: str) -> Iterator[tuple[str, Agent]]:
        """The near miss by which each instance was checked."""
        yield "a wrong answer", ConstantAgent("wrong", lambda blueprint: wrong_answer(blueprint, random.Random(0)))

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[PersonalHomeInstance]]:
        """The number of instances, and the instances household by household."""
        return HOUSEHOLDS * len(KINDS), build_household_instances(seed, language, dropped)


@lru_cache(maxsize=8)  # the tasks of a household follow each other
def make_suite_household(seed: int, language: str) -> Household:
    """The household of a seed, in held-out words."""
    return make_household(seed, HouseholdRecipe(language=language, lexicon="heldout"))


def household_digest(household: Household) -> str:
    """A 64-bit hash of a household, in hex."""
    return f"{text_hash(household.model_dump_json()):032x}"[:16]


def build_household_instances(
    seed: int, language: str, dropped: Counter[str], households: int = HOUSEHOLDS
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


Film = Mapping[str, str]  # its `video_path`, which is a name in the folder, and `video`, a hash of it


@dataclass(frozen=True)
class TaskClips:
    """The clips of a folder, and the seed of the household of each task, by the task's id."""

    videos: ClipFolder
    households: Mapping[str, int]
    found: str  # as `2 of 100 households`

    def frames_in(self, task: str, result: str) -> list[str]:
        """The handles of the frames that a tool's result shows of the task's own clip."""
        return frame_handles_in(result, household_id_of_seed(self.households[task]))

    def image_parts(self, handle: str) -> list[dict[str, Any]]:
        """The images of a handle as content parts of a message in OpenAI's form."""
        return self.videos.content_parts(handle)


def find_household_clips(households: Mapping[str, int], folder: Path) -> tuple[dict[int, Film], TaskClips]:
    """The film of each household that has a clip in the folder, by its seed, and the clips of the tasks.

    `households` are the seeds of the tasks' households. Raises `InputError` if none of them has a clip, or if a clip cannot
    be read.
    """
    videos, seeds = ClipFolder(folder), dict.fromkeys(households.values())
    paths = {seed: path for seed in seeds if (path := videos.clip_path(household_id_of_seed(seed)))}
    if seeds and not paths:
        remedy = f"name clips by their households, such as {household_id_of_seed(next(iter(seeds)))}.mp4"
        raise InputError("no clip is of a household that is played", str(folder), remedy)
    films: dict[int, Film] = {}
    for seed, path in paths.items():
        videos.check_clip(household_id_of_seed(seed))
        digest = hashlib.sha256()
        for file in sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path]:
            with file.open("rb") as data:
                digest.update(file.name.encode() + hashlib.file_digest(data, "sha256").digest())
        films[seed] = {"video_path": path.name, "video": digest.hexdigest()}
    return films, TaskClips(videos, households, f"{len(paths)} of {len(seeds)} households")


SCENES_NAME = "personalhome-scenes"
SCENE_HOUSEHOLDS = 100
QUESTIONS = 742  # of grounding tasks, and of choices
FAMILIES = tuple(load_phrases("en")["scenes"]["questions"])
RECIPE = PersonalHomeRecipe(world="personalhome", families=FAMILIES)


class SceneInstance(PersonalHomeInstance):
    """One task of the suite. `domain` is what the video of its household is about."""

    domain: Domain

    suite: ClassVar[str] = SCENES_NAME

    def remake_household(self) -> Household | None:
        """The household with its transcript, made again; None if nothing in it can be filmed any more."""
        return make_filmed_household(self.household, self.language, self.domain)


class FilmedInstance(SceneInstance):
    """A task of a household with a real clip: its name in the folder of clips, and a hash of it.

    With the hash, a run with a clip that was changed is another run.
    """

    video_path: str
    video: str

    def blueprint_for(self, setting: Setting) -> PersonalHomeBlueprint:
        """The blueprint, whose tools name frames of the clip."""
        blueprint = super().blueprint_for(setting)
        scene = blueprint.household.transcript
        transcript = scene and scene.model_copy(update={"video_path": self.video_path})
        household = blueprint.household.model_copy(update={"transcript": transcript})
        return blueprint.model_copy(update={"household": household})


class ScenesSuite(PersonalHomeSuite):
    """1,684 episodes in 100 households with transcripts."""

    name = SCENES_NAME
    instance = SceneInstance
    labels = ("category", "difficulty", "domain")

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[SceneInstance]]:
        """The number of instances, and the instances household by household."""
        return 2 * QUESTIONS + 2 * SCENE_HOUSEHOLDS, build_scene_instances(seed, language, dropped)

    def with_clips(self, instances: Sequence[Any], folder: Path, setting: str) -> tuple[list[Any], TaskClips]:
        """The instances, those whose household has a clip in the folder as `FilmedInstance`, and the clips."""
        if setting != "agentic":
            what = f"in the setting '{setting}' there are no tools that show frames"
            raise InputError(what, "--videos", "leave it out, or add --setting agentic")
        films, clips = find_household_clips({one.id: one.household for one in instances}, folder)
        return [
            FilmedInstance(**one.model_dump(), **films[one.household]) if one.household in films else one
            for one in instances
        ], clips


@lru_cache(maxsize=8)
def make_filmed_household(seed: int, language: str, domain: Domain) -> Household | None:
    """The household of a seed with a transcript of a situation of the domain; None if none can be played."""
    household = make_household(seed, HouseholdRecipe(language=language, lexicon="heldout", wanted=domain))
    return author.film_household(household, seed, domain)


def build_scene_instances(
    seed: int, language: str, dropped: Counter[str], households: int = SCENE_HOUSEHOLDS
) -> Iterator[SceneInstance]:
    """The instances of as many households as have all their tasks, domain by domain, in the order of their seeds."""
    candidates = itertools.count(seed * 1_000_000)
    for number, domain in enumerate(Counter(domain_counts(households)).elements()):
        tried = (household_scene_instances(at, language, domain, number, dropped) for at in candidates)
        yield from next(filter(None, tried))


def household_scene_instances(
    seed: int, language: str, domain: Domain, number: int, dropped: Counter[str]
) -> list[SceneInstance]:
    """All tasks of a household as instances; none if the household lacks one. `number` is that of the household."""
    household = make_filmed_household(seed, language, domain)
    if household is None:
        dropped["validity: nothing to film"] += 1
        return []
    about = {"domain": domain, "language": language, "household": seed, "digest": household_digest(household)}
    tasks = enumerate(household_scene_tasks(household, number, dropped))
    return [SceneInstance(**task_fields(f"{SCENES_NAME}-{task.kind}-{seed}-{at}", task), **about) for at, task in tasks]


def question_difficulties(number: int) -> list[Difficulty]:
    """The difficulties of the questions of a household, so that all households together ask `QUESTIONS`."""
    # 742 questions in 100 households are 7 or 8 each: the differences of rounded multiples add up to the whole.
    count = (number + 1) * QUESTIONS // SCENE_HOUSEHOLDS - number * QUESTIONS // SCENE_HOUSEHOLDS
    return [LEVELS[(number + at) % len(LEVELS)] for at in range(count)]


def household_scene_tasks(household: Household, number: int, dropped: Counter[str]) -> list[Task]:
    """All tasks of the household of a number; none, counted by reason, if one is missing or not valid."""
    rng = random.Random(f"{SCENES_NAME} {household.language} {household.household_id}")
    drawn = (("features", author.make_features_task(household, rng)), ("plans", author.make_plans_task(household)))
    proactive = keep_valid_tasks(drawn, household, RECIPE, dropped)
    tasks: list[Task] = []
    for kind in ("grounding", "choice") if proactive else ():
        found = draw_question_tasks(kind, question_difficulties(number), household, rng)
        if found is None:
            dropped[f"validity: too few tasks '{kind}'"] += 1
            return []
        tasks += found
    return tasks + proactive


def draw_question_tasks(
    kind: str, levels: Sequence[Difficulty], household: Household, rng: random.Random
) -> list[Task] | None:
    """A valid task of a kind for each of the difficulties, as they are drawn; None if there are not so many."""
    left, texts = Counter(levels), set[str]()
    tasks: list[Task] = []
    for question in draw_questions(household, rng, FAMILIES):
        if not left[question.difficulty]:
            continue
        # Each question draws anew whether people are named or told by id.
        wording = QuestionWording(household, rng.random() < RECIPE.personal)
        text = author.question_in_words(question, wording, "heldout", rng)
        if text is None or text in texts:
            continue
        task = author.make_question_task(kind, question, text, wording, RECIPE, rng)
        if task is not None and find_task_flaw(household, task, RECIPE) is None:
            tasks.append(task)
            texts.add(text)
            left[question.difficulty] -= 1
            if not left.total():
                return tasks
    return None
