"""The languages of SimuHome, and the sentences in them: requests and final answers, made from an episode's goals.

A language is one file: in `language/`, or `simuhome.yaml` in an added language's folder.

Invariants:
- Every grammar has the keys of the English one; whatever a file lacks raises an error that names it.
- The system message has rules of conduct, and in its last paragraph the user's location and the time. It tells nothing
  else about the home, so that an agent must look.
- A sentence is a pure function of (episode, voice, random generator). It names only rooms, devices, numbers and times of
  the goals, and nothing of the home's state that an agent should find out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.languages import REFERENCE, LanguagePart
from homerl.envs.core.model import Model
from homerl.envs.simuhome.sim.device_catalogue import all_clusters, all_enumerations
from homerl.envs.simuhome.sim.episode_file import AttributeAssert, EpisodeFile, GoalSpec, TargetDevice
from homerl.play.words.grammar import Grammar, GrammarFile, Split, Style, Voice, draw_of_split, refuse_missing_keys
from homerl.play.words.user_manner import load_manner

LANGUAGES = LanguagePart(Path(__file__).parent / "language", "simuhome.yaml")
Patterns = tuple[re.Pattern[str], ...]


class SystemPrompts(Model):
    """What agents are told: two variants of the rules of conduct, and the last paragraph."""

    brief: str
    full: str
    context: str


class WeakSigns(Model):
    """Signs of a reason that count only if a text shows no other, such as `already` and `impossible`."""

    limit: Patterns = ()
    absent: Patterns = ()
    conflict: Patterns = ()


class Signs(Model):
    """How a final answer is recognised: reasons why nothing was done, and the claim that something was (`done`).

    The patterns match text in lower case, with ' as apostrophe.
    """

    absent: Patterns = Field(min_length=1)
    limit: Patterns = Field(min_length=1)
    conflict: Patterns = Field(min_length=1)
    done: Patterns = Field(min_length=1)
    weak: WeakSigns = WeakSigns()


class LanguageFile(GrammarFile):
    """The file of one language. `example` is the request that model cards show."""

    prompts: SystemPrompts
    example: str
    signs: Signs


@lru_cache
def language_file(language: str) -> LanguageFile:
    """The file of a language. Raises `InputError` if there is none."""
    return validate_document(LanguageFile, read_yaml(LANGUAGES.find_path(language)))


@lru_cache
def simuhome_grammar(language: str) -> Grammar:
    """The grammar of a language: its words and frames. Raises `InputError` if it lacks keys of the English grammar."""
    path = LANGUAGES.find_path(language)
    known = Grammar(language, [read_yaml(path)], LanguageFile, ours=LANGUAGES.is_shipped(language))
    if language != REFERENCE:
        refuse_missing_keys(known, simuhome_grammar(REFERENCE), str(path))
    return known


def check_simuhome_language(language: str) -> None:
    """Raise `InputError` if a language is not known, or for what it lacks."""
    simuhome_grammar(language)
    load_manner(language)


@lru_cache
def all_grammars() -> tuple[Grammar, ...]:
    """The grammars of all languages."""
    return tuple(map(simuhome_grammar, LANGUAGES.paths_by_language()))


def reasons_in(text: str) -> set[str]:
    """The reasons that a text gives, in any language: `absent`, `limit`, `conflict`.

    Weak signs count only if there are no others. If several are shown, the first of `WeakSigns` gives the reason: "it is
    already cooling, so that is not possible" says `limit`.
    """
    weak = (name for name in WeakSigns.model_fields if shows_sign(name, text, weak=True))
    return {name for name in WeakSigns.model_fields if shows_sign(name, text)} or set(islice(weak, 1))


def shows_sign(sign: str, text: str, weak: bool = False) -> bool:
    """Whether a text shows a sign, such as `absent`, in any language; with `weak`, a weak sign."""
    text = fold_for_patterns(text)
    return any(pattern.search(text) for pattern in _sign_patterns(sign, weak))


@lru_cache
def _sign_patterns(sign: str, weak: bool) -> list[re.Pattern[str]]:
    files = map(language_file, LANGUAGES.paths_by_language())
    return [pattern for file in files for pattern in getattr(file.signs.weak if weak else file.signs, sign)]


def fold_for_patterns(text: str) -> str:
    """A text in the form that patterns match: in lower case, with ' as apostrophe."""
    return text.lower().replace("’", "'")


def system_message(style: str, language: str, location: str, now: str) -> str:
    """The system message. `style` is `brief` or `full`, and `now` is the virtual time as text."""
    told = language_file(language).prompts
    return f"{getattr(told, style)}\n\n{told.context.format(location=location, now=now)}"


