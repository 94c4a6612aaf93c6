"""Makes households from seeds, by a recipe, in the stages of PersonalHomeBench 3.1.

The stages are scaffold, people, profiles, appliances, memories, and what goes on now. A household that breaks a rule of
`consistency_rules.py` is counted and drawn again.

Invariants:
- `make_household` is a pure function of seed and recipe, and gives the same bytes in every process, given the same files.
- What it returns breaks no rule.
- Every home has the five mandatory kinds; a device stands in a room that suits its kind, and no room has two of a kind.
- A device's id is its product's name (`lighting`), with its room's id behind it if there are several (`lighting_kitchen`).
- Sensors of the air agree with the air of their room.
"""

from __future__ import annotations

import calendar
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pydantic import Field, model_validator

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.home_names import Half, load_lexicon
from homerl.envs.homeenv.maker.initial_state import Values, room_air
from homerl.envs.homeenv.maker.weather import Sky, TypicalYear
from homerl.envs.homeenv.sim.devices.air_physics import measured_quantities
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_to_json
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, rooms_for_kind, sensor_kinds, usual_state
from homerl.envs.personalhome.sim.generate import people
from homerl.envs.personalhome.sim.generate import present_situation as present
from homerl.envs.personalhome.sim.generate.consistency_rules import Life, household_problems
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.generate.memories_and_events import draw_memories, fact_to_event, fact_to_memory
from homerl.envs.personalhome.sim.generate.people import (
    STEPS,
    Scaffold,
    add_missing_rooms,
    draw_scaffold,
    load_personas,
    spread_shares,
)
from homerl.envs.personalhome.sim.household import Context, Household, Member, Pet, Weather
from homerl.envs.personalhome.sim.vocabulary import FactWords, household_cast, load_fact_words

QUANTITIES = tuple(ROOM_STATE)
DUST = (4, 22)  # micrograms per cubic metre of ordinary days
DRIFT = 1.2  # celsius by which rooms differ from what the weather gives


def draw_devices(
    rooms: Sequence[Room],
    liked: Collection[str],
    animals: Collection[str],
    together: tuple[Collection[str], Collection[str]],
    needed: Sequence[str],
    words: FactWords,
    rng: random.Random,
) -> tuple[Device, ...]:
    """The appliances, then the sensors. `liked` are the tastes, traits and hobbies of the people.

    `needed` are kinds that the home must have. `together` are kinds that stand in one room, and the types of such rooms (all
    if there are none). Kinds for which no room suits are left out.
    """
    usual, appliances, sensors = load_household_priors().appliances, appliance_kinds(), sensor_kinds()
    kinds_here, types = together
    suiting = [room for room in rooms if all(room.type in rooms_for_kind(kind) for kind in kinds_here)]
    suiting = [room for room in suiting if not types or room.type in types]
    room = rng.choice(suiting) if suiting else None
    here = [(kind, room) for kind in kinds_here if room is not None]
    others = [kind for kind in needed if kind not in kinds_here]
    owned = [placed for placed in here if placed[0] in appliances]
    mandatory = [kind for kind in usual.mandatory if kind not in kinds_here]
    owned += _place_kinds((*mandatory, *(kind for kind in others if kind in appliances)), rooms, rng)
    # Kinds that the people like are more usual. A feeder needs an animal that it feeds.
    weights = {
        kind: prior.weight * (usual.boost if {*prior.because} & {*liked} else 1) for kind, prior in usual.weights.items()
    }
    weights["pet_feeder"] = usual.feeder_weight if {*animals} & {*usual.fed} else 0
    count = rng.choices(list(usual.count), list(usual.count.values()))[0]
    _add_kinds_by_weight(owned, count, weights, rooms, usual.several, rng)
    measuring = [placed for placed in here if placed[0] in sensors]
    measuring += _place_kinds([kind for kind in others if kind in sensors], rooms, rng)
    count = rng.choices(list(usual.sensors), list(usual.sensors.values()))[0]
    _add_kinds_by_weight(measuring, count, usual.sensor_weights, rooms, (), rng)
    placed = [
        (kind, room) for kinds in (owned, measuring) for kind, room in sorted(kinds, key=lambda one: (one[0], one[1].id))
    ]
    number, devices = Counter(kind for kind, _ in placed), []
    for kind, room in placed:
        spec = appliances.get(kind) or sensors[kind]
        did = f"{spec.name}_{room.id}" if number[kind] > 1 else spec.name
        devices.append(Device(did, words.key_word("devices", kind), room, spec))
    return tuple(devices)


Placed = tuple[str, Room]  # a kind and the room that it stands in


def _place_kinds(wanted: Sequence[str], rooms: Sequence[Room], rng: random.Random) -> list[Placed]:
    """Each kind once, in a room that suits it."""
    return [(kind, rng.choice(suiting)) for kind in dict.fromkeys(wanted) if (suiting := _suiting_rooms(kind, rooms))]


def _suiting_rooms(kind: str, rooms: Sequence[Room]) -> list[Room]:
    return [room for room in rooms if room.type in rooms_for_kind(kind)]


def _add_kinds_by_weight(
    placed: list[Placed],
    count: int,
    weights: Mapping[str, float],
    rooms: Sequence[Room],
    several: Collection[str],
    rng: random.Random,
) -> None:
    """Add kinds by weight until there are `count`. Kinds of `several` may be added again, in another room."""
    while len(placed) < count:
        free = {
            kind: [room for room in _suiting_rooms(kind, rooms) if (kind, room) not in placed]
            for kind in weights
            if kind in several or all(kind != other for other, _ in placed)
        }
        open_kinds = [kind for kind, places in free.items() if places and weights[kind] > 0]
        if not open_kinds:
            return
        (kind,) = rng.choices(open_kinds, [weights[kind] for kind in open_kinds])
        placed.append((kind, rng.choice(free[kind])))


# The home


def draw_usual_states(
    rooms: Sequence[Room], devices: Sequence[Device], sky: Sky, starts: Mapping[str, Values], rng: random.Random
) -> dict[str, Values]:
    """The values of every owner (outdoors, rooms, devices), by owner and path: ordinary ones, and then `starts` by did.

    Where `starts` says what a sensor reads, the air of its room is so.
    """
    states: dict[str, Values] = {
        OUTDOORS: {"temperature": sky.temperature, "humidity": sky.humidity, "brightness": sky.illuminance}
    }
    states |= {room.id: room_air(room.type, sky, drift=rng.gauss(0, DRIFT)) for room in rooms}
    # What a sensor must read at the start is the air of its room, before any device measures that.
    for device in devices:
        for path, quantity in measured_quantities(device.spec):
            if path in starts.get(device.did, {}):
                states[device.room.id][QUANTITIES[quantity]] = float(starts[device.did][path])
    dust = rng.randint(*DUST)  # all devices of a home measure about the same
    for device in devices:
        usual = usual_state(device.spec, rng)
        usual |= {path: dust for path in ("dust", "pm25") if path in usual}
        for path, quantity in measured_quantities(device.spec):  # a device measures the air of its room
            attribute, value = device.spec.attribute_index[path][1], states[device.room.id][QUANTITIES[quantity]]
            usual[path] = attribute.check_value(round(value) if attribute.type == "int" else value)
        states[device.did] = usual | starts.get(device.did, {})
    return states


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


def make_household(seed: int, recipe: HouseholdRecipe, dropped: Counter[str] | None = None) -> Household:
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
    # Habits need the devices, and devices the tastes: so people are made in two passes.
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
    # Texts are drawn when all that they tell of is fixed.
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
