"""The keys of `vocabulary.yaml`, which facts, tastes and situations may hold; words and sentences for them, by language.

Invariants:
- The file is read once per process. A group of keys that a fact or a taste names exists.
- A sentence holds the words of every field of its fact, and says nothing else.
- The same rng gives the same sentence in every process.
- The halves `train` and `heldout` share no name of a person or a pet, and no frame.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.languages import LanguagePart
from homerl.envs.core.model import Model
from homerl.envs.homeenv.maker.home_names import Half
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.sim.household import Fact, Gender, Habit, LifeEvent, Member, Taste

FILE = Path(__file__).parent / "vocabulary.yaml"


class FactShape(Model):
    """The fields that a kind of fact or taste has besides `kind`, and the group of keys that its `what` is from."""

    fields: tuple[str, ...]
    what: str | None = None


class Vocabulary(Model):
    """The groups of keys. `situations` are by category, in the order of urgency."""

    facts: dict[str, FactShape]
    activities: tuple[str, ...]
    dishes: tuple[str, ...]
    quantities: tuple[str, ...]
    complaints: tuple[str, ...]
    things: tuple[str, ...]
    relations: tuple[str, ...]
    places: tuple[str, ...]
    ailments: tuple[str, ...]
    pet_care: tuple[str, ...]
    faults: tuple[str, ...]
    repairs: tuple[str, ...]
    occasions: tuple[str, ...]
    skills: tuple[str, ...]
    signs: tuple[str, ...]
    pet_acts: tuple[str, ...]
    life_events: tuple[str, ...]
    hobbies: tuple[str, ...]
    roles: tuple[str, ...]
    occupations: tuple[str, ...]
    traits: tuple[str, ...]
    tastes: dict[str, FactShape]
    genres: tuple[str, ...]
    scents: tuple[str, ...]
    situations: dict[str, tuple[str, ...]]

    @model_validator(mode="after")
    def _groups_exist(self) -> Vocabulary:
        for shape in (*self.facts.values(), *self.tastes.values()):
            if shape.what is not None and not self.group_keys(shape.what):
                raise ValueError(f"there is no group '{shape.what}'")
        return self

    def group_keys(self, group: str) -> tuple[str, ...]:
        """The keys of a group, such as `dishes`; those of `situations` in the order of urgency. Raises `ValueError`."""
        found = getattr(self, group, None) if group in type(self).model_fields else None
        if found is None:
            raise ValueError(f"there is no group '{group}'")
        if group == "situations":
            return tuple(key for keys in self.situations.values() for key in keys)
        return tuple(found)


@lru_cache(maxsize=1)
def load_vocabulary() -> Vocabulary:
    """The vocabulary. Raises `InputError` with the line if the file is wrong."""
    return validate_document(Vocabulary, read_yaml(FILE))


WORDS = LanguagePart(Path(__file__).parent / "words", "personalhome.yaml")
OPTIONAL = re.compile(r"\[([^\]]*)\]")
FIELD = re.compile(r"\{(\w+)\}")
# The unit of the value of a fact, by its kind. That of what is `adjusted` or `measured` depends on the device.
FACT_UNITS = {
    "used": "minute", "cooked": "serving", "visited": "day", "travelled": "day", "ill": "day", "bought": "currency",
    "repaired": "currency",
}  # fmt: skip
# The unit of a taste's bounds, by its kind.
TASTE_UNITS = {
    "room_temperature": "celsius", "soft_light": "percentage", "bright_light": "percentage", "humid_air": "percentage",
    "clean_air": "micrograms", "hot_shower": "celsius", "firm_mattress": "level",
}  # fmt: skip


class Halves(Model):
    """Names or frames, by half."""

    train: tuple[str, ...] = Field(min_length=1)
    heldout: tuple[str, ...] = Field(min_length=1)

    def entries_of(self, half: Half) -> tuple[str, ...]:
        """The entries of a half."""
        return self.train if half == "train" else self.heldout


@dataclass(frozen=True)
class FactCast:
    """What texts call those whom facts name by id: members by member id, rooms by id, devices by did."""

    people: Mapping[str, str]
    rooms: Mapping[str, Room]
    devices: Mapping[str, str]


def household_cast(members: Iterable[Member], home: Mapping[str, Any]) -> FactCast:
    """The cast of a household: its members, and the rooms and devices of its home (`Household.home`)."""
    people = {member.member_id: member.name for member in members}
    rooms = {room["id"]: Room(room["id"], room["type"], room["name"]) for room in home["rooms"]}
    return FactCast(people, rooms, {device["did"]: device["name"] for device in home["devices"]})


class FactWords(Model):
    """The words of a language. `en.yaml` explains the parts."""

    people: dict[Gender, Halves]
    pets: Halves
    keys: dict[str, dict[str, str]]
    units: dict[str, tuple[str, ...]]
    phrases: dict[str, str]
    weekdays: tuple[str, ...] = Field(min_length=7, max_length=7)
    every: tuple[str, ...] = Field(min_length=7, max_length=7)
    parts: tuple[str, ...] = Field(min_length=4, max_length=4)
    facts: dict[str, Halves]
    life_event: Halves
    tastes: dict[str, Halves]
    habit: Halves
    habit_every_day: Halves
    persona: Halves
    characters: Halves
    layout: str
    layout_floors: str

    def key_word(self, group: str, key: str) -> str:
        """The word for a key of a group. A text that is no key, such as a job from a persona file, is its own word."""
        return self.keys[group].get(key, key)

    def quantity_text(self, value: float, unit: str) -> str:
        """A number with its unit: `21.5 °C`, `1 day`, `3 days`. Raises `KeyError` for an unknown unit."""
        forms = self.units[unit]
        return forms[0 if value == 1 else -1].format(n=f"{value:g}" if value % 1 else f"{value:.0f}")

    def list_names(self, names: Iterable[str]) -> str:
        """Names in a row: `Ann, Ben and Cid`. It is empty if there are none."""
        *first, last = list(names) or [""]  # without names there is an empty text
        return self.phrases["comma"].join(first) + self.phrases["and"] + last if first else last

    def place_name(self, room: Room) -> str:
        """A room as a thing: `the kitchen`."""
        return self.phrases["place"].format(name=room.name)

    def place_phrase(self, room: Room) -> str:
        """A room as a place where something happens: `in the kitchen`, `on the balcony`."""
        return self.phrases.get(f"room_{room.type}", self.phrases["room"]).format(name=room.name)

    def hour_text(self, hour: int) -> str:
        """An hour of the day: `07:00`."""
        return self.phrases["clock"].format(hour=hour)

    def moment_text(self, weekday: int, hour: int) -> str:
        """The weekday (0 is Monday) and the part of the day: `Saturday morning`."""
        return self.phrases["moment"].format(weekday=self.weekdays[weekday], part=self.parts[hour // 6])

    def say_fact(self, fact: Fact, cast: FactCast, rng: random.Random, half: Half = "train") -> str:
        """One sentence that says the fact, in one of the frames of the half."""
        return fill_frame(rng.choice(self.facts[fact.kind].entries_of(half)), self.fact_field_words(fact, cast))

    def fact_field_words(self, fact: Fact, cast: FactCast) -> dict[str, str]:
        """The words of the fields that the fact has, by field."""
        group = load_vocabulary().facts[fact.kind].what
        found = {
            "who": cast.people[fact.who] if fact.who else "",
            "others": self.list_names(cast.people[other] for other in fact.others),
            "pet": fact.pet or "",
            "appliance": cast.devices[fact.appliance] if fact.appliance else "",
            "sensor": cast.devices[fact.sensor] if fact.sensor else "",
            "what": self.key_word(group, fact.what) if group and fact.what else "",
            "value": self.quantity_text(fact.value, fact.unit) if fact.value is not None and fact.unit else "",
            **self._room_fields(cast, fact.room),
        }
        return {key: word for key, word in found.items() if word}

    def say_taste(self, taste: Taste, cast: FactCast, rng: random.Random, half: Half = "train") -> str:
        """One sentence, without a subject, that says what somebody prefers."""
        return fill_frame(rng.choice(self.tastes[taste.kind].entries_of(half)), self.taste_field_words(taste, cast))

    def taste_field_words(self, taste: Taste, cast: FactCast) -> dict[str, str]:
        """The words of the fields that the taste has, by field."""
        group, unit = load_vocabulary().tastes[taste.kind].what, TASTE_UNITS.get(taste.kind)
        bounds = {"low": taste.low, "high": taste.high}
        words = {key: self.quantity_text(value, unit) for key, value in bounds.items() if value is not None and unit}
        words |= dict(zip(("from", "to"), map(self.hour_text, taste.hours or ())))
        words |= {"what": self.key_word(group, taste.what)} if group and taste.what else {}
        return words | self._room_fields(cast, taste.room)

    def say_habit(self, habit: Habit, cast: FactCast, rng: random.Random, half: Half = "train") -> str:
        """One sentence, without a subject, that says what somebody does regularly."""
        words = {"what": self.key_word("activities", habit.activity), "hour": self.hour_text(habit.hour)}
        words |= {"days": self.weekdays_text(habit.days)}
        words |= self._room_fields(cast, habit.room)
        words |= {"appliance": cast.devices[habit.appliance]} if habit.appliance else {}
        frames = self.habit_every_day if len(habit.days) == 7 else self.habit
        return fill_frame(rng.choice(frames.entries_of(half)), words)

    def say_trait(self, trait: str) -> str:
        """One sentence, without a subject, that says a trait."""
        return fill_frame(self.phrases["sentence"], {"what": self.key_word("traits", trait)})

    def say_life(self, event: LifeEvent, name: str, rng: random.Random, half: Half = "train") -> str:
        """One sentence that says what happened in a life."""
        words = {"who": name, "what": self.key_word("life_events", event.kind)}
        return fill_frame(rng.choice(self.life_event.entries_of(half)), words)

    def say_layout(self, rooms: Sequence[Room]) -> str:
        """One sentence that lists the rooms."""
        floors = len({room.floor for room in rooms})
        known = {"count": str(len(rooms)), "floors": str(floors), "rooms": self.list_names(room.name for room in rooms)}
        return fill_frame(self.layout_floors if floors > 1 else self.layout, known)

    def weekdays_text(self, days: tuple[int, ...]) -> str:
        """Weekdays (0 is Monday) on which something happens every week: `weekdays`, `Mondays and Fridays`."""
        named = {(0, 1, 2, 3, 4): "weekdays", (5, 6): "weekends"}.get(days)
        return self.phrases[named] if named else self.list_names(self.every[day] for day in days)

    def join_sentences(self, sentences: Iterable[str]) -> str:
        """Sentences as one text."""
        return self.phrases["gap"].join(sentences)

    def _room_fields(self, cast: FactCast, id: str | None) -> dict[str, str]:
        return {"room": self.place_phrase(cast.rooms[id]), "place": self.place_name(cast.rooms[id])} if id else {}


def fill_frame(frame: str, words: Mapping[str, str]) -> str:
    """The frame with its fields as words. `[...]` is left out if it names a field that is missing.

    Raises `KeyError` if a field outside brackets is missing.
    """
    kept = OPTIONAL.sub(lambda part: part[1] if words.keys() >= {*FIELD.findall(part[1])} else "", frame)
    text = FIELD.sub(lambda field: words[field[1]], kept).strip()
    return text[:1].upper() + text[1:]


@lru_cache
def load_fact_words(language: str = "en") -> FactWords:
    """The words of a language. Raises `InputError` for a language without words."""
    return validate_document(FactWords, read_yaml(WORDS.find_path(language)))
