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

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.sim.generate import make_household
from homerl.envs.personalhome.sim.generate.consistency_rules import household_problems
from homerl.envs.personalhome.sim.generate.life_facts import Life, household_life
from homerl.envs.personalhome.sim.household import Household, Member
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import profile_shown
from homerl.envs.personalhome.sim.vocabulary import load_fact_words, load_vocabulary
from homerl.envs.personalhome.tasks.author import draw_task, film_household, task_to_blueprint
from homerl.envs.personalhome.tasks.authoring.written_household import (
    EVENTS,
    MEMORIES,
    HouseholdReader,
    WrittenPast,
    WrittenPeople,
    telling_events,
)
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeBlueprint, PersonalHomeRecipe
from homerl.models.endpoint.structured_answers import StructuredClient, UnreadableAnswer
from homerl.play.words.splits import Split
from homerl.worlds.contract import NoBlueprint

FEWEST_EVENTS = 2  # of the last day, with those that tell of the situation


class HouseholdPrompts(Model):
    """The prompts of one language in `authoring/prompts.yaml`."""

    people: str
    past: str


@cache
def load_household_prompts(language: str) -> HouseholdPrompts:
    """The prompts of a language. Raises `InputError` if it has none."""
    document = read_yaml(Path(__file__).parent / "authoring" / "prompts.yaml")
    return validate_document(dict[str, HouseholdPrompts], document)[language]


@dataclass(frozen=True)
class AuthoredHousehold:
    """A blueprint and the record of its making: how many candidates and statements were written, and how many were kept."""

    blueprint: PersonalHomeBlueprint
    record: dict[str, Any]


async def author_household_blueprint(
    recipe: PersonalHomeRecipe, split: Split, seed: int, client: StructuredClient, attempts: int, dropped: Counter[str]
) -> AuthoredHousehold:
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
        candidate = HouseholdCandidate(scaffold, split, recipe.household.memories[0], client, dropped)
        try:
            household = await candidate.write_household(rng.getrandbits(31))
            household = _with_video(household, number) if recipe.scenes else household
        except (UnreadableAnswer, UnfitCandidate) as error:
            dropped[f"candidate: {error if isinstance(error, UnfitCandidate) else 'unreadable'}"] += 1
            continue
        task = draw_task(kind, level, household, recipe, split, rng)
        if task is None:
            dropped[f"candidate: no task of kind '{kind}'"] += 1
            continue
        record = {"candidates": attempt, "memories": len(household.memories), "events": len(household.context.events)}
        return AuthoredHousehold(task_to_blueprint(household, task, f"{split}-{seed}", seed, split, recipe), record)
    raise NoBlueprint(f"no blueprint in {attempts} candidates for seed {seed}: {dict(dropped)}")


class UnfitCandidate(Exception):
    """Too little of a candidate is left, or it breaks a rule; the text says which."""


def _with_video(household: Household, seed: int) -> Household:
    """The household with a video. Raises `Unfit`."""
    if (made := film_household(household, seed)) is None:
        raise UnfitCandidate("no situation that can be filmed")
    return made


@dataclass(frozen=True)
class HouseholdCandidate:
    """One scaffold for which the model writes. `fewest` memories must be left."""

    scaffold: Household
    split: Split
    fewest: int
    client: StructuredClient
    dropped: Counter[str]

    async def write_household(self, seed: int) -> Household:
        """The household of what keeps the rules.

        Raises `Unfit` if too little does, and `Unreadable` if an answer of the model cannot be parsed.
        """
        home = home_from_json(self.scaffold.home)
        life = household_life(self.scaffold, home)
        asked = load_household_prompts(self.scaffold.language)
        people = await self.client.ask(asked.people, people_request_text(self.scaffold, life), WrittenPeople, seed)
        reader = HouseholdReader(self.scaffold, life, self.split, self.dropped)
        members = reader.read_members(people)
        if members is None:
            raise UnfitCandidate("a person has no persona, hobby or taste")
        scaffold = self.scaffold.model_copy(update={"members": members})
        life = household_life(scaffold, home)
        past = await self.client.ask(asked.past, past_request_text(scaffold, life), WrittenPast, seed)
        reader = HouseholdReader(scaffold, life, self.split, self.dropped)
        memories, events = reader.read_memories(past.memories), reader.read_events(past.events)
        if len(memories) < self.fewest:
            raise UnfitCandidate("too few memories are left")
        if len(events) < FEWEST_EVENTS:
            raise UnfitCandidate("too few events are left")
        context = scaffold.context.model_copy(update={"events": events})
        household = scaffold.model_copy(update={"memories": memories, "context": context})
        if broken := next(household_problems(household, home), None):
            raise UnfitCandidate(broken)
        return household


# What the model is told


def people_request_text(household: Household, life: Life) -> str:
    """The scaffold, and what may be said of people."""
    words, groups = load_fact_words(household.language), ("hobbies", "activities", "tastes", "genres", "scents")
    return _json(
        {
            "household": profile_shown(HouseholdState(household)),
            "people": [_person(member, household) for member in household.members],
            **_home(life),
            "tastes": {kind: _shape(kind, shape.fields, shape.what) for kind, shape in load_vocabulary().tastes.items()},
            "words": {group: words.keys[group] for group in groups} | {"units": words.units},
        }
    )


def past_request_text(household: Household, life: Life) -> str:
    """The household with its people, and the kinds of facts that a memory and an event may be."""
    words, facts = load_fact_words(household.language), load_vocabulary().facts
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
    words = load_fact_words(household.language)
    return {
        "member_id": member.member_id,
        "name": member.name,
        "role": words.key_word("roles", member.role),
        "age": member.age(household.now.date()),
        "gender": words.key_word("genders", member.gender),
        "occupation": words.key_word("occupations", member.occupation),
        "traits": [words.key_word("traits", trait) for trait in member.traits],
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
