"""The LLM author: a chat model writes the person, the scene and the tasks with their conditions (HomeFlow 3.3.1).

A candidate takes three requests, each with a schema for its answer: the person with the scene, the tasks, and a verdict
on each task. A task that fails a filter is left out and counted by filter and reason. The simulator decides whether a
task is executable and within bounds. For consistency, the simulator checks that the plan meets the conditions and
touches nothing else; then the model gives its verdict.

Invariants:
- A blueprint passes the same filters as one of the scripted author, and its verdicts are stored with it.
- It contains no sentence and no name of the other split, and no spoken id or code.
- The same answers of the model give the same blueprint.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.make import make_home
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.author import (
    BlueprintRecipe,
    assemble_blueprint,
    first_filter_failure,
    load_people_words,
    sample_profile,
)
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, Factors, Intent, Profile
from homerl.envs.homeenv.tasks.persona import find_leaked_word
from homerl.envs.homeenv.tasks.prompts import describe_services
from homerl.models.endpoint.structured_answers import OneLineText, StructuredClient
from homerl.play.words.grammar import Split, split_of
from homerl.play.words.user_manner import load_manner
from homerl.worlds.contract import AuthoredBlueprint, UnfitCandidate, write_fit_candidate

SHOWN = 12  # most devices that the model is shown
FAMILY = "authored"


class HomeAuthoringPrompts(Model):
    """The prompts of `authoring.yaml`."""

    person: str
    tasks: str
    judge: str
    given: str
    sketch: str
    judged: str


# The names and docstrings of the models below are part of the schemas that are sent to the model (and the names part of the
# seeds), so that changing one changes what the model writes.
class Likes(Model):
    """What a person likes at home."""

    temperature: int = Field(ge=10, le=32)
    lighting: str
    noise: str


class Person(Model):
    """A profile, and the slice of life that is lived now."""

    name: OneLineText
    age: int = Field(ge=1, le=110)
    gender: str
    height_cm: int = Field(ge=50, le=230)
    weight_kg: int = Field(ge=10, le=250)
    health: str
    habits: tuple[str, ...] = Field(min_length=1, max_length=4)
    preferences: Likes
    scene: OneLineText


class Task(Model):
    """One thing that is wanted, and how it is checked."""

    say: tuple[OneLineText, ...] = Field(min_length=1)
    plainly: tuple[OneLineText, ...] = Field(min_length=1)
    clarity: Literal["clear", "ambiguous", "missing_slot"]
    noise: Literal["clean", "noisy"]
    dependency: Literal["independent", "dependent"]
    conditions: tuple[str, ...] = Field(min_length=1)
    plan: tuple[Call, ...] = Field(min_length=1)


class Tasks(Model):
    """What a person wants in a scene."""

    tasks: tuple[Task, ...] = Field(min_length=1)


class Verdict(Model):
    """What the model thinks of one task, the first being 1."""

    task: int
    consistent: bool
    fault: Literal["none", "sentences", "conditions", "plan", "person", "scene"]
    why: str


class Verdicts(Model):
    """The third filter's second half."""

    verdicts: tuple[Verdict, ...]


@cache
def home_authoring_prompts() -> HomeAuthoringPrompts:
    """The prompts, read once."""
    return validate_document(HomeAuthoringPrompts, read_yaml(Path(__file__).with_name("authoring.yaml")))


async def author_home_blueprint(
    recipe: BlueprintRecipe, split: Split, seed: int, client: StructuredClient, attempts: int, dropped: Counter[str]
) -> AuthoredBlueprint:
    """The first candidate of a seed that still has enough tasks after all filters.

    Its record counts the candidates and tasks written and the tasks kept, and holds the verdict on each kept task.

    Raises `NoBlueprint` after `attempts` candidates, and `InfraError` if the server fails. What is written and dropped
    is counted in `dropped`.
    """
    rng = random.Random(f"llm blueprint {split} {seed}")

    async def write(number: int) -> AuthoredBlueprint:
        # As in `make_home_blueprint`: the parity of the seed keeps the homes of the splits apart.
        home = make_home(2 * rng.getrandbits(40) + (split == "heldout"), recipe.home)
        authored = await TaskCandidate(recipe, split, seed, home, client, dropped).author_tasks(rng)
        return AuthoredBlueprint(authored.blueprint, authored.record | {"candidates": number})

    return await write_fit_candidate(write, attempts, seed, dropped)


