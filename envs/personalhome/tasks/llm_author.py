"""The LLM author: a chat model writes the lives of a household; the scripted scaffold and the computed task stay.

The scripted generator gives type, layout, roles, ages, names, appliances and the situations of the moment. The model then
answers two requests, each with a schema: the people (personas, hobbies, tastes, habits), and their past (memories, ordinary
events of the last day). It writes everything twice, as a typed fact and as a sentence. `HouseholdReader` reads both and
drops what contradicts itself: one wrong entry spoils no other, so values are checked by rules and not by the types of the
forms. There are rules beside those of `consistency_rules.py`, for what the scripted generator never draws. The task is
drawn as for scripted households.

Invariants:
- A rule looks at typed data alone. It gives the reason why something cannot be, or None.
- What is kept breaks no rule, and its text says the words of its typed fact: the names, the thing, the number with its
  unit, and no other name or number. What is dropped is counted, with its reason.
- A text names a person or a pet of its split, or is a sentence of its split. So the splits share no name and no sentence.
- Answers of the household are computed, never written. The same answers of the model give the same blueprint.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.sim.generate import make_household
from homerl.envs.personalhome.sim.generate.consistency_rules import (
    DatedFact,
    Life,
    dated_fact_problem,
    fact_problem,
    household_life,
    household_problems,
)
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.generate.memories_and_events import (
    LAST,
    QUIET,
    fact_to_event,
    fact_to_memory,
    memory_problem,
)
from homerl.envs.personalhome.sim.generate.people import can_do_activity, devices_for_activity
from homerl.envs.personalhome.sim.household import Event, Fact, Habit, Household, Member, Memory, Taste
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import profile_shown
from homerl.envs.personalhome.sim.situations import load_situations
from homerl.envs.personalhome.sim.vocabulary import (
    FACT_UNITS,
    FactCast,
    FactShape,
    FactWords,
    household_cast,
    load_fact_words,
    load_vocabulary,
)
from homerl.envs.personalhome.tasks.author import draw_recipe_choices, draw_task, film_household, task_to_blueprint
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeRecipe
from homerl.envs.personalhome.tasks.text_normal_form import normal_form
from homerl.models.endpoint.structured_answers import OneLineText, StructuredClient
from homerl.play.words.grammar import Split, split_of
from homerl.worlds.contract import AuthoredBlueprint, UnfitCandidate, write_fit_candidate


# The names and docstrings of these models are part of the schemas that are sent. Strict schemas allow no defaults.
class WrittenTaste(Model):
    """What a person prefers, and a sentence that says it with the person's name."""

    kind: str
    what: str | None
    low: float | None
    high: float | None
    hours: tuple[int, ...] | None
    room: str | None
    text: OneLineText


class WrittenHabit(Model):
    """What a person does regularly (0 is Monday), and a sentence that says it with the person's name."""

    activity: str
    days: tuple[int, ...]
    hour: int
    appliance: str
    text: OneLineText


class WrittenPerson(Model):
    """A person of the household."""

    member_id: str
    persona: OneLineText
    hobbies: tuple[str, ...]
    tastes: tuple[WrittenTaste, ...]
    habits: tuple[WrittenHabit, ...]


class WrittenPeople(Model):
    """All people of the household."""

    model_config = ConfigDict(title="People")  # its name in requests

    people: tuple[WrittenPerson, ...] = Field(min_length=1)


class WrittenFact(Model):
    """Something that happened at a local time (2024-05-31T18:30), and a sentence that says it."""

    time: str
    kind: str
    who: str | None
    others: tuple[str, ...]
    pet: str | None
    appliance: str | None
    room: str | None
    what: str | None
    value: float | None
    text: OneLineText


class WrittenPast(Model):
    """What is remembered of two years, and what happened in the last day."""

    model_config = ConfigDict(title="Past")  # its name in requests

    memories: tuple[WrittenFact, ...]
    events: tuple[WrittenFact, ...]


MOST = 5000  # of any unit


def telling_events(household: Household) -> tuple[Event, ...]:
    """The scripted events from the first on that tells of the household's situations."""
    telling = {(sign.kind, sign.what) for key in household.context.situations for sign in load_situations()[key].events}
    events = household.context.events
    first = [
        at for at, one in enumerate(events) if one.fact.kind == "left_home" or (one.fact.kind, one.fact.what) in telling
    ]
    return events[min(first, default=len(events)) :]


