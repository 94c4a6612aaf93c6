"""Makes questions about a household: a program that has one answer, its words, its distractors and its counterfactuals.

What is in the present scene is called as the captions of its transcript call it. Kinds of such things begin with `scene:`:
`actor`, `thing`, `spot` (where a thing is: at something, or with somebody), `zone`, `sound`, `state`, `posture`, `act`, and
`look:<attribute>`.

Invariants:
- Everything is a pure function of household, language and random generator.
- No question states its answer. One that names ids and one that names people have the same answer.
- What a caption calls something is among its texts.
- The four wrong choices are of the type of the right one, differ from each other, and give no variant of the right answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_args

from homerl.envs.core.documents import read_yaml
from homerl.envs.personalhome.sim.household import Animal, Household
from homerl.envs.personalhome.sim.scene.scene_scripts import CaptionWords, load_caption_words
from homerl.envs.personalhome.sim.scene.script_player import GONE
from homerl.envs.personalhome.sim.scene.transcript import Entities
from homerl.envs.personalhome.sim.scene.transcript_writer import GROUPS, transcript_nouns
from homerl.envs.personalhome.sim.vocabulary import (
    FactCast,
    FactWords,
    Vocabulary,
    household_cast,
    load_fact_words,
    load_vocabulary,
)
from homerl.envs.personalhome.tasks.blueprint import Difficulty
from homerl.envs.personalhome.tasks.questions.counterfactual_edits import (
    Counterfactual,
    FactorEdit,
    find_counterfactual_pair,
)
from homerl.envs.personalhome.tasks.questions.families import (
    QuestionCandidate,
    Slots,
    key_group,
    object_kind,
    question_candidates,
)
from homerl.envs.personalhome.tasks.questions.question_programs import (
    SCENE,
    HouseholdTables,
    NoAnswer,
    SceneAct,
    make_household_tables,
    program_difficulty,
    run_settled,
    values_elsewhere,
    values_in_scene,
)
from homerl.envs.personalhome.tasks.text_normal_form import normal_form

HAVE_IDS = ("person", "appliance", "sensor", "room")  # kinds of what a question may call by its id
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
        return tuple(dict.fromkeys(self._value_texts(kind, value)))

    def say_slot(self, kind: str, value: Any) -> str:
        """The words for a thing in a sentence."""
        return str(value) if kind in HAVE_IDS and not self.personal else next(self._value_texts(kind, value))

    def _value_texts(self, kind: str, value: Any) -> Iterator[str]:
        """The words for a value of a kind, the best first."""
        if kind.startswith(SCENE):
            yield from self._scene_texts(kind.removeprefix(SCENE), value)
        elif kind == "person":
            yield from (self.fact_cast.people[value], value)
        elif kind in ("appliance", "sensor"):
            yield from (self.fact_cast.devices[value], value)
        elif kind == "room":
            room = self.fact_cast.rooms[value]
            yield from (room.name, self.fact_words.place_name(room), self.fact_words.place_phrase(room), value)
        elif kind == "date":
            yield from (self._date_text(value), value.isoformat())
        elif kind == "moment":
            yield f"{value:%H:%M}, {self._date_text(value)}"
        elif kind == "attribute":
            yield value.replace("_", " ").replace(".", " ")
        elif kind == "weather":
            side, quantity = value
            yield self.phrases["weather"][side][quantity]
        elif isinstance(value, int | float):
            yield from self._number_texts(kind, value)
        else:
            yield value if kind == "pet" else self.fact_words.key_word(key_group(kind), value)

    def _number_texts(self, kind: str, value: float) -> tuple[str, ...]:
        """A number without and with its unit. `number:` begins kinds that name the unit."""
        number = _number_text(value)
        if kind in COUNTS:
            return number, self.phrases[kind].format(n=number)
        if kind == "share":
            return number, f"{100 * value:g} %"
        unit = kind.removeprefix("number:")
        if unit in self.fact_words.units:
            return self.fact_words.quantity_text(value, unit), number
        return (number,) if unit == kind else (number, f"{number} {unit.replace('_', ' ')}")

    def _slot_words(self, slots: Slots) -> dict[str, str]:
        """The words of a frame's fields. What somebody did has a form after "did" and one after a subject."""
        texts: dict[str, str] = {}
        for name, (kind, value) in slots.items():
            if kind != "deed":
                texts[name] = self.say_slot(kind, value)
                continue
            deed, prefix = value, "" if name == "deed" else "other_"
            forms = self.phrases["deeds"][deed.kind]
            if deed.object is None:
                texts |= {f"{prefix}do": forms["do_any"], f"{prefix}done": forms["done_any"]}
            else:
                object = self.say_slot(object_kind(deed.kind), deed.object)
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


WRONG = 4
NEAR_NUMBERS = (1, 2, 3)  # gaps between numbers
NEAR_DAYS = (1, 2, 7, 14)  # gaps between dates
COLUMNS = {  # kind of answer -> the (table, column) pairs whose values are of this kind
    "person": (("members", "who"),),
    "years": (("members", "age"), ("pets", "age")),
    "occupations": (("members", "occupation"),),
    "hobbies": (("hobbies", "hobby"),),
    "animals": (("pets", "animal"),),
    "room": (("appliances", "room"), ("sensors", "room")),
    "appliance": (("appliances", "appliance"),),
    "date": (("memories", "date"), ("life", "date")),
}


