"""Puts questions, assumptions and answers of a household into words.

What is in the present scene is called as the captions of its transcript call it. Kinds of such things begin with `scene:`:
`actor`, `thing`, `spot` (where a thing is: at something, or with somebody), `zone`, `sound`, `state`, `posture`, `act`, and
`look:<attribute>`.

Invariants: a text is a pure function of household, language and random generator; what a caption calls something is among
its texts; a question that names ids and one that names people have the same answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.scene.scene_scripts import CaptionWords, load_caption_words
from homerl.envs.personalhome.sim.scene.script_player import GONE
from homerl.envs.personalhome.sim.scene.transcript import Entities
from homerl.envs.personalhome.sim.scene.transcript_writer import GROUPS, transcript_nouns
from homerl.envs.personalhome.sim.vocabulary import FactCast, FactWords, household_cast, load_fact_words
from homerl.envs.personalhome.tasks.questions.counterfactual_edits import FactorEdit
from homerl.envs.personalhome.tasks.questions.families import OBJECT, QuestionCandidate, QuestionSlot, key_group
from homerl.envs.personalhome.tasks.questions.household_tables import SCENE, SceneAct

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

    @cached_property
    def fact_cast(self) -> FactCast:
        """What texts call people, rooms and devices."""
        return household_cast(self.household.members, self.household.home)

    @cached_property
    def phrases(self) -> Mapping[str, Any]:
        """The sentences of the household's language."""
        return load_phrases(self.household.language)

    @cached_property
    def caption_words(self) -> CaptionWords:
        """The words of captions in the household's language."""
        return load_caption_words(self.household.language)

    @cached_property
    def scene_entities(self) -> Entities:
        """Who and what is in the scene."""
        assert self.household.transcript is not None
        return self.household.transcript.video_description.entities

    @cached_property
    def scene_nouns(self) -> Mapping[str, str]:
        """What captions call everything in the scene, by id."""
        assert self.household.transcript is not None
        return transcript_nouns(self.household.transcript)

    def question_texts(self, candidate: QuestionCandidate) -> list[str]:
        """A question in all words that there are for it."""
        slots = self._slot_words(candidate.slots)
        frames = sentence_frames(self.household.language, "questions", candidate.family)
        return [_capitalized(frame.format(**slots)) for frame in frames]

    def assumption_text(self, edit: FactorEdit, rng: random.Random) -> str:
        """The condition of a counterfactual in words."""
        frames = sentence_frames(self.household.language, "edits", edit.frame)
        return _capitalized(rng.choice(frames).format(**self._slot_words(edit.slots)))

    def answer_texts(self, kind: str, value: Any) -> tuple[str, ...]:
        """The texts that give an answer, the best first, each once."""
        if kind.startswith(SCENE):
            return tuple(dict.fromkeys(self._scene_texts(kind.removeprefix(SCENE), value)))
        if kind == "person":
            return (self.fact_cast.people[value], value)
        if kind == "date":
            return (self._date_text(value), value.isoformat())
        if kind in ("appliance", "sensor"):
            return tuple(dict.fromkeys((self.fact_cast.devices[value], value)))
        if kind == "room":
            room = self.fact_cast.rooms[value]
            names = (room.name, self.fact_words.place_name(room), self.fact_words.place_phrase(room), value)
            return tuple(dict.fromkeys(names))
        if kind in COUNTS:
            return (_number_text(value), str(self.phrases[kind]).format(n=_number_text(value)))
        if kind == "share":
            return (_number_text(value), f"{100 * value:g} %")
        if kind.startswith("number:"):
            unit, number = kind.removeprefix("number:"), _number_text(value)
            if unit in self.fact_words.units:
                return tuple(dict.fromkeys((self.fact_words.quantity_text(value, unit), number)))
            return (number, f"{number} {unit.replace('_', ' ')}")
        return (self.say_slot(QuestionSlot(kind, value)),)

    def say_slot(self, slot: QuestionSlot) -> str:
        """The words for a thing."""
        kind, value = slot.kind, slot.value
        if kind.startswith(SCENE):
            return next(self._scene_texts(kind.removeprefix(SCENE), value))
        match kind:
            case "person":
                return self.fact_cast.people[value] if self.personal else value
            case "appliance" | "sensor":
                return self.fact_cast.devices[value] if self.personal else value
            case "room":
                return self.fact_cast.rooms[value].name if self.personal else value
            case "pet":
                return str(value)
            case "date":
                return self._date_text(value)
            case "moment":
                return f"{value:%H:%M}, {self._date_text(value)}"
            case "attribute":
                return str(value).replace("_", " ").replace(".", " ")
            case "weather":
                side, quantity = value
                return str(self.phrases["weather"][side][quantity])
        if isinstance(value, int | float):
            return _number_text(value)
        return self.fact_words.key_word(key_group(kind), value)

    def _slot_words(self, slots: Mapping[str, QuestionSlot]) -> dict[str, str]:
        """The words of a frame's fields. What somebody did has a form after "did" and one after a subject."""
        texts: dict[str, str] = {}
        for name, slot in slots.items():
            if slot.kind != "deed":
                texts[name] = self.say_slot(slot)
                continue
            deed, prefix = slot.value, "" if name == "deed" else "other_"
            forms = self.phrases["deeds"][deed.kind]
            if deed.object is None:
                texts |= {f"{prefix}do": forms["do_any"], f"{prefix}done": forms["done_any"]}
            else:
                object = self.say_slot(QuestionSlot(OBJECT.get(deed.kind) or f"what:{deed.kind}", deed.object))
                texts |= {f"{prefix}{form}": forms[form].format(object=object) for form in ("do", "done")}
        return texts

    def _scene_texts(self, kind: str, value: Any) -> Iterator[str]:
        """The words for something in the scene, the best first."""
        words = self.caption_words
        if kind == "act":
            yield from self._act_clauses(value)
        elif kind == "zone" and value != GONE:
            room = self.fact_cast.rooms[value]
            noun = words.frames["zone"].format(name=room.name)
            yield from (noun, room.name, words.frames["location"].format(zone=noun), value)
        elif kind in ("actor", "thing", "spot"):
            names = list(self._names_in_scene(value))
            yield from names
            if kind == "spot":
                holders = {one.member_id for one in self.scene_entities.members}
                holders |= {one.pet_id for one in self.scene_entities.pets}
                yield from (words.frames["held" if value in holders else "place"].format(at=name) for name in names)
        elif kind == "sound":
            yield words.sounds[value]
        else:
            yield getattr(words, GROUPS.get(kind.removeprefix("look:"), "states"))[value]

    def _act_clauses(self, act: SceneAct) -> Iterator[str]:
        """What is done: in names, in ids, as the caption says it, and without its subject."""
        for personal in (self.personal, not self.personal):
            wording = replace(self, personal=personal)
            who = wording._name_or_gap(act.who) if act.who else ""
            named = {name: wording._name_or_gap(getattr(act, name) or "") for name in ("what", "at", "zone")}
            clause = self.caption_words.actions[act.do].format(who=who, **named)
            yield clause
            if act.place and not act.zone:
                yield self.caption_words.frames["within"].format(sentence=clause, zone=wording._name_or_gap(act.place))
            if who:
                yield clause.removeprefix(who).strip()

    def _name_or_gap(self, id: str) -> str:
        """What a sentence calls somebody or something, or what stands there for what is not said."""
        if id.startswith("?"):
            return str(self.phrases["scenes"][id.removeprefix("?")])
        return next(self._names_in_scene(id), "")

    def _names_in_scene(self, id: str) -> Iterator[str]:
        """The names of somebody or something: the best, then others, then the id."""
        called = self.fact_cast.people.get(id) or self.fact_cast.devices.get(id)
        if called and self.personal:
            yield called
        if id in self.scene_nouns:
            yield self.scene_nouns[id]
            labels = [one.label for one in self.scene_entities.objects]
            own = [one.label for one in self.scene_entities.objects if one.object_id == id]
            yield from (label for label in own if labels.count(label) == 1)  # no other object is called so
        if called:
            yield called
        if id:
            yield id

    def _date_text(self, value: date | datetime) -> str:
        if self.household.language == "zh":
            return f"{value.year}年{value.month}月{value.day}日"
        return f"{value.day} {value:%B} {value.year}"


def _number_text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(round(value, 2))


def _capitalized(text: str) -> str:
    """The text with a capital letter, unless it begins with an id."""
    return text if "_" in text.split()[0] else text[0].upper() + text[1:]