HUNDREDTHS = {  # attributes in hundredths of the unit in which people speak of them
    "TemperatureControl.TemperatureSetpoint": "degrees",
    "TemperatureMeasurement.MeasuredValue": "degrees",
    "Thermostat.LocalTemperature": "degrees",
    "Thermostat.OccupiedCoolingSetpoint": "degrees",
    "Thermostat.OccupiedHeatingSetpoint": "degrees",
    "RelativeHumidityMeasurement.MeasuredValue": "percent",
    "WindowCovering.TargetPositionLiftPercent100ths": "percent",
    "WindowCovering.CurrentPositionLiftPercent100ths": "percent",
}
PERCENT = ("FanControl.PercentSetting", "FanControl.PercentCurrent")
Target = GoalSpec | TargetDevice | dict[str, Any]  # what names a device; an anchor is a dict
SCALE = {"temperature": 100, "humidity": 100, "illuminance": 1, "pm10": 1}


@dataclass(frozen=True)
class DeviceReference:
    """A device as people refer to it: room, kind and number."""

    room: str
    kind: str
    number: str

    @classmethod
    def from_target(cls, target: Target) -> DeviceReference:
        """The reference to the device of a goal, target or anchor. In released files the ids end in the device's number."""
        named = target if isinstance(target, dict) else dict(target)
        return cls(named["room_id"], named["device_type"], named["device_id"].rpartition("_")[2] or "1")


