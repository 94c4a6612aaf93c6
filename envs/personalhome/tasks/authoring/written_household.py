"""The forms of what an LLM author answers.

Invariant: what is wrong in one entry spoils no other, so values are checked by rules (`rules.py`) and not by these types.

Rules of what may be written of a household, beside those of `checks.py`: what the scripted generator never draws.

Invariant: a rule gives the reason why something cannot be, or None; it looks at typed data alone.

What an LLM author writes about a household, and the rules by which it is read.

Invariants:
- What is kept breaks no rule, and its text says the words of its typed fact: the names, the thing, the number with its
  unit, and no other name or number.
- A text names a person or a pet of its split, or is a sentence of its split.
- What is dropped is counted, with its reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.personalhome.sim.generate.consistency_rules import DatedFact, fact_problem, find_fact_clash
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.generate.life_facts import Life
from homerl.envs.personalhome.sim.generate.memories_and_events import LAST, REST, fact_subjects, memory_problem
from homerl.envs.personalhome.sim.generate.people import can_do_activity, devices_for_activity
from homerl.envs.personalhome.sim.household import Event, Fact, Habit, Household, Member, Memory, Taste
from homerl.envs.personalhome.sim.situations import load_situations
from homerl.envs.personalhome.sim.vocabulary import (
    FACT_UNITS,
    TASTE_UNITS,
    FactCast,
    FactWords,
    household_cast,
    load_fact_words,
    load_vocabulary,
)
from homerl.envs.personalhome.tasks.text_normal_form import normal_form
from homerl.play.words.splits import Split, split_of


def _words(text: str) -> str:
    """The text in one line; raises `ValueError` if it is empty."""
    if not (words := " ".join(text.split())):
        raise ValueError("it is empty")
    return words


Text = Annotated[str, AfterValidator(_words)]


# The names and docstrings of these models are part of the schemas that are sent. Strict schemas allow no defaults.
class WrittenTaste(Model):
    """What a person prefers, and a sentence that says it with the person's name."""

    kind: str
    what: str | None
    low: float | None
    high: float | None
    hours: tuple[int, ...] | None
    room: str | None
    text: Text


class WrittenHabit(Model):
    """What a person does regularly (0 is Monday), and a sentence that says it with the person's name."""

    activity: str
    days: tuple[int, ...]
    hour: int
    appliance: str
    text: Text


class WrittenPerson(Model):
    """A person of the household."""

    member_id: str
    persona: Text
    hobbies: tuple[str, ...]
    tastes: tuple[WrittenTaste, ...]
    habits: tuple[WrittenHabit, ...]


class WrittenPeople(Model):
    """All people of the household."""

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
    text: Text


class WrittenPast(Model):
    """What is remembered of two years, and what happened in the last day."""

    memories: tuple[WrittenFact, ...]
    events: tuple[WrittenFact, ...]


MOST = 5000  # of any unit


def situation_signs() -> set[tuple[str, str | None]]:
    """What tells of any situation."""
    return {(sign.kind, sign.what) for situation in load_situations().values() for sign in situation.events}


def telling_events(household: Household) -> tuple[Event, ...]:
    """The scripted events from the first on that tells of the household's situations."""
    telling = {(sign.kind, sign.what) for key in household.context.situations for sign in load_situations()[key].events}
    events = household.context.events
    first = [
        at for at, one in enumerate(events) if one.fact.kind == "left_home" or (one.fact.kind, one.fact.what) in telling
    ]
    return events[min(first, default=len(events)) :]


def can_have_hobby(age: int) -> bool:
    """Whether somebody of an age can have a hobby."""
    return any(age >= youngest for youngest in load_household_priors().hobbies.values())


def can_have_taste(age: int) -> bool:
    """Whether somebody of an age can have a taste."""
    return any(usual.fits_age(age) for usual in load_household_priors().tastes.values())


