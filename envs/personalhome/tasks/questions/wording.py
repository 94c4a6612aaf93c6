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
from homerl.envs.personalhome.sim.words import FactCast, FactWords, household_cast, load_fact_words
from homerl.envs.personalhome.tasks.questions.edits import FactorEdit
from homerl.envs.personalhome.tasks.questions.families import Deed, QuestionCandidate, QuestionSlot
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
def load_phrases(language: str) -> Mapping[str, Mapping[str, Any]]:
    """The sentences of a language. Raises `InputError` if it has none."""
    data: Mapping[str, Mapping[str, Any]] = read_yaml(Path(__file__).parent / "phrases" / f"{language}.yaml").data
    return data


def sentence_frames(language: str, group: str, name: str) -> Sequence[str]:
    """The sentences of a family or an edit. `group` is `questions` or `edits`; scenes have a section of their own."""
    known = load_phrases(language)
    found: Sequence[str] = known[group].get(name) or known["scenes"][group][name]
    return found


@dataclass(frozen=True)
class QuestionWording:
    """The words of one household. `personal` names people by name, and not by id."""

    household: Household
    personal: bool = True

    @property
    def fact_words(self) -> FactWords:
        """The words of the household's language."""
        return load_fact_words(self.household.language)

    @property
    def fact_cast(self) -> FactCast:
        """What texts call people, rooms and devices."""
        return household_cast(self.household.members, self.household.home)

    @cached_property
    def scene_words(self) -> SceneWords:
        """The words of the household's scene."""
        return SceneWords(self.household, load_phrases(self.household.language)["scenes"], self.personal)

    def question_texts(self, candidate: QuestionCandidate) -> list[str]:
        """A question in all words that there are for it."""
        slots = self._slots(candidate.slots)
        frames = sentence_frames(self.household.language, "questions", candidate.family)
        return [_sentence(frame.format(**slots)) for frame in frames]

    def assumption_text(self, edit: FactorEdit, rng: random.Random) -> str:
        """The condition of a counterfactual in words."""
        frames = sentence_frames(self.household.language, "edits", edit.frame)
        return _sentence(rng.choice(frames).format(**self._slots(edit.slots)))

    def answer_texts(self, kind: str, value: Any) -> tuple[str, ...]:
        """The texts that give an answer, the best first, each once."""
        if kind.startswith(SCENE):
            return self.scene_words.answer_texts(kind, value)
        if kind == "person":
            return (self.fact_cast.people[value], value)
        if kind == "date":
            return (self._date(value), value.isoformat())
        if kind in ("appliance", "sensor"):
            return tuple(dict.fromkeys((self.fact_cast.devices[value], value)))
        if kind == "room":
            room = self.fact_cast.rooms[value]
            return tuple(
                dict.fromkeys((room.name, self.fact_words.place_name(room), self.fact_words.place_phrase(room), value))
            )
        if kind in COUNTS:
            return (_number(value), str(load_phrases(self.household.language)[kind]).format(n=_number(value)))
        if kind == "share":
            return (_number(value), f"{100 * value:g} %")
        if kind.startswith("number:"):
            unit = kind.removeprefix("number:")
            known = unit in self.fact_words.units
            quantity = self.fact_words.quantity_text(value, unit) if known else f"{_number(value)} {unit.replace('_', ' ')}"
            return tuple(dict.fromkeys((quantity, _number(value)) if known else (_number(value), quantity)))
        return (self.say_slot(QuestionSlot(kind, value)),)

    def say_slot(self, slot: QuestionSlot) -> str:
        """The words for a thing."""
        kind, value = slot.kind, slot.value
        if kind.startswith(SCENE):
            return self.scene_words.say_value(kind, value)
        if kind == "person":
            return self.fact_cast.people[value] if self.personal else value
        if kind in ("appliance", "sensor"):
            return self.fact_cast.devices[value] if self.personal else value
        if kind == "pet":
            return str(value)
        if kind == "room":
            return self.fact_cast.rooms[value].name if self.personal else value
        if kind == "date":
            return self._date(value)
        if kind == "moment":
            return f"{value:%H:%M}, {self._date(value)}"
        if kind == "attribute":
            return str(value).replace("_", " ").replace(".", " ")
        if kind == "weather":
            side, quantity = value
            return str(load_phrases(self.household.language)["weather"][side][quantity])
        if isinstance(value, int | float):
            return _number(value)
        return self.fact_words.key_word(WHAT.get(kind.removeprefix("what:"), kind), value)

    def _slots(self, slots: Mapping[str, QuestionSlot]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for name, slot in slots.items():
            if slot.kind != "deed":
                texts[name] = self.say_slot(slot)
            else:
                do, done = self._deed(slot.value)
                prefix = "" if name == "deed" else "other_"
                texts |= {f"{prefix}do": do, f"{prefix}done": done}
        return texts

    def _deed(self, deed: Deed) -> tuple[str, str]:
        """What somebody did, after "did" and after a subject."""
        forms = load_phrases(self.household.language)["deeds"][deed.kind]
        if deed.object is None:
            return forms["do_any"], forms["done_any"]
        kind = "appliance" if deed.kind in ("used", "repaired") else f"what:{deed.kind}"
        object = self.say_slot(QuestionSlot(kind, deed.object))
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
