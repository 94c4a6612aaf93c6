"""Words for what questions about the present scene name and answer, as the captions of its transcript say them.

Kinds of things begin with `scene:`: `actor`, `thing`, `spot` (where a thing is: at something, or with somebody), `zone`,
`sound`, `state`, `posture`, `act`, and `look:<attribute>`.

Invariants: a text is a pure function of household and value; what a caption calls something is among its texts.

Puts questions, assumptions and answers of a household into words.

Invariants: a text is a pure function of household, language and random generator; a question that names ids and one that
names people have the same answer.
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
from homerl.envs.personalhome.sim.scene.scene_scripts import CaptionWords, load_caption_words, load_stage
from homerl.envs.personalhome.sim.scene.script_player import GONE
from homerl.envs.personalhome.sim.scene.transcript import Transcript
from homerl.envs.personalhome.sim.scene.transcript_writer import GROUPS, transcript_nouns
from homerl.envs.personalhome.sim.vocabulary import FactCast, FactWords, household_cast, load_fact_words
from homerl.envs.personalhome.tasks.questions.counterfactual_edits import FactorEdit
from homerl.envs.personalhome.tasks.questions.families import Deed, QuestionCandidate, QuestionSlot
from homerl.envs.personalhome.tasks.questions.household_tables import HouseholdTables, SceneAct
from homerl.envs.personalhome.tasks.questions.scene_families import CHANGING

VALUES = {  # kind -> the (table, column) pairs whose values are of this kind, those of the scene first
    "actor": (("scene_acts", "who"), ("scene_looks", "who"), ("members", "who"), ("pets", "pet")),
    "thing": (("scene_acts", "what"), ("scene_acts", "at")),
    "spot": (("scene_acts", "at"), ("scene_acts", "who")),
    "zone": (("scene_acts", "zone"), ("scene_sounds", "zone"), ("appliances", "room"), ("sensors", "room")),
    "sound": (("scene_sounds", "sound"),),
    "act": (("scene_acts", "act"),),
}
TYPED = {  # kind -> (table, column, attributes) where rows of these attributes have values of this kind
    "thing": (("scene_things", "thing", ("colour", "finish", "zone")),),
    "spot": (("scene_things", "thing", ("zone",)),),
    "state": (("scene_states", "value", CHANGING),),
    "posture": (("scene_states", "value", ("posture",)),),
}


@dataclass(frozen=True)
class SceneWords:
    """The words of a household's scene. `personal` names people and appliances by name, and not by id."""

    household: Household
    said: Mapping[str, str]  # `phrases/<language>.yaml`, `scenes`
    personal: bool

    @property
    def scene_transcript(self) -> Transcript:
        """The transcript of the scene."""
        assert self.household.transcript is not None
        return self.household.transcript

    @cached_property
    def scene_nouns(self) -> Mapping[str, str]:
        """What captions call everything in the scene, by id."""
        return transcript_nouns(self.scene_transcript)

    @cached_property
    def fact_cast(self) -> FactCast:
        """What texts call people, rooms and devices."""
        return household_cast(self.household.members, self.household.home)

    @property
    def caption_words(self) -> CaptionWords:
        """The words of captions in the household's language."""
        return load_caption_words(self.household.language)

    def say_value(self, kind: str, value: Any) -> str:
        """The words for a thing of a kind."""
        return next(self._texts(kind.removeprefix("scene:"), value))

    def answer_texts(self, kind: str, value: Any) -> tuple[str, ...]:
        """The texts that give an answer, the best first, each once."""
        return tuple(dict.fromkeys(self._texts(kind.removeprefix("scene:"), value)))

    def _texts(self, kind: str, value: Any) -> Iterator[str]:
        if kind == "act":
            yield from self._clauses(value)
        elif kind == "zone" and value != GONE:
            room = self.fact_cast.rooms[value]
            noun = self.caption_words.frames["zone"].format(name=room.name)
            yield from (noun, room.name, self.caption_words.frames["location"].format(zone=noun), value)
        elif kind in ("actor", "thing", "spot"):
            yield from self._names(value)
            if kind == "spot":
                frame = self.caption_words.frames["held" if value in self._holders() else "place"]
                yield from [frame.format(at=name) for name in self._names(value)]
        elif kind == "sound":
            yield self.caption_words.sounds[value]
        else:
            yield getattr(self.caption_words, GROUPS.get(kind.removeprefix("look:"), "states"))[value]

    def _clauses(self, act: SceneAct) -> Iterator[str]:
        """What is done: in names, in ids, as the caption says it, and without its subject."""
        for personal in (self.personal, not self.personal):
            wording = replace(self, personal=personal)
            who = wording._noun(act.who) if act.who else ""
            fields = {"who": who, **{name: wording._noun(getattr(act, name) or "") for name in ("what", "at", "zone")}}
            clause = self.caption_words.actions[act.do].format(**fields)
            yield clause
            if act.place and not act.zone:
                yield self.caption_words.frames["within"].format(sentence=clause, zone=wording._noun(act.place))
            if who:
                yield clause.removeprefix(who).strip()

    def _noun(self, id: str) -> str:
        """What a sentence calls somebody or something, or what stands there for what is not said."""
        return self.said[id.removeprefix("?")] if id.startswith("?") else next(self._names(id), "")

    def _names(self, id: str) -> Iterator[str]:
        """The names of somebody or something: the best, then others, then the id."""
        called = self.fact_cast.people.get(id) or self.fact_cast.devices.get(id)
        if called and self.personal:
            yield called
        if id in self.scene_nouns:
            yield self.scene_nouns[id]
            labels = [one.label for one in self.scene_transcript.video_description.entities.objects if one.object_id == id]
            yield from (label for label in labels if self._alone(label))
        if called:
            yield called
        if id:
            yield id

    def _alone(self, label: str) -> bool:
        """Whether one object alone is called so."""
        return [one.label for one in self.scene_transcript.video_description.entities.objects].count(label) == 1

    def _holders(self) -> set[str]:
        """Those who may hold things."""
        entities = self.scene_transcript.video_description.entities
        return {one.member_id for one in entities.members} | {one.pet_id for one in entities.pets}