def hobby_problem(hobby: str, age: int) -> str | None:
    """Why somebody of an age cannot have a hobby, or None."""
    if hobby not in load_household_priors().hobbies:
        return "unknown_hobby"
    return None if age >= load_household_priors().hobbies[hobby] else "too_young"


def taste_problem(taste: Taste, age: int, life: Life) -> str | None:
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
    usual = load_household_priors().tastes[taste.kind]
    if not usual.fits_age(age):
        return "too_young"
    return None if _usual_bounds(taste) else "unfit_value"


def _usual_bounds(taste: Taste) -> bool:
    """Whether low and high lie in what people like."""
    usual = load_household_priors().tastes[taste.kind]
    low = taste.low is None or usual.low is None or usual.low[0] <= taste.low <= usual.low[1]
    if taste.high is None:
        return low
    if taste.low is not None and usual.width:
        return low and 0 < taste.high - taste.low <= usual.width[1]
    return low and (usual.high is None or usual.high[0] <= taste.high <= usual.high[1])


def habit_problem(habit: WrittenHabit, member: Member, device: Device | None, life: Life) -> str | None:
    """Why a habit cannot be, or None."""
    activity = load_household_priors().activities.get(habit.activity)
    if activity is None or device is None:
        return "unknown_name"
    if not habit.days or not {*habit.days} <= {*range(7)} or not 0 <= habit.hour <= 23:
        return "unfit_value"
    if not can_do_activity(member, member.age(life.now.date()), activity):
        return "too_young"
    return None if device in devices_for_activity(activity, [device]) else "unfit_appliance"


def fact_limit_problem(fact: Fact, life: Life) -> str | None:
    """Why a whole fact cannot be, beside the rules of `checks.py`: its appliance, its pet or its number does not fit."""
    device = life.by_did.get(fact.appliance or "")
    if device is not None and not _fits(fact, device):
        return "unfit_appliance"
    if fact.pet is not None and fact.kind in ("cared", "pet_did"):
        animals = (load_household_priors().pet_care if fact.kind == "cared" else load_household_priors().pet_acts)[
            fact.what or ""
        ]
        if life.pets_by_name[fact.pet].animal not in animals:
            return "unfit_pet"
    if fact.kind == "adjusted" and device is not None and fact.value is not None:
        low, high, _ = load_household_priors().adjustments[device.spec.category].values
        return None if low <= fact.value <= high else "unfit_value"
    if fact.kind in FACT_UNITS and (fact.value is None or not 0 < fact.value <= MOST or fact.value % 1):
        return "unfit_value"
    return None


