"""The LLM author: a chat model writes the lives of a household; the scripted scaffold and the computed task stay.

The scripted generator gives type, layout, roles, ages, names, appliances and the situations of the moment. The model then
answers two requests, each with a schema: the people (personas, hobbies, tastes, habits), and their past (memories, ordinary
events of the last day). Everything is written twice, as a typed fact and as a sentence; `authoring/` reads
it and drops what contradicts itself. The task is drawn as for scripted households.

Invariants: a household breaks no rule of `checks.py`; its answers are computed, never written; the splits share no name, and
no sentence; the same answers of the model give the same blueprint.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml, validate
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.sim.generate import make_household
from homerl.envs.personalhome.sim.generate.checks import problems
from homerl.envs.personalhome.sim.generate.life import Life, life_of
from homerl.envs.personalhome.sim.household import Household, Member
from homerl.envs.personalhome.sim.shown import profile_shown
from homerl.envs.personalhome.sim.state import HouseholdState
from homerl.envs.personalhome.sim.vocabulary import vocabulary
from homerl.envs.personalhome.sim.words import words_for
from homerl.envs.personalhome.tasks.author import blueprint_of, draw_task
from homerl.envs.personalhome.tasks.authoring.reader import EVENTS, MEMORIES, Reader
from homerl.envs.personalhome.tasks.authoring.rules import telling_events
from homerl.envs.personalhome.tasks.authoring.shapes import Past, People
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeBlueprint, PersonalHomeRecipe
from homerl.envs.personalhome.tasks.filmed import filmed
from homerl.models.endpoint.structured import StructuredClient, Unreadable
from homerl.play.words.splits import Split
from homerl.worlds.contract import NoBlueprint

FEWEST_EVENTS = 2  # of the last day, with those that tell of the situation


class AuthoringPrompts(Model):
    """The prompts of one language in `authoring/prompts.yaml`."""

    people: str
    past: str


@cache
def authoring_prompts(language: str) -> AuthoringPrompts:
    """The prompts of a language. Raises `InputError` if it has none."""
    document = read_yaml(Path(__file__).parent / "authoring" / "prompts.yaml")
    return validate(dict[str, AuthoringPrompts], document)[language]


@dataclass(frozen=True)
class Authored:
    """A blueprint and the record of its making: how many candidates and statements were written, and how many were kept."""

    blueprint: PersonalHomeBlueprint
    record: dict[str, Any]


async def author_blueprint(
    recipe: PersonalHomeRecipe, split: Split, seed: int, client: StructuredClient, attempts: int, dropped: Counter[str]
) -> Authored:
    """The first candidate of a seed that keeps all rules and has a task.

    Raises `NoBlueprint` after `attempts` candidates, and `InfraError` if the server fails. What is written and dropped is
    counted in `dropped`.
    """
    rng = random.Random(f"llm personalhome {split} {seed}")
    kind = rng.choices(list(recipe.tasks), list(recipe.tasks.values()))[0]
    level = rng.choices(list(recipe.difficulties), list(recipe.difficulties.values()))[0]
    half = split if recipe.names == "split" else recipe.names
    for attempt in range(1, attempts + 1):
        number = rng.randrange(1 << 31)
        scaffold = make_household(number, recipe.household.model_copy(update={"lexicon": half}))
        dropped["candidates: written"] += 1
        candidate = Candidate(scaffold, split, recipe.household.memories[0], client, dropped)
        try:
            household = await candidate.household(rng.getrandbits(31))
            household = _with_video(household, number) if recipe.scenes else household
        except (Unreadable, Unfit) as error:
            dropped[f"candidate: {error if isinstance(error, Unfit) else 'unreadable'}"] += 1
            continue
        task = draw_task(kind, level, household, recipe, split, rng)
        if task is None:
            dropped[f"candidate: no task of kind '{kind}'"] += 1
            continue
        record = {"candidates": attempt, "memories": len(household.memories), "events": len(household.context.events)}
        return Authored(blueprint_of(household, task, f"{split}-{seed}", seed, split, recipe), record)
    raise NoBlueprint(f"no blueprint in {attempts} candidates for seed {seed}: {dict(dropped)}")


class Unfit(Exception):
    """Too little of a candidate is left, or it breaks a rule; the text says which."""


def _with_video(household: Household, seed: int) -> Household:
    """The household with a video. Raises `Unfit`."""
    if (made := filmed(household, seed)) is None:
        raise Unfit("no situation that can be filmed")
    return made


@dataclass(frozen=True)
class Candidate:
    """One scaffold for which the model writes. `fewest` memories must be left."""

    scaffold: Household
    split: Split
    fewest: int
    client: StructuredClient
    dropped: Counter[str]

    async def household(self, seed: int) -> Household:
        """The household of what keeps the rules.

        Raises `Unfit` if too little does, and `Unreadable` if an answer of the model cannot be parsed.
        """
        home = home_from_json(self.scaffold.home)
        life = life_of(self.scaffold, home)
        asked = authoring_prompts(self.scaffold.language)
        people = await self.client.ask(asked.people, told_for_people(self.scaffold, life), People, seed)
        reader = Reader(self.scaffold, life, self.split, self.dropped)
        members = reader.members(people)
        if members is None:
            raise Unfit("a person has no persona, hobby or taste")
        scaffold = self.scaffold.model_copy(update={"members": members})
        life = life_of(scaffold, home)
        past = await self.client.ask(asked.past, told_for_past(scaffold, life), Past, seed)
        reader = Reader(scaffold, life, self.split, self.dropped)
        memories, events = reader.memories(past.memories), reader.events(past.events)
        if len(memories) < self.fewest:
            raise Unfit("too few memories are left")
        if len(events) < FEWEST_EVENTS:
            raise Unfit("too few events are left")
        context = scaffold.context.model_copy(update={"events": events})
        household = scaffold.model_copy(update={"memories": memories, "context": context})
        if broken := next(problems(household, home), None):
            raise Unfit(broken)
        return household


# What the model is told


def told_for_people(household: Household, life: Life) -> str:
    """The scaffold, and what may be said of people."""
    words, groups = words_for(household.language), ("hobbies", "activities", "tastes", "genres", "scents")
    return _json(
        {
            "household": profile_shown(HouseholdState(household)),
            "people": [_person(member, household) for member in household.members],
            **_home(life),
            "tastes": {kind: _shape(kind, shape.fields, shape.what) for kind, shape in vocabulary().tastes.items()},
            "words": {group: words.keys[group] for group in groups} | {"units": words.units},
        }
    )


def told_for_past(household: Household, life: Life) -> str:
    """The household with its people, and the kinds of facts that a memory and an event may be."""
    words, facts = words_for(household.language), vocabulary().facts
    groups = {facts[kind].what for kind in (*MEMORIES, *EVENTS)} - {None}
    people = [
        _person(member, household) | {"persona": member.persona, "habits": member.lifestyle, "likes": member.preference}
        for member in household.members
    ]
    return _json(
        {
            "household": profile_shown(HouseholdState(household)),
            "people": people,
            **_home(life),
            "now": household.now.isoformat(timespec="minutes"),
            "memories": {kind: _shape(kind, facts[kind].fields, facts[kind].what) for kind in MEMORIES},
            "events": {kind: _shape(kind, facts[kind].fields, facts[kind].what) for kind in EVENTS},
            "words": {group: words.keys[str(group)] for group in sorted(map(str, groups))} | {"units": words.units},
            "number_of_memories": len(household.memories),
            "events_before": min(event.time for event in telling_events(household)).isoformat(timespec="minutes"),
        }
    )


def _person(member: Member, household: Household) -> dict[str, Any]:
    words = words_for(household.language)
    return {
        "member_id": member.member_id,
        "name": member.name,
        "role": words.word("roles", member.role),
        "age": member.age(household.now.date()),
        "gender": words.word("genders", member.gender),
        "occupation": words.word("occupations", member.occupation),
        "traits": [words.word("traits", trait) for trait in member.traits],
        "major_events": [event.description for event in member.major_events],
    }


def _home(life: Life) -> dict[str, Any]:
    """Rooms and appliances, each as id and name."""
    return {
        "rooms": {room.id: room.name for room in life.rooms},
        "appliances": {one.did: {"name": one.name, "room": one.room.id} for one in life.appliances},
    }


def _shape(kind: str, fields: Sequence[str], group: str | None) -> Mapping[str, Any]:
    return {"fields": [field for field in fields if field != "unit"], "what": group}


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)
