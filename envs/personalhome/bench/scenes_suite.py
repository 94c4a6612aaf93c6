"""PersonalHomeBench with videos, in words: 742 grounding tasks and choices, 100 feature and plan tasks, in 100 households.

The households are 30 of safety, 38 of health and 32 of daily life (Table 6), each with a transcript of a situation of its
domain. Questions are about the scene. A grounding task asks its two counterfactuals too, which makes 1,484 of these.
A folder may hold real clips of the households (`homerl bench run --videos`).

Invariants:
- Those of `suite.py` hold. An instance keeps the domain of its household too.
- A household asks no question twice in one kind of task. It asks each difficulty as often as the others, up to one.
- Each clip that was found has a first frame, and a folder's images are images. An agent is shown the clip of its own
  household, and what a tool showed of it.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.suite import (
    PersonalHomeInstance,
    find_task_flaw,
    household_digest,
    keep_valid_tasks,
    task_fields,
)
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.generate.household_maker import household_id_of_seed
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene.scene_scripts import domain_counts
from homerl.envs.personalhome.sim.scene.transcript import Domain
from homerl.envs.personalhome.sim.scene.video_clips import ClipFolder, frame_handles_in
from homerl.envs.personalhome.tasks import author
from homerl.envs.personalhome.tasks.blueprint import (
    LEVELS,
    Difficulty,
    PersonalHomeBlueprint,
    PersonalHomeRecipe,
    Setting,
    Task,
)
from homerl.envs.personalhome.tasks.questions.question_maker import QuestionWording, draw_questions, load_phrases
from homerl.worlds import contract

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


NAME = "personalhome-scenes"
HOUSEHOLDS = 100
QUESTIONS = 742  # of grounding tasks, and of choices
FAMILIES = tuple(load_phrases("en")["scenes"]["questions"])
RECIPE = PersonalHomeRecipe(world="personalhome", families=FAMILIES)


class SceneInstance(PersonalHomeInstance):
    """One task of the suite. `domain` is what the video of its household is about."""

    domain: Domain

    suite: ClassVar[str] = NAME

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


class ScenesSuite(contract.Suite):
    """1,684 episodes in 100 households with transcripts."""

    name = NAME
    settings = ("agentic", "sole")
    instance = SceneInstance
    labels = ("category", "difficulty", "domain")

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[SceneInstance]]:
        """The number of instances, and the instances household by household."""
        return 2 * QUESTIONS + 2 * HOUSEHOLDS, build_scene_instances(seed, language, dropped, progress)

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
    seed: int, language: str, dropped: Counter[str], progress: contract.Progress, households: int = HOUSEHOLDS
) -> Iterator[SceneInstance]:
    """The instances of as many households as have all their tasks, domain by domain, in the order of their seeds."""
    candidates, done = itertools.count(seed * 1_000_000), 0
    for number, domain in enumerate(Counter(domain_counts(households)).elements()):
        tried = (household_scene_instances(at, language, domain, number, dropped) for at in candidates)
        made = next(filter(None, tried))
        yield from made
        done += len(made)
        progress(done, 2 * QUESTIONS + 2 * HOUSEHOLDS)


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
    return [SceneInstance(**task_fields(f"{NAME}-{task.kind}-{seed}-{at}", task), **about) for at, task in tasks]


def question_difficulties(number: int) -> list[Difficulty]:
    """The difficulties of the questions of a household, so that all households together ask `QUESTIONS`."""
    # 742 questions in 100 households are 7 or 8 each: the differences of rounded multiples add up to the whole.
    count = (number + 1) * QUESTIONS // HOUSEHOLDS - number * QUESTIONS // HOUSEHOLDS
    return [LEVELS[(number + at) % len(LEVELS)] for at in range(count)]


def household_scene_tasks(household: Household, number: int, dropped: Counter[str]) -> list[Task]:
    """All tasks of the household of a number; none, counted by reason, if one is missing or not valid."""
    rng = random.Random(f"{NAME} {household.language} {household.household_id}")
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
