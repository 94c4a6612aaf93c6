"""Makes households from seeds, by a recipe, in the stages of PersonalHomeBench 3.1.

The stages are scaffold, people, profiles, appliances, memories, and what goes on now. A household that breaks a rule of
`consistency_rules.py` is counted and drawn again.

Invariants: `make_household` is a pure function of seed and recipe, and gives the same bytes in every process, given the same
files; what it returns breaks no rule.
"""

from __future__ import annotations

import calendar
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pydantic import Field, model_validator

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.home_names import Half, load_lexicon
from homerl.envs.homeenv.maker.weather import Sky, TypicalYear
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_to_json
from homerl.envs.personalhome.sim.appliance_catalogue import rooms_for_kind
from homerl.envs.personalhome.sim.generate import people
from homerl.envs.personalhome.sim.generate import present_situation as present
from homerl.envs.personalhome.sim.generate.consistency_rules import household_problems
from homerl.envs.personalhome.sim.generate.home_devices import draw_devices, draw_usual_states
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.generate.life_facts import Life
from homerl.envs.personalhome.sim.generate.memories_and_events import draw_memories, fact_to_event, fact_to_memory
from homerl.envs.personalhome.sim.generate.persona_seeds import load_personas
from homerl.envs.personalhome.sim.generate.scaffold import STEPS, Scaffold, add_missing_rooms, draw_scaffold, spread_shares
from homerl.envs.personalhome.sim.household import Context, Household, Member, Pet, Weather
from homerl.envs.personalhome.sim.vocabulary import FactWords, household_cast, load_fact_words

Range = tuple[int, int]


class HouseholdRecipe(Model):
    """Which households to make."""

    language: str = Field("en", description="Language (`en`, `zh`) of all names and texts.")
    lexicon: Half = Field("train", description="Which half of names and phrasings is used.")
    wanted: str | None = Field(
        None, description="A situation (`water_leak`), category (`ROUTINE`) or domain (`health`); null is any."
    )
    memories: Range = Field((12, 40), description="Fewest and most memories of a household.")
    personas: str | None = Field(None, description="Personas to begin from: a JSONL file, or a data set of the hub.")

    @model_validator(mode="after")
    def _coherent(self) -> HouseholdRecipe:
        low, high = self.memories
        if not 1 <= low <= high:
            raise ValueError(f"memories [{low}, {high}] must be two numbers from 1 up, smaller first")
        return self


DEFAULT = HouseholdRecipe()


TRIES = 400  # households that are drawn before a recipe is refused
MOMENTS = 60  # times that are drawn to find the weather that a situation needs


@dataclass(frozen=True)
class HouseholdPlan:
    """A household before its home: who lives there, when it is, and the situation that it is made for."""

    scaffold: Scaffold
    pets: tuple[Pet, ...]
    key: str
    year: TypicalYear
    minute: int

    @property
    def outdoor_sky(self) -> Sky:
        """The weather outside."""
        return self.year.sky_at(self.minute)


def household_id_of_seed(seed: int) -> str:
    """The id of the household of a seed."""
    return f"h{seed}"


def make_household(seed: int, recipe: HouseholdRecipe = DEFAULT, dropped: Counter[str] | None = None) -> Household:
    """The household of a seed. What was drawn and broke a rule is counted in `dropped`, by the rule's name.

    Raises `InputError` if the recipe names a situation or a file that there is not.
    """
    rng = random.Random(f"household {seed}")
    counted: Counter[str] = Counter() if dropped is None else dropped
    keys = present.allowed_situation_keys(recipe.wanted)
    if not keys:
        what = f"'{recipe.wanted}' is no situation, category or domain"
        raise InputError(what, where="HouseholdRecipe.wanted", remedy="see envs/personalhome/sim/vocabulary.yaml")
    for attempt in range(TRIES):
        # A wanted situation may not fit the type of household that the seed stands for, so further tries draw other types.
        shares = tuple(rng.random() for _ in STEPS) if attempt and recipe.wanted else spread_shares(seed)
        begun = _plan_household(shares, keys, recipe, rng)
        household = None if begun is None else _furnish_household(household_id_of_seed(seed), begun, recipe, rng, counted)
        if household is not None:
            return household
        counted["unfit" if begun is None else "redrawn"] += 1
    what = f"no household shows '{recipe.wanted}' in {TRIES} tries"
    raise InputError(what, where="HouseholdRecipe.wanted", remedy="want something else")