def _taste_problem(taste: Taste, age: int, life: Life) -> str | None:
    """Why a taste cannot be, or None."""
    shape = load_vocabulary().tastes.get(taste.kind)
    if shape is None:
        return "unknown_taste"
    given = {name for name in ("what", "low", "high", "hours", "room") if getattr(taste, name) is not None}
    needed = {name for name in shape.fields if name != "room"}
    if not needed <= given <= {*shape.fields} or (shape.what and taste.what not in load_vocabulary().group_keys(shape.what)):
        return "wrong_fields"
    if taste.room is not None and taste.room not in {room.id for room in life.rooms}:
        return "unknown_name"
    if taste.hours is not None and not all(0 <= hour <= 23 for hour in taste.hours):
        return "unfit_value"
    usual, low, high = load_household_priors().tastes[taste.kind], taste.low, taste.high
    if not usual.fits_age(age):
        return "too_young"
    # Low and high lie in what people like. A taste that has both may have a usual distance between them.
    fits = low is None or usual.low is None or usual.low[0] <= low <= usual.low[1]
    if high is not None and low is not None and usual.width:
        fits = fits and 0 < high - low <= usual.width[1]
    elif high is not None and usual.high is not None:
        fits = fits and usual.high[0] <= high <= usual.high[1]
    return None if fits else "unfit_value"


def _habit_problem(habit: WrittenHabit, member: Member, device: Device | None, life: Life) -> str | None:
    """Why a habit cannot be, or None."""
    activity = load_household_priors().activities.get(habit.activity)
    if activity is None or device is None:
        return "unknown_name"
    if not habit.days or not {*habit.days} <= {*range(7)} or not 0 <= habit.hour <= 23:
        return "unfit_value"
    if not can_do_activity(member, member.age(life.now.date()), activity):
        return "too_young"
    return None if device in devices_for_activity(activity, [device]) else "unfit_appliance"


def _limit_problem(fact: Fact, life: Life) -> str | None:
    """Why a fact that breaks no other rule cannot be: its appliance, its pet or its number does not fit."""
    priors, device, what = load_household_priors(), life.by_did.get(fact.appliance or ""), fact.what or ""
    if device is not None and not _is_fit_appliance(fact.kind, what, device):
        return "unfit_appliance"
    if fact.pet is not None and fact.kind in ("cared", "pet_did"):
        animals = (priors.pet_care if fact.kind == "cared" else priors.pet_acts)[what]
        if life.pets_by_name[fact.pet].animal not in animals:
            return "unfit_pet"
    if fact.kind == "adjusted" and device is not None and fact.value is not None:
        low, high, _ = priors.adjustments[device.spec.category].values
        return None if low <= fact.value <= high else "unfit_value"
    if fact.kind in FACT_UNITS and (fact.value is None or not 0 < fact.value <= MOST or fact.value % 1):
        return "unfit_value"
    return None


def _is_fit_appliance(fact_kind: str, what: str, device: Device) -> bool:
    """Whether one does such a thing with an appliance."""
    priors, kind = load_household_priors(), device.spec.category
    match fact_kind:
        case "used":
            return device in devices_for_activity(priors.activities[what], [device])
        case "cooked":
            return kind in priors.dishes[what].kinds
        case "adjusted":
            return kind in priors.adjustments and priors.adjustments[kind].what == what
        case "broke":
            return kind in priors.faults[what]
    return True


EVENTS = ("used", "cooked", "adjusted", "cared", "pet_did")  # kinds that ordinary events are
MEMORIES = (
    "used", "cooked", "adjusted", "complained", "bought", "visited", "travelled", "ill", "cared", "broke", "repaired",
    "celebrated", "learned",
)  # fmt: skip
CODE = re.compile(r"[_{}<>\[\]=`]")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
OWNER = re.compile(r"['’]s\b")
MOST_HOBBIES = 3