@dataclass(frozen=True)
class TaskCandidate:
    """One home for which the model writes a person and tasks."""

    recipe: BlueprintRecipe
    split: Split
    seed: int
    home: Home
    client: StructuredClient
    dropped: Counter[str]

    async def author_tasks(self, rng: random.Random) -> AuthoredBlueprint:
        """The blueprint of the tasks that pass the filters.

        Raises `UnfitCandidate` if too few do, and `UnreadableAnswer` if an answer of the model cannot be parsed.
        """
        prompts, language = home_authoring_prompts(), load_manner(self.recipe.home.language).language
        # At least one controllable device is not shown, so that the tasks leave it alone.
        able = [device for device in self.home.plan.devices if device.spec.service_index]
        chosen = rng.sample(able, min(SHOWN, len(able) - 1)) if len(able) > 1 else []
        if not (shown := "\n".join(_describe_device(self.home, device) for device in chosen)):
            raise UnfitCandidate("home offers too little")
        seed = rng.getrandbits(31)
        sketch = prompts.sketch.format(
            person=_person_as_json(sample_profile(rng, self.split, self.recipe.home.language)),
            devices=shown,
            hour=self.home.clock // 3600 % 24,
            minute=self.home.clock // 60 % 60,
            outside=self.home.state_of(OUTDOORS)["temperature"],
        )
        person = await self.client.ask(prompts.person.format(language=language), sketch, Person, seed)
        others = load_people_words(self.recipe.home.language).given["train" if self.split == "heldout" else "heldout"]
        if any(name in person.name.split() or person.name.endswith(name) for name in others):
            raise UnfitCandidate("a name of the other split")
        if self._is_code(person.scene):
            raise UnfitCandidate("code in the scene")
        given = prompts.given.format(person=_person_as_json(person), scene=person.scene, devices=shown)
        low, high = self.recipe.intents
        asked = prompts.tasks.format(low=low, high=high, phrasings=self.recipe.phrasings, language=language)
        tasks = (await self.client.ask(asked, given, Tasks, seed)).tasks[:high]
        self.dropped["tasks: written"] += len(tasks)
        kept = self._drop_shared_devices([intent for task in tasks if (intent := self._intent_of_task(task, person))])
        verdicts = await self._ask_for_verdicts(kept, person, seed) if kept else {}
        agreed = [intent for number, intent in enumerate(kept, 1) if self._is_consistent(verdicts.get(number))]
        if len(agreed) < low:
            raise UnfitCandidate("too few tasks are left")
        intents = [intent.model_copy(update={"id": number}) for number, intent in enumerate(agreed, 1)]
        made = self._make_blueprint(intents, person)
        if failure := first_filter_failure(made):
            raise UnfitCandidate("{}, {}".format(*failure))
        stored = [verdict.model_dump() for number, verdict in sorted(verdicts.items()) if kept[number - 1] in agreed]
        return AuthoredBlueprint(made, {"tasks": len(tasks), "kept": len(agreed), "verdicts": stored})

    def _intent_of_task(self, task: Task, person: Person) -> Intent | None:
        """The task as an intent, if its sentences and the simulator allow it."""
        told = [
            [text for text in dict.fromkeys(texts) if split_of(text) == self.split] for texts in (task.say, task.plainly)
        ]
        said, plainly = told
        if not (said and plainly):
            self.dropped["author: no sentence of this split"] += 1
            return None
        if any(map(self._is_code, (*said, *plainly))):
            self.dropped["author: code is said"] += 1
            return None
        devices = devices_read_by(task.conditions, self.home)
        scope = "single_device" if len(devices) < 2 else "multi_device"
        intent = Intent(
            id=1,
            family=FAMILY,
            subcategory=task.clarity,
            factors=Factors(clarity=task.clarity, noise=task.noise, dependency=task.dependency, scope=scope),
            queries=tuple(said),
            clarification=plainly[0],
            conditions=task.conditions,
            devices=devices,
            plan=task.plan,
        )
        if failure := first_filter_failure(self._make_blueprint([intent], person)):
            self.dropped["{}: {}".format(*failure)] += 1
            return None
        return intent

    def _drop_shared_devices(self, intents: Sequence[Intent]) -> list[Intent]:
        """The intents that share no device with an earlier one.

        This keeps the tasks diverse, and no task undoes another.
        """
        taken: set[str] = set()
        kept = []
        for intent in intents:
            if taken & set(intent.devices):
                self.dropped["author: a device of another task"] += 1
                continue
            taken |= set(intent.devices)
            kept.append(intent)
        return kept

    def _is_code(self, text: str) -> bool:
        """Whether the text contains an id, code or a phrase of a language model, by the rules for simulated users."""
        return find_leaked_word(text, "", self.home, load_manner(self.recipe.home.language)) is not None

    async def _ask_for_verdicts(self, intents: Sequence[Intent], person: Person, seed: int) -> dict[int, Verdict]:
        tasks = []
        for number, intent in enumerate(intents, 1):
            said = {"say": intent.queries, "plainly": intent.clarification, "conditions": intent.conditions}
            told = json.dumps(said | {"plan": [call.code for call in intent.plan]}, ensure_ascii=False)
            tasks.append(f"Task {number}: {told}")
        prompts = home_authoring_prompts()
        text = prompts.judged.format(person=_person_as_json(person), scene=person.scene, tasks="\n".join(tasks))
        answer = await self.client.ask(prompts.judge, text, Verdicts, seed, temperature=0.0)
        return {verdict.task: verdict for verdict in answer.verdicts if 1 <= verdict.task <= len(intents)}

    def _is_consistent(self, verdict: Verdict | None) -> bool:
        if verdict is None or not verdict.consistent:
            self.dropped[f"consistent: the judge: {verdict.fault if verdict else 'no verdict'}"] += 1
            return False
        return True

    def _make_blueprint(self, intents: Sequence[Intent], person: Person) -> Blueprint:
        data = person.model_dump()
        profile = Profile.model_validate({key: data[key] for key in Profile.model_fields})
        return assemble_blueprint(self.recipe, self.split, self.seed, self.home, profile, person.scene, intents)


def devices_read_by(conditions: Sequence[str], home: Home) -> tuple[str, ...]:
    """Ids of the devices that the conditions read.

    Empty if a condition does not compile; the first filter then reports it.
    """
    try:
        read = [slot for text in conditions for slot in compile_condition(text, home.plan).slots]
    except InputError:
        return ()
    owners = dict.fromkeys(home.plan.slots[slot].owner for slot in read)
    return tuple(owner for owner in owners if owner in home.plan.devices_by_did)


def _describe_device(home: Home, device: Device) -> str:
    """One line about a device: id, place, name, state and services."""
    state = json.dumps(home.readable_state_of(device.did), ensure_ascii=False)
    return f"- {device.did} ({device.room.name} {device.name}): {state}; {describe_services(device)}"


def _person_as_json(person: Model) -> str:
    return json.dumps(person.model_dump(mode="json", exclude={"scene"}), ensure_ascii=False)