def values_in_scene(kind: str, tables: HouseholdTables) -> list[Any]:
    """The values of a kind in the tables, those of the scene first."""
    name = kind.removeprefix("scene:")
    pairs = VALUES.get(name, ())
    found = [row[column] for table, column in pairs for row in tables.rows[table] if row[column] is not None]
    for table, column, attributes in TYPED.get(name, ()):
        found += [row[column] for row in tables.rows[table] if row["attribute"] in attributes]
    if name.startswith("look:"):
        rows = [*tables.rows["scene_looks"], *tables.rows["scene_things"]]
        found += [row["value"] for row in rows if row["attribute"] == name.removeprefix("look:")]
    return found


def values_elsewhere(kind: str) -> list[Any]:
    """The values of a kind that scenes may have, in a fixed order."""
    name = kind.removeprefix("scene:")
    keys = load_stage()
    if name == "sound":
        return list(keys.sounds)
    if name in ("state", "posture"):
        attributes = CHANGING if name == "state" else ("posture",)
        after = [value for action in keys.actions.values() for _, attribute, value in action.sets if attribute in attributes]
        return list(dict.fromkeys([*after, *(keys.before[value] for value in after if value in keys.before)]))
    if not name.startswith("look:"):
        return []
    attribute = name.removeprefix("look:")
    groups = {
        "hair": keys.hair,
        "top": keys.tops,
        "bottom": keys.bottoms,
        "feet": keys.feet,
        "position": keys.positions,
        "finish": keys.finishes,
        "light": tuple(keys.light),
    }
    return list(groups.get(attribute, keys.colours))


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