@dataclass(frozen=True)
class HouseholdReader:
    """Reads what was written about a household, and counts what it drops."""

    household: Household
    life: Life
    split: Split
    dropped: Counter[str]

    @cached_property
    def cast(self) -> FactCast:
        """What texts call people, rooms and devices."""
        return household_cast(self.household.members, self.household.home)

    @property
    def fact_words(self) -> FactWords:
        """The words of the household's language."""
        return load_fact_words(self.household.language)

    def _keeps_entry(self, reason: str | None) -> bool:
        """Whether nothing speaks against what was written; otherwise the reason is counted."""
        self.dropped["tasks: written"] += 1  # the report's name of what rates are shares of
        if reason is not None:
            self.dropped[f"author: {reason}"] += 1
        return reason is None

    # People

    def read_members(self, people: WrittenPeople) -> tuple[Member, ...] | None:
        """The members as they were written; None if one has no persona, hobby or taste."""
        written = {person.member_id: person for person in people.people}
        found = [self._read_member(member, written.get(member.member_id)) for member in self.life.members]
        members = tuple(member for member in found if member is not None)
        return members if len(members) == len(found) else None

    def _read_member(self, member: Member, person: WrittenPerson | None) -> Member | None:
        if person is None or not self._keeps_entry(self._text_problem(person.persona, (member.name,), numbers=False)):
            return None
        age, priors, words = member.age(self.life.now.date()), load_household_priors(), self.fact_words
        hobbies: list[str] = []
        for hobby in dict.fromkeys(person.hobbies):
            youngest = priors.hobbies.get(hobby)
            if self._keeps_entry("unknown_hobby" if youngest is None else "too_young" if age < youngest else None):
                hobbies.append(hobby)
        tastes: dict[str, tuple[Taste, str]] = {}
        for written in person.tastes:
            hours = written.hours if written.hours is not None and len(written.hours) == 2 else None
            taste = Taste.model_validate(written.model_dump(exclude={"text"}) | {"hours": hours})
            problem = "taste_twice" if taste.kind in tastes else _taste_problem(taste, age, self.life)
            problem = problem or self._text_problem(written.text, (member.name, *self._taste_words(taste)))
            if self._keeps_entry(problem):
                tastes[taste.kind] = taste, written.text
        habits = self._read_habits(member, person.habits)
        can_have_hobby = any(age >= youngest for youngest in priors.hobbies.values())
        can_have_taste = any(usual.fits_age(age) for usual in priors.tastes.values())
        if (not hobbies and can_have_hobby) or (not tastes and can_have_taste):
            return None
        said = [words.say_trait(trait) for trait in member.traits] + [text for _, text in habits]
        return member.model_copy(
            update={
                "persona": person.persona,
                "hobbies": tuple(hobbies[:MOST_HOBBIES]),
                "tastes": tuple(taste for taste, _ in tastes.values()),
                "habits": tuple(habit for habit, _ in habits),
                "preference": words.join_sentences(text for _, text in tastes.values()),
                "lifestyle": words.join_sentences(said),
            }
        )

    def _read_habits(self, member: Member, written: Iterable[WrittenHabit]) -> list[tuple[Habit, str]]:
        """The habits with their texts, by hour."""
        kept: dict[int, tuple[Habit, str]] = {}
        for one in written:
            device = self.life.by_did.get(one.appliance)
            problem = "habit_at_one_hour" if one.hour in kept else _habit_problem(one, member, device, self.life)
            if problem is None and device is not None:
                done, hour = self.fact_words.key_word("activities", one.activity), self.fact_words.hour_text(one.hour)
                problem = self._text_problem(one.text, (member.name, done, hour, device.name, device.room.name))
            if self._keeps_entry(problem) and device is not None:
                days = tuple(sorted(set(one.days)))
                habit = Habit(activity=one.activity, days=days, hour=one.hour, room=device.room.id, appliance=device.did)
                kept[one.hour] = habit, one.text
        return [kept[hour] for hour in sorted(kept)]

    def _taste_words(self, taste: Taste) -> list[str]:
        fields = self.fact_words.taste_field_words(taste, self.cast)
        said = [word for name, word in fields.items() if name not in ("room", "place")]
        said += [self.cast.rooms[taste.room].name] if taste.room else []
        return [*said, self.fact_words.key_word("tastes", taste.kind)]

    # The past

    def read_memories(self, written: Iterable[WrittenFact]) -> tuple[Memory, ...]:
        """The memories in the order of time, without those that contradict themselves or an earlier one."""
        kept = self._read_facts(written, MEMORIES, lambda told, others: memory_problem(told, others, self.life))
        return tuple(fact_to_memory(told, text, self.fact_words) for told, text in kept)

    def read_events(self, written: Iterable[WrittenFact]) -> tuple[Event, ...]:
        """The ordinary events that were written, then the scripted ones that tell of the situations."""
        telling, now = telling_events(self.household), self.life.now
        latest = min((event.time for event in telling), default=now) - timedelta(minutes=QUIET)
        signs = {(sign.kind, sign.what) for situation in load_situations().values() for sign in situation.events}

        def problem_of(told: DatedFact, others: Sequence[DatedFact]) -> str | None:
            if not now - timedelta(minutes=LAST) <= told.time <= told.end_time < latest:
                return "out_of_reach"
            if (told.fact.kind, told.fact.what) in signs:
                return "tells_of_a_situation"
            return dated_fact_problem(told, others, self.life)

        return (*(fact_to_event(told, text) for told, text in self._read_facts(written, EVENTS, problem_of)), *telling)

    def _read_facts(
        self,
        written: Iterable[WrittenFact],
        kinds: Collection[str],
        problem_of: Callable[[DatedFact, Sequence[DatedFact]], str | None],
    ) -> list[tuple[DatedFact, str]]:
        """The facts with their texts in the order of time. `problem_of` says what speaks against one beside those kept."""
        kept: list[tuple[DatedFact, str]] = []
        for one in written:
            told, problem = self._date_fact(one, kinds)
            if told is not None:
                problem = problem_of(told, [other for other, _ in kept]) or self._wording_problem(told.fact, one)
            if self._keeps_entry(problem) and told is not None:
                kept.append((told, one.text))
        return sorted(kept, key=lambda pair: pair[0].time)

    def _date_fact(self, written: WrittenFact, kinds: Collection[str]) -> tuple[DatedFact | None, str | None]:
        """The fact at its time, and None; or None and the reason why it is none."""
        if written.kind not in kinds:
            return None, "unknown_kind"
        try:
            time = datetime.fromisoformat(written.time).replace(tzinfo=None, second=0, microsecond=0)
        except ValueError:
            return None, "unreadable_time"
        device = self.life.by_did.get(written.appliance or "")
        setting = load_household_priors().adjustments.get(device.spec.category) if device else None
        unit = setting.unit if written.kind == "adjusted" and setting else FACT_UNITS.get(written.kind)
        given = written.model_dump(exclude={"time", "text"}) | {"unit": unit if written.value is not None else None}
        told = DatedFact(Fact.model_validate(given), time)
        if time > self.life.now:
            return None, "out_of_reach"
        problem = fact_problem(told, self.life) or _limit_problem(told.fact, self.life)
        return (None, problem) if problem else (told, None)

    def _wording_problem(self, fact: Fact, written: WrittenFact) -> str | None:
        fields = self.fact_words.fact_field_words(fact, self.cast)
        said = [word for name, word in fields.items() if name not in ("room", "place", "others")]
        said += [self.cast.people[other] for other in fact.others]
        said += [self.cast.rooms[fact.room].name] if fact.room else []
        return self._text_problem(written.text, said)

    # Texts

    def _text_problem(self, text: str, said: Sequence[str], *, numbers: bool = True) -> str | None:
        """Why a text is not a statement of the words in `said`, or None. `numbers` asks for their numbers, and no others."""
        if CODE.search(text):
            return "code is said"
        if any(not _says_word(text, word) for word in said):
            return "text: unsaid"
        wanted = {number for word in said for number in _numbers_in(word)} if numbers else set()
        rest = text  # what is left without the words that must be said; it holds no other name
        for word in sorted(said, key=len, reverse=True):
            rest = re.sub(re.escape(word), " ", rest, flags=re.I)
        names = (*self.cast.people.values(), *self.life.pets_by_name, *(room.name for room in self.life.rooms))
        if _numbers_in(text) != wanted or any(_says_word(rest, name) for name in names if name not in said):
            return "text: says more"
        someone = any(name in said for name in (*self.cast.people.values(), *self.life.pets_by_name))
        return None if someone or split_of(text) == self.split else "no sentence of this split"


