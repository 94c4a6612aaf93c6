"""Puts questions, assumptions and answers of a household into words.

Invariants: a text is a pure function of household, language and random generator; a question that names ids and one that
names people have the same answer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.words import Cast, Words, cast_of, words_for
from homerl.envs.personalhome.tasks.questions.edits import Edit
from homerl.envs.personalhome.tasks.questions.families import Candidate, Deed, Slot
from homerl.envs.personalhome.tasks.questions.scene_words import SceneWords

# kind of answer -> the group of `vocabulary.yaml` that its keys are from
WHAT = {
    "cooked": "dishes",
    "used": "activities",
    "travelled": "places",
    "complained": "complaints",
    "ill": "ailments",
    "bought": "things",
    "celebrated": "occasions",
    "cared": "pet_care",
    "repaired": "repairs",
    "learned": "skills",
}
SCENE = "scene:"  # begins the kinds whose words are those of the scene
COUNTS = {"years", "span", "times", "seconds"}  # kinds of numbers whose unit is a phrase of questions


@cache
def phrases(language: str) -> Mapping[str, Mapping[str, Any]]:
    """The sentences of a language. Raises `InputError` if it has none."""
    data: Mapping[str, Mapping[str, Any]] = read_yaml(Path(__file__).parent / "phrases" / f"{language}.yaml").data
    return data


def frames_of(language: str, group: str, name: str) -> Sequence[str]:
    """The sentences of a family or an edit. `group` is `questions` or `edits`; scenes have a section of their own."""
    known = phrases(language)
    found: Sequence[str] = known[group].get(name) or known["scenes"][group][name]
    return found


@dataclass(frozen=True)
class Wording:
    """The words of one household. `personal` names people by name, and not by id."""

    household: Household
    personal: bool = True

    @property
    def words(self) -> Words:
        """The words of the household's language."""
        return words_for(self.household.language)

    @property
    def cast(self) -> Cast:
        """What texts call people, rooms and devices."""
        return cast_of(self.household.members, self.household.home)

    @cached_property
    def scene(self) -> SceneWords:
        """The words of the household's scene."""
        return SceneWords(self.household, phrases(self.household.language)["scenes"], self.personal)

    def questions(self, candidate: Candidate) -> list[str]:
        """A question in all words that there are for it."""
        slots = self._slots(candidate.slots)
        frames = frames_of(self.household.language, "questions", candidate.family)
        return [_sentence(frame.format(**slots)) for frame in frames]

    def assumption(self, edit: Edit, rng: random.Random) -> str:
        """The condition of a counterfactual in words."""
        frames = frames_of(self.household.language, "edits", edit.frame)
        return _sentence(rng.choice(frames).format(**self._slots(edit.slots)))

    def answers(self, kind: str, value: Any) -> tuple[str, ...]:
        """The texts that give an answer, the best first, each once."""
        if kind.startswith(SCENE):
            return self.scene.answers(kind, value)
        if kind == "person":
            return (self.cast.people[value], value)
        if kind == "date":
            return (self._date(value), value.isoformat())
        if kind in ("appliance", "sensor"):
            return tuple(dict.fromkeys((self.cast.devices[value], value)))
        if kind == "room":
            room = self.cast.rooms[value]
            return tuple(dict.fromkeys((room.name, self.words.place(room), self.words.inside(room), value)))
        if kind in COUNTS:
            return (_number(value), str(phrases(self.household.language)[kind]).format(n=_number(value)))
        if kind == "share":
            return (_number(value), f"{100 * value:g} %")
        if kind.startswith("number:"):
            unit = kind.removeprefix("number:")
            known = unit in self.words.units
            quantity = self.words.quantity(value, unit) if known else f"{_number(value)} {unit.replace('_', ' ')}"
            return tuple(dict.fromkeys((quantity, _number(value)) if known else (_number(value), quantity)))
        return (self.say(Slot(kind, value)),)

    def say(self, slot: Slot) -> str:
        """The words for a thing."""
        kind, value = slot.kind, slot.value
        if kind.startswith(SCENE):
            return self.scene.say(kind, value)
        if kind == "person":
            return self.cast.people[value] if self.personal else value
        if kind in ("appliance", "sensor"):
            return self.cast.devices[value] if self.personal else value
        if kind == "pet":
            return str(value)
        if kind == "room":
            return self.cast.rooms[value].name if self.personal else value
        if kind == "date":
            return self._date(value)
        if kind == "moment":
            return f"{value:%H:%M}, {self._date(value)}"
        if kind == "attribute":
            return str(value).replace("_", " ").replace(".", " ")
        if kind == "weather":
            side, quantity = value
            return str(phrases(self.household.language)["weather"][side][quantity])
        if isinstance(value, int | float):
            return _number(value)
        return self.words.word(WHAT.get(kind.removeprefix("what:"), kind), value)

    def _slots(self, slots: Mapping[str, Slot]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for name, slot in slots.items():
            if slot.kind != "deed":
                texts[name] = self.say(slot)
            else:
                do, done = self._deed(slot.value)
                prefix = "" if name == "deed" else "other_"
                texts |= {f"{prefix}do": do, f"{prefix}done": done}
        return texts

    def _deed(self, deed: Deed) -> tuple[str, str]:
        """What somebody did, after "did" and after a subject."""
        forms = phrases(self.household.language)["deeds"][deed.kind]
        if deed.object is None:
            return forms["do_any"], forms["done_any"]
        kind = "appliance" if deed.kind in ("used", "repaired") else f"what:{deed.kind}"
        object = self.say(Slot(kind, deed.object))
        return forms["do"].format(object=object), forms["done"].format(object=object)

    def _date(self, value: date | datetime) -> str:
        if self.household.language == "zh":
            return f"{value.year}年{value.month}月{value.day}日"
        return f"{value.day} {value:%B} {value.year}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(round(value, 2))


def _sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with an id."""
    return text if "_" in text.split()[0] else text[0].upper() + text[1:]
