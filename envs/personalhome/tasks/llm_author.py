"""The LLM author: a chat model writes the lives of a household; the scripted scaffold and the computed task stay.

The scripted generator gives type, layout, roles, ages, names, appliances and the situations of the moment. The model then
answers two requests, each with a schema: the people (personas, hobbies, tastes, habits), and their past (memories, ordinary
events of the last day). It writes everything twice, as a typed fact and as a sentence. `authoring/` reads both and drops
what contradicts itself. The task is drawn as for scripted households.

Invariants:
- A household breaks no rule of `consistency_rules.py`. Its answers are computed, never written.
- The splits share no name and no sentence.
- The same answers of the model give the same blueprint.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.sim.generate import make_household
from homerl.envs.personalhome.sim.generate.consistency_rules import household_problems
from homerl.envs.personalhome.sim.generate.life_facts import Life, household_life
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import profile_shown
from homerl.envs.personalhome.sim.vocabulary import FactShape, load_fact_words, load_vocabulary
from homerl.envs.personalhome.tasks.author import draw_recipe_choices, draw_task, film_household, task_to_blueprint
from homerl.envs.personalhome.tasks.authoring import written_household as written
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeRecipe
from homerl.models.endpoint.structured_answers import StructuredClient
from homerl.play.words.grammar import Split
from homerl.worlds.contract import AuthoredBlueprint, UnfitCandidate, write_fit_candidate

FEWEST_EVENTS = 2  # of the last day, with those that tell of the situation


class HouseholdPrompts(Model):
    """The prompts of one language in `authoring/prompts.yaml`."""

    people: str
    past: str


async def author_household_blueprint(
    recipe: PersonalHomeRecipe, split: Split, seed: int, client: StructuredClient, attempts: int, dropped: Counter[str]
) -> AuthoredBlueprint:
    """The first candidate of a seed that keeps all rules and has a task.

    Raises `NoBlueprint` after `attempts` candidates, and `InfraError` if the server fails. What is written and dropped is
    counted in `dropped`.
    """
    rng = random.Random(f"llm personalhome {split} {seed}")
    kind, level, household_recipe = draw_recipe_choices(recipe, split, rng)

    async def write(number: int) -> AuthoredBlueprint:
        household_seed = rng.randrange(1 << 31)
        scaffold, fewest = make_household(household_seed, household_recipe), recipe.household.memories[0]
        unfilmed = await _write_household(scaffold, split, fewest, client, dropped, rng.getrandbits(31))
        household = film_household(unfilmed, household_seed) if recipe.scenes else unfilmed
        if household is None:
            raise UnfitCandidate("no situation that can be filmed")
        task = draw_task(kind, level, household, recipe, split, rng)
        if task is None:
            raise UnfitCandidate(f"no task of kind '{kind}'")
        record = {"candidates": number, "memories": len(household.memories), "events": len(household.context.events)}
        return AuthoredBlueprint(task_to_blueprint(household, task, f"{split}-{seed}", seed, split, recipe), record)

    return await write_fit_candidate(write, attempts, seed, dropped)


async def _write_household(
    scaffold: Household, split: Split, fewest_memories: int, client: StructuredClient, dropped: Counter[str], seed: int
) -> Household:
    """The scaffold with what the model writes for it, as far as it keeps the rules.

    Raises `UnfitCandidate` if too little does, and `UnreadableAnswer` if an answer of the model cannot be parsed.
    """
    document = read_yaml(Path(__file__).parent / "authoring" / "prompts.yaml")
    prompts = validate_document(dict[str, HouseholdPrompts], document)[scaffold.language]
    home = home_from_json(scaffold.home)
    life = household_life(scaffold, home)
    people = await client.ask(prompts.people, people_request_text(scaffold, life), written.WrittenPeople, seed)
    members = written.HouseholdReader(scaffold, life, split, dropped).read_members(people)
    if members is None:
        raise UnfitCandidate("a person has no persona, hobby or taste")
    scaffold = scaffold.model_copy(update={"members": members})
    life = household_life(scaffold, home)
    past = await client.ask(prompts.past, past_request_text(scaffold, life), written.WrittenPast, seed)
    reader = written.HouseholdReader(scaffold, life, split, dropped)
    memories, events = reader.read_memories(past.memories), reader.read_events(past.events)
    if len(memories) < fewest_memories:
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
    asked = {
        "tastes": {kind: _describe_shape(shape) for kind, shape in load_vocabulary().tastes.items()},
        "words": {group: words.keys[group] for group in groups} | {"units": words.units},
    }
    return json.dumps(_describe_household(household, life) | asked, ensure_ascii=False)


def past_request_text(household: Household, life: Life) -> str:
    """The household with its people, and the kinds of facts that a memory and an event may be."""
    words, facts, known = load_fact_words(household.language), load_vocabulary().facts, _describe_household(household, life)
    for person, member in zip(known["people"], household.members, strict=True):
        person |= {"persona": member.persona, "habits": member.lifestyle, "likes": member.preference}
    before = min(event.time for event in written.telling_events(household))
    groups = {facts[kind].what for kind in (*written.MEMORIES, *written.EVENTS)} - {None}
    asked = {
        "now": household.now.isoformat(timespec="minutes"),
        "memories": {kind: _describe_shape(facts[kind]) for kind in written.MEMORIES},
        "events": {kind: _describe_shape(facts[kind]) for kind in written.EVENTS},
        "words": {group: words.keys[str(group)] for group in sorted(map(str, groups))} | {"units": words.units},
        "number_of_memories": len(household.memories),
        "events_before": before.isoformat(timespec="minutes"),
    }
    return json.dumps(known | asked, ensure_ascii=False)


def _describe_household(household: Household, life: Life) -> dict[str, Any]:
    """The household, its people in words, and its rooms and appliances, each as id and name."""
    words = load_fact_words(household.language)
    people = [
        {
            "member_id": member.member_id,
            "name": member.name,
            "role": words.key_word("roles", member.role),
            "age": member.age(household.now.date()),
            "gender": words.key_word("genders", member.gender),
            "occupation": words.key_word("occupations", member.occupation),
            "traits": [words.key_word("traits", trait) for trait in member.traits],
            "major_events": [event.description for event in member.major_events],
        }
        for member in household.members
    ]
    return {
        "household": profile_shown(HouseholdState(household)),
        "people": people,
        "rooms": {room.id: room.name for room in life.rooms},
        "appliances": {one.did: {"name": one.name, "room": one.room.id} for one in life.appliances},
    }


def _describe_shape(shape: FactShape) -> Mapping[str, Any]:
    return {"fields": [field for field in shape.fields if field != "unit"], "what": shape.what}