def _says_word(text: str, word: str) -> bool:
    """Whether a text has a word or phrase, however it is written."""
    text, word = OWNER.sub("", text), OWNER.sub("", word)
    return f" {normal_form(word)} " in f" {normal_form(text)} " or (not word.isascii() and word in text)


def _numbers_in(text: str) -> set[float]:
    return {float(number) for number in NUMBER.findall(unicodedata.normalize("NFKC", text))}


FEWEST_EVENTS = 2  # of the last day, with those that tell of the situation


class HouseholdPrompts(Model):
    """The prompts of one language in `authoring.yaml`."""

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
    document = read_yaml(Path(__file__).with_name("authoring.yaml"))
    prompts = validate_document(dict[str, HouseholdPrompts], document)[scaffold.language]
    home = home_from_json(scaffold.home)
    life = household_life(scaffold, home)
    people = await client.ask(prompts.people, people_request_text(scaffold, life), WrittenPeople, seed)
    members = HouseholdReader(scaffold, life, split, dropped).read_members(people)
    if members is None:
        raise UnfitCandidate("a person has no persona, hobby or taste")
    scaffold = scaffold.model_copy(update={"members": members})
    life = household_life(scaffold, home)
    past = await client.ask(prompts.past, past_request_text(scaffold, life), WrittenPast, seed)
    reader = HouseholdReader(scaffold, life, split, dropped)
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
    before = min(event.time for event in telling_events(household))
    groups = {facts[kind].what for kind in (*MEMORIES, *EVENTS)} - {None}
    asked = {
        "now": household.now.isoformat(timespec="minutes"),
        "memories": {kind: _describe_shape(facts[kind]) for kind in MEMORIES},
        "events": {kind: _describe_shape(facts[kind]) for kind in EVENTS},
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