def _plan_household(
    shares: tuple[float, ...], keys: Sequence[str], recipe: HouseholdRecipe, rng: random.Random
) -> HouseholdPlan | None:
    """The scaffold and pets, a situation that they allow, and a time at which it is plausible; None if there is none."""
    priors, lexicon, half = load_household_priors().situations, load_lexicon(recipe.language), recipe.lexicon
    scaffold = draw_scaffold(shares, lexicon, half, rng)
    pets = people.make_pets(scaffold.pets, load_fact_words(recipe.language), half, rng)
    fitting = [key for key in keys if present.can_concern_people(key, scaffold.people, [pet.animal for pet in pets])]
    if not fitting:
        return None
    (key,) = rng.choices(fitting, [priors[key].weight for key in fitting])
    usual = priors[key]
    kinds = dict.fromkeys(chain(*present.needed_device_kinds(key)))
    wanted: list[tuple[str, ...]] = [rooms_for_kind(kind) for kind in kinds]
    wanted += [usual.rooms] if usual.rooms else []
    rooms = add_missing_rooms(scaffold.rooms, wanted, lexicon, half, rng)
    for _ in range(MOMENTS):
        year, minute = present.draw_moment(usual.hours, rng)
        if usual.outdoors[0] <= year.sky_at(minute).temperature <= usual.outdoors[1]:
            return HouseholdPlan(replace(scaffold, rooms=rooms), pets, key, year, minute)
    return None


def _furnish_household(
    household_id: str, begun: HouseholdPlan, recipe: HouseholdRecipe, rng: random.Random, dropped: Counter[str]
) -> Household | None:
    """The household, or None if its situation does not fit into the home, or a rule is broken."""
    words, sky, half, rooms = load_fact_words(recipe.language), begun.outdoor_sky, recipe.lexicon, begun.scaffold.rooms
    members = _make_people(household_id, begun, recipe, words, rng)
    liked = {liked for member in members for liked in (*member.hobbies, *member.traits, *(t.kind for t in member.tastes))}
    together, needed = present.needed_device_kinds(begun.key)
    types = load_household_priors().situations[begun.key].rooms
    devices = draw_devices(rooms, liked, [pet.animal for pet in begun.pets], (together, types), needed, words, rng)
    members = tuple(people.add_habits(member, devices, sky.when.date(), rng) for member in members)
    life = Life(members, begun.pets, rooms, devices, sky.when)
    scenes = present.draw_scenes(begun.key, life, sky.temperature, rng)
    if not scenes:
        return None
    memories = draw_memories(rng.randint(*recipe.memories), life, rng, dropped)
    states = draw_usual_states(rooms, devices, sky, present.scene_start_values(scenes, devices), rng)
    dated = present.draw_events(scenes, life, states, rng)
    home = Home.build_home(rooms, devices, states, calendar.timegm(sky.when.timetuple()))
    data = home_to_json(home)
    cast = household_cast(members, data)
    members = tuple(people.add_profile_texts(member, cast, words, half, rng) for member in members)
    remembered = tuple(fact_to_memory(told, words.say_fact(told.fact, cast, rng, half), words) for told in memories)
    events = tuple(fact_to_event(told, words.say_fact(told.fact, cast, rng, half)) for told in dated)
    situations = tuple(scene.situation.key for scene in scenes)
    outdoor = present.draw_outdoor_weather(begun.year, begun.minute, rng)
    weather = Weather(outdoor=outdoor, indoor=present.draw_indoor_air(states, situations, rng))
    household = Household(
        household_id=household_id,
        language=recipe.language,
        occupancy_type=begun.scaffold.occupancy,
        layout=words.say_layout(rooms),
        pets=begun.pets,
        home=data,
        members=members,
        memories=remembered,
        context=Context(events=events, weather=weather, situations=situations),
    )
    broken = [*household_problems(household, home)]
    dropped.update(broken)
    return None if broken else household


def _make_people(
    household_id: str, begun: HouseholdPlan, recipe: HouseholdRecipe, words: FactWords, rng: random.Random
) -> tuple[Member, ...]:
    """The members with their lives and characters; one of them has the trait that the situation needs."""
    scaffold, today, half = begun.scaffold, begun.outdoor_sky.when.date(), recipe.lexicon
    seeds = load_personas(recipe.personas) if recipe.personas else ()
    members = people.make_members(household_id, scaffold.people, today, words, half, seeds, rng)
    members = people.add_life_events(members, begun.pets, today, words, half, rng)
    members = tuple(people.add_character(member, scaffold.rooms, today, rng) for member in members)
    usual = load_household_priors().situations[begun.key]
    able = [member for member in members if usual.fits_age(member.age(today))]
    if usual.trait is None or any(usual.trait in member.traits for member in able):
        return members
    chosen = rng.choice(able)
    given = chosen.model_copy(update={"traits": (*chosen.traits, usual.trait)})
    return tuple(given if member is chosen else member for member in members)