@dataclass(frozen=True)
class HouseholdQuestion:
    """A question with its answer. `evidence` are the ids of the rows that its program reads in `tables`, in order."""

    candidate: QuestionCandidate
    difficulty: Difficulty
    answer: Any
    evidence: tuple[str, ...]
    tables: HouseholdTables


def draw_questions(
    household: Household, rng: random.Random, families: Sequence[str] | None = None
) -> Iterator[HouseholdQuestion]:
    """Questions in random order, a family at a time, so that frequent candidates do not crowd out rare ones."""
    tables = make_household_tables(household)
    by_family: dict[str, list[QuestionCandidate]] = {}
    for candidate in question_candidates(tables):
        if families is None or candidate.family in families:
            # The weather has a family for each of its nine quantities, which count as one.
            group = "weather" if candidate.family.startswith("weather_") else candidate.family
            by_family.setdefault(group, []).append(candidate)
    while by_family:
        name = rng.choice(list(by_family))
        chosen = by_family[name].pop(rng.randrange(len(by_family[name])))
        if not by_family[name]:
            del by_family[name]
        if (question := answer_candidate(chosen, tables)) is not None:
            yield question


def answer_candidate(candidate: QuestionCandidate, tables: HouseholdTables) -> HouseholdQuestion | None:
    """The question of a candidate; None if it has no single answer or too many steps.

    Questions are about memories. If what else agents see would change the answer, there is no question: the last day's
    events, a companion's deeds, or that who cooks uses an appliance.
    """
    try:
        found = run_settled(candidate.program, tables)
    except NoAnswer:
        return None
    level = program_difficulty(candidate.program)
    return HouseholdQuestion(candidate, level, found.value, tuple(sorted(found.evidence)), tables) if level else None


def is_answer_stated(text: str, variants: Sequence[str]) -> bool:
    """Whether a question or an assumption gives an answer away."""
    said = f" {normal_form(text)} "
    return any(f" {normal_form(variant)} " in said or (not variant.isascii() and variant in text) for variant in variants)


def draw_counterfactuals(
    question: HouseholdQuestion, wording: QuestionWording, rng: random.Random
) -> tuple[Counterfactual, Counterfactual] | None:
    """Two counterfactuals in random order, one of which changes the answer; None if there are none."""

    def say(edit: FactorEdit, answer: Any) -> tuple[str, bool]:
        text = wording.assumption_text(edit, rng)
        return text, is_answer_stated(text, wording.answer_texts(question.candidate.answer, answer))

    pair = find_counterfactual_pair(question.candidate.program, question.tables, say, rng)
    if pair is None:
        return None
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def draw_distractors(question: HouseholdQuestion, wording: QuestionWording, rng: random.Random) -> list[str] | None:
    """Four wrong answers of the type of the right one; None if there are not so many.

    Values of this household come first, then values near the right one, or other keys of its group.
    """
    kind, right = question.candidate.answer, question.answer
    taken = {normal_form(text) for text in wording.answer_texts(kind, right)}
    found: list[str] = []
    for pool in (_values_in_household(kind, question.tables), _values_nearby(kind, right, rng)):
        pool = list(dict.fromkeys(pool))
        rng.shuffle(pool)
        for value in pool:
            text = wording.answer_texts(kind, value)[0]
            if len(found) < WRONG and normal_form(text) not in taken:
                taken.add(normal_form(text))
                found.append(text)
    return found if len(found) == WRONG else None


def _draw_steps(gaps: Sequence[int], below: int, rng: random.Random, above: int = WRONG) -> list[int]:
    """Steps from a value to four others: first how many of them lie below it is drawn, then how far apart they are."""
    under = rng.randint(max(0, WRONG - above), min(WRONG, below))
    # Near 0 there is no room for wide gaps.
    gap = rng.choice(gaps) if below >= WRONG * max(gaps) and above >= WRONG else 1
    return [gap * step for step in range(-under, WRONG - under + 1) if step]


def _values_in_household(kind: str, tables: HouseholdTables) -> list[Any]:
    if kind.startswith(SCENE):
        return values_in_scene(kind, tables)
    if kind.startswith("what:"):
        deed = kind.removeprefix("what:")
        return [row["what"] for row in tables.rows["memories"] if row["kind"] == deed and row["what"]]
    return [row[column] for table, column in COLUMNS.get(kind, ()) for row in tables.rows[table] if row[column] is not None]


def _values_nearby(kind: str, right: Any, rng: random.Random) -> list[Any]:
    """Values that might be right but are not in the household.

    Of numbers and dates as many as are asked for, and the right one has any place among them.
    """
    if isinstance(right, date):
        return [right + timedelta(days=days) for days in _draw_steps(NEAR_DAYS, WRONG * max(NEAR_DAYS), rng)]
    if isinstance(right, int | float):
        share = kind == "share" or (isinstance(right, float) and 0 <= right < 1)
        scale = 0.1 if share else 1
        below = WRONG if right < 0 else int(round(right / scale, 6))  # how many lie below, down to 0
        above = int(round((1 - right) / scale, 6)) if share else WRONG
        return [round(right + step * scale, 2) for step in _draw_steps(NEAR_NUMBERS, below, rng, above)]
    if kind.startswith(SCENE):
        return values_elsewhere(kind)
    group = key_group(kind)
    if kind == "animals":
        return list(get_args(Animal))
    return list(load_vocabulary().group_keys(group)) if group in Vocabulary.model_fields else []