class SimuHomeSpeaker:
    """Says sentences in one voice and one style."""

    def __init__(self, voice: Voice, style: Style, rng: random.Random) -> None:
        self.voice, self.style, self.rng = voice, style, rng
        self.grammar = simuhome_grammar(voice.language)

    def say_phrase(self, key: str, **slots: Any) -> str:
        """A sentence for a grammar key, with values for its slots."""
        given = {name: str(value) for name, value in slots.items()}
        return self.grammar.draw_sentence(key, given, self.rng, self.style, self.voice.frames, self.voice.temperature)

    def say_phrase_or(self, key: str, otherwise: str) -> str:
        """A sentence for a grammar key, or `otherwise` if the grammar does not have it."""
        return self.say_phrase(key) if key in self.grammar else otherwise

    def say_room(self, room: str) -> str:
        """The name of a room."""
        return self.say_phrase_or(f"room.{room}", room.replace("_", " "))

    def say_kind(self, kind: str) -> str:
        """The name of a kind of device."""
        return self.say_phrase_or(f"kind.{kind}", kind.replace("_", " "))

    def say_device(self, target: Target) -> str:
        """The device of a goal, target or anchor, with its kind, number and room."""
        place = DeviceReference.from_target(target)
        return self.say_phrase("device", kind=self.say_kind(place.kind), number=place.number, room=self.say_room(place.room))

    def join_phrases(self, key: str, parts: Sequence[str]) -> str:
        """The parts joined from left to right by a grammar key with the slots `first` and `second`."""
        text = parts[0]
        for part in parts[1:]:
            text = self.say_phrase(key, first=text, second=part)
        return text

    def say_attribute(self, flat: str) -> str:
        """The name of an attribute, given by flat key."""
        path = flat.partition(".")[2]
        # A name that the grammar lacks is split into its words: `OnOffTransitionTime`, on off transition time.
        return self.say_phrase_or(f"attribute.{path}", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", path.rpartition(".")[2]).lower())

    def say_value(self, flat: str, value: Any) -> str:
        """The value of an attribute in words, with its unit."""
        path = flat.partition(".")[2]
        if isinstance(value, (list, dict)):
            items = value if isinstance(value, list) else [value]
            names = [item_names(flat, item)[0] for item in items]
            return self.join_phrases("and", names) if names else self.say_phrase("value.empty")
        if value is None or isinstance(value, bool):
            return self.say_phrase(f"value.{'null' if value is None else str(value).lower()}")
        if f"value.{path}.{value}" in self.grammar:
            return self.say_phrase(f"value.{path}.{value}")
        if path in HUNDREDTHS:
            return self.say_phrase(f"unit.{HUNDREDTHS[path]}", value=plain_number(value / 100))
        if path in PERCENT:
            return self.say_phrase("unit.percent", value=plain_number(value))
        return enum_label(flat, value) or str(value)


def plain_number(value: float) -> str:
    """A number with at most two decimals, without trailing zeros: `21.5`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def enum_label(flat: str, value: Any) -> str | None:
    """The name of a value in the attribute's enumeration, such as `quick wash`, or None."""
    names = dict(zip(map(int, _enumeration_of(flat)), enum_names(flat)))
    return names.get(value) if isinstance(value, int) else None


def enum_names(flat: str) -> list[str]:
    """The names of all members of an attribute's enumeration; an empty list if it has none."""
    return [one.name.replace("_", " ").lower() for one in _enumeration_of(flat)]


def _enumeration_of(flat: str) -> Iterable[IntEnum]:
    _, cluster, attribute = flat.split(".", 2)
    enum = all_clusters()[cluster].enums.get(attribute) if cluster in all_clusters() else None
    return all_enumerations()[enum] if enum else ()


ITEM_NAMES = ("Name", "Label", "label", "Identifier")  # members of structures that name them


def item_names(flat: str, item: Any) -> tuple[str, ...]:
    """The ways to name an item of a list or a structure: its own name, or a number by its label and as it is."""
    if isinstance(item, dict):
        named = tuple(str(item[key]) for key in ITEM_NAMES if item.get(key))
        return named or (", ".join(str(part) for part in item.values() if not isinstance(part, (list, dict))),)
    label = enum_label(flat, item)
    ways = (*((label,) if label else ()), str(int(item) if isinstance(item, IntEnum) else item))
    return ways[::-1] if label == "none" else ways  # in a list of names "none" would say that there are no others


# Requests


def request_text(episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    """The user's request for an episode."""
    goals, say = episode.eval.goals, speaker.say_phrase
    match episode.meta.query_type:
        case "qt1":
            return speaker.join_phrases("two", [_question_text(goal, speaker) for goal in goals])
        case "qt2":
            hints = [say(f"hint.{goal.room_state}.{goal.direction}", room=speaker.say_room(goal.room_id)) for goal in goals]
            return speaker.join_phrases("two", hints)
        case "qt3":
            return say("request", act=_action_clauses(goals, speaker))
        case "qt4-1":
            clauses = []
            for goal in goals:
                minutes = goal.due_time.further_keys["offset_minutes"]
                clauses.append(say("later", minutes=minutes, act=_action_clauses(goal.targets, speaker)))
            text = speaker.join_phrases("two", clauses)
        case "qt4-2":
            (goal,) = goals
            when, anchor = goal.due_time.further_keys, speaker.say_device(goal.anchor)
            act = _action_clauses(goal.targets, speaker)
            text = say(when["relation"], minutes=when["offset_minutes"], anchor=anchor, act=act)
        case "qt4-3":
            first, second = goals
            target, anchor = speaker.say_device(first.targets[0]), speaker.say_device(first.anchor)
            scenario = {"pause_at_anchor_end": "pause", "align_end_with_anchor": "align", "delayed_start": "delay"}
            key = f"together.{scenario[episode.meta.further_keys['scenario']]}"
            text = say(key, minutes=second.due_time.further_keys["offset_minutes"], target=target, anchor=anchor)
    if (conflict := episode.temporal_conflict) is None:
        return text
    # An infeasible request goes on with a clause that contradicts it.
    key = CONFLICT_CLAUSES.get(conflict["type"], "at")
    return say(key, request=text, time=conflict.get("conflict_time", "")[:5])


CONFLICT_CLAUSES = {
    "absolute_time_mismatch": "but.start",
    "completion_vs_pause": "but.complete",
    "impossible_early_end": "but.early",
}


def _question_text(goal: GoalSpec, speaker: SimuHomeSpeaker) -> str:
    if goal.room_state:
        return speaker.say_phrase(f"ask.{goal.room_state}", room=speaker.say_room(goal.room_id))
    name, target = speaker.say_attribute(goal.asked_attribute), speaker.say_device(goal)
    return speaker.say_phrase("ask.attribute", name=name, target=target)


def _action_clauses(targets: Iterable[GoalSpec | TargetDevice], speaker: SimuHomeSpeaker) -> str:
    """What the asserts want of several devices, as one text of joined clauses."""
    clauses = []
    for target in targets:
        name, value = _clause_for_asserts(target.asserts)
        clauses.append(speaker.say_phrase(f"act.{name}", target=speaker.say_device(target), value=value))
    return speaker.join_phrases("and", clauses)


def _clause_for_asserts(asserts: Sequence[AttributeAssert]) -> tuple[str, str]:
    """(name of the clause that expresses the asserts, the number that it mentions)."""
    wanted = {one.attribute.partition(".")[2]: one.value for one in asserts}
    for path, name, scale in CLAUSES:
        if path in wanted:
            cools = wanted.get("Thermostat.SystemMode") == COOLING
            return "cool" if cools else name, plain_number(wanted[path] / scale)
    return ("power" if wanted.get("OnOff.OnOff") else "off"), ""


COOLING = 3
CLAUSES = (  # (attribute that decides the clause, the clause's name, divisor from the stored unit)
    ("FanControl.PercentSetting", "fan", 1),
    ("LevelControl.CurrentLevel", "level", 1),
    ("WindowCovering.TargetPositionLiftPercent100ths", "closed", 100),
    ("TemperatureControl.TemperatureSetpoint", "degrees", 100),
    ("OperationalState.OperationalState", "run", 1),
    ("MediaPlayback.CurrentState", "play", 1),
    ("Thermostat.SystemMode", "heat", 1),
)


def request_wordings(episode: EpisodeFile, voice: Voice, split: Split, count: int, rng: random.Random) -> tuple[str, ...]:
    """Up to `count` different requests of a split. Raises `NoSentence` if the split has none."""

    def draw_request() -> str:
        style: Style = rng.choice(("clear", "colloquial")) if voice.temperature else "clear"
        text = request_text(episode, SimuHomeSpeaker(voice, style, rng))
        return text[0].upper() + text[1:]

    return tuple(dict.fromkeys(draw_of_split(draw_request, split) for _ in range(count)))


def plain_speaker(language: str) -> SimuHomeSpeaker:
    """A speaker that always uses the most usual frames."""
    return SimuHomeSpeaker(Voice(language, 0.0, "any"), "clear", random.Random(0))