def _fits(fact: Fact, device: Device) -> bool:
    """Whether one does such a thing with an appliance."""
    kind, what = device.spec.category, fact.what or ""
    match fact.kind:
        case "used":
            return device in devices_for_activity(load_household_priors().activities[what], [device])
        case "cooked":
            return kind in load_household_priors().dishes[what].kinds
        case "adjusted":
            return kind in load_household_priors().adjustments and load_household_priors().adjustments[kind].what == what
        case "broke":
            return kind in load_household_priors().faults[what]
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
    cast: FactCast = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cast", household_cast(self.household.members, self.household.home))

    @property
    def fact_words(self) -> FactWords:
        """The words of the household's language."""
        return load_fact_words(self.household.language)

    def _keeps(self, reason: str | None) -> bool:
        """Whether nothing speaks against what was written; otherwise the reason is counted."""
        self.dropped["tasks: written"] += 1  # the report's name of what rates are shares of
        if reason is not None:
            self.dropped[f"author: {reason}"] += 1
        return reason is None

    # People

    def read_members(self, people: WrittenPeople) -> tuple[Member, ...] | None:
        """The members as they were written; None if one has no persona, hobby or taste."""
        written = {person.member_id: person for person in people.people}
        found = [self._member(member, written.get(member.member_id)) for member in self.life.members]
        members = tuple(member for member in found if member is not None)
        return members if len(members) == len(found) else None

    def _member(self, member: Member, person: WrittenPerson | None) -> Member | None:
        if person is None or not self._keeps(self.text_problem(person.persona, (member.name,), numbers=False)):
            return None
        age = member.age(self.life.now.date())
        hobbies = [hobby for hobby in dict.fromkeys(person.hobbies) if self._keeps(hobby_problem(hobby, age))]
        tastes: dict[str, tuple[Taste, str]] = {}
        for written in person.tastes:
            taste = Taste.model_validate(written.model_dump(exclude={"text"}) | {"hours": _pair(written.hours)})
            problem = "taste_twice" if taste.kind in tastes else taste_problem(taste, age, self.life)
            problem = problem or self.text_problem(written.text, (member.name, *self._taste_words(taste)))
            if self._keeps(problem):
                tastes[taste.kind] = taste, written.text
        habits = self._habits(member, person.habits)
        if (not hobbies and can_have_hobby(age)) or (not tastes and can_have_taste(age)):
            return None
        said = [self.fact_words.say_trait(trait) for trait in member.traits] + [text for _, text in habits]
        return member.model_copy(
            update={
                "persona": person.persona,
                "hobbies": tuple(hobbies[:MOST_HOBBIES]),
                "tastes": tuple(taste for taste, _ in tastes.values()),
                "habits": tuple(habit for habit, _ in habits),
                "preference": self.fact_words.join_sentences(text for _, text in tastes.values()),
                "lifestyle": self.fact_words.join_sentences(said),
            }
        )

    def _habits(self, member: Member, written: Iterable[WrittenHabit]) -> list[tuple[Habit, str]]:
        """The habits with their texts, by hour."""
        kept: dict[int, tuple[Habit, str]] = {}
        for one in written:
            device = self.life.by_did.get(one.appliance)
            problem = "habit_at_one_hour" if one.hour in kept else habit_problem(one, member, device, self.life)
            if problem is None and device is not None:
                problem = self.text_problem(one.text, (member.name, *self._habit_words(one, device)))
            if self._keeps(problem) and device is not None:
                days = tuple(sorted(set(one.days)))
                habit = Habit(activity=one.activity, days=days, hour=one.hour, room=device.room.id, appliance=device.did)
                kept[one.hour] = habit, one.text
        return [kept[hour] for hour in sorted(kept)]

    def _taste_words(self, taste: Taste) -> list[str]:
        group, unit = load_vocabulary().tastes[taste.kind].what, TASTE_UNITS.get(taste.kind)
        bounds = [value for value in (taste.low, taste.high) if value is not None]
        said = [self.fact_words.quantity_text(value, unit) if unit else f"{value:g}" for value in bounds]
        said += [
            self.fact_words.key_word("tastes", taste.kind),
            *(self.fact_words.hour_text(hour) for hour in taste.hours or ()),
        ]
        said += [self.fact_words.key_word(group, taste.what)] if group and taste.what else []
        return said + ([self.cast.rooms[taste.room].name] if taste.room else [])

    def _habit_words(self, habit: WrittenHabit, device: Device) -> list[str]:
        return [
            self.fact_words.key_word("activities", habit.activity),
            self.fact_words.hour_text(habit.hour),
            device.name,
            device.room.name,
        ]

    # The past

    def read_memories(self, written: Iterable[WrittenFact]) -> tuple[Memory, ...]:
        """The memories in the order of time, without those that contradict themselves or an earlier one."""
        kept: list[tuple[DatedFact, str]] = []
        for one in written:
            told, problem = self._told(one, MEMORIES)
            if told is not None:
                problem = memory_problem(told, [other for other, _ in kept], self.life) or self._said_problem(told.fact, one)
            if self._keeps(problem) and told is not None:
                kept.append((told, one.text))
        return tuple(self._memory(told, text) for told, text in sorted(kept, key=lambda pair: pair[0].time))

    def _memory(self, told: DatedFact, text: str) -> Memory:
        moment = self.fact_words.moment_text(told.time.weekday(), told.time.hour)
        return Memory(
            memory=text, subjects=fact_subjects(told.fact), additional_information=moment, time=told.time, fact=told.fact
        )

    def read_events(self, written: Iterable[WrittenFact]) -> tuple[Event, ...]:
        """The ordinary events that were written, then the scripted ones that tell of the situations."""
        telling = telling_events(self.household)
        latest = min((event.time for event in telling), default=self.life.now) - timedelta(minutes=REST)
        kept: list[tuple[DatedFact, str]] = []
        for one in written:
            told, problem = self._told(one, EVENTS)
            if told is not None:
                problem = self._event_problem(told, [other for other, _ in kept], latest) or self._said_problem(
                    told.fact, one
                )
            if self._keeps(problem) and told is not None:
                kept.append((told, one.text))
        ordinary = (_event(told, text) for told, text in sorted(kept, key=lambda pair: pair[0].time))
        return (*ordinary, *telling)

    def _event_problem(self, told: DatedFact, kept: Sequence[DatedFact], latest: datetime) -> str | None:
        if not self.life.now - timedelta(minutes=LAST) <= told.time <= told.end_time < latest:
            return "out_of_reach"
        if (told.fact.kind, told.fact.what) in situation_signs():
            return "tells_of_a_situation"
        return fact_problem(told, self.life) or next(
            (rule for other in kept if (rule := find_fact_clash(told, other))), None
        )

    def _told(self, written: WrittenFact, kinds: Collection[str]) -> tuple[DatedFact | None, str | None]:
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
        fact = Fact.model_validate(given)
        told = DatedFact(fact, time)
        problem = (
            "out_of_reach" if time > self.life.now else fact_problem(told, self.life) or fact_limit_problem(fact, self.life)
        )
        return (None, problem) if problem else (told, None)

    def _said_problem(self, fact: Fact, written: WrittenFact) -> str | None:
        fields = self.fact_words.fact_field_words(fact, self.cast)
        said = [word for name, word in fields.items() if name not in ("room", "place", "others")]
        said += [self.cast.people[other] for other in fact.others]
        said += [self.cast.rooms[fact.room].name] if fact.room else []
        return self.text_problem(written.text, said)

    # Texts

    def text_problem(self, text: str, said: Sequence[str], *, numbers: bool = True) -> str | None:
        """Why a text is not a statement of the words in `said`, or None. `numbers` asks for their numbers, and no others."""
        if CODE.search(text):
            return "code is said"
        if any(not says_word(text, word) for word in said):
            return "text: unsaid"
        wanted = {number for word in said for number in _numbers(word)} if numbers else set()
        rest = text
        for word in sorted(said, key=len, reverse=True):
            rest = re.sub(re.escape(word), " ", rest, flags=re.I)
        names = (*self.cast.people.values(), *self.life.pets_by_name, *(room.name for room in self.life.rooms))
        if _numbers(text) != wanted or any(says_word(rest, name) for name in names if name not in said):
            return "text: says more"
        someone = any(name in said for name in (*self.cast.people.values(), *self.life.pets_by_name))
        return None if someone or split_of(text) == self.split else "no sentence of this split"


def says_word(text: str, word: str) -> bool:
    """Whether a text has a word or phrase, however it is written."""
    text, word = OWNER.sub("", text), OWNER.sub("", word)
    return f" {normal_form(word)} " in f" {normal_form(text)} " or (not word.isascii() and word in text)


def _numbers(text: str) -> set[float]:
    return {float(number) for number in NUMBER.findall(unicodedata.normalize("NFKC", text))}


def _pair(hours: Sequence[int] | None) -> tuple[int, int] | None:
    return None if hours is None or len(hours) != 2 else (hours[0], hours[1])


def _event(told: DatedFact, text: str) -> Event:
    fact = told.fact
    return Event(
        time=told.time, description=text, fact=fact, sensors=(), appliances=(fact.appliance,) if fact.appliance else ()
    )
