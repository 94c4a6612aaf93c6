"""Sentences in SimuHome: requests and final answers, made from an episode's goals by the grammar of a language.

Invariants: a sentence is a pure function of (episode, voice, random generator); it names only rooms, devices, numbers
and times of the goals, and nothing of the home's state that an agent should find out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from homerl.envs.simuhome.sim.device_catalogue import all_clusters, all_enumerations
from homerl.envs.simuhome.sim.episode_file import AttributeAssert, EpisodeFile, GoalSpec, TargetDevice, due_time_of
from homerl.envs.simuhome.tasks.languages import simuhome_grammar
from homerl.play.words.grammar import Style
from homerl.play.words.splits import Split, Voice, draw_of_split

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
SCALE = {"temperature": 100, "humidity": 100, "illuminance": 1, "pm10": 1}


@dataclass(frozen=True)
class DeviceReference:
    """A device as people refer to it: room, kind and number."""

    room: str
    kind: str
    number: str

    @classmethod
    def from_target(cls, target: GoalSpec | TargetDevice | dict[str, Any]) -> DeviceReference:
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

    def say_device(self, place: DeviceReference) -> str:
        """A device, with its kind, number and room."""
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
        return self.say_phrase_or(f"attribute.{path}", split_camel_case(path.rpartition(".")[2]))

    def say_value(self, flat: str, value: Any) -> str:
        """The value of an attribute in words, with its unit."""
        path = flat.partition(".")[2]
        if isinstance(value, (list, dict)):
            items = value if isinstance(value, list) else [value]
            return (
                self.join_phrases("and", [item_names(flat, item)[0] for item in items])
                if items
                else self.say_phrase("value.empty")
            )
        if value is None or isinstance(value, bool):
            return self.say_phrase(f"value.{'null' if value is None else str(value).lower()}")
        if f"value.{path}.{value}" in self.grammar:
            return self.say_phrase(f"value.{path}.{value}")
        if path in HUNDREDTHS:
            return self.say_phrase(f"unit.{HUNDREDTHS[path]}", value=plain_number(value / 100))
        if path in PERCENT:
            return self.say_phrase("unit.percent", value=plain_number(value))
        return enum_label(flat, value) or str(value)


def split_camel_case(name: str) -> str:
    """`OnOffTransitionTime` as words: `on off transition time`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def plain_number(value: float) -> str:
    """A number with at most two decimals, without trailing zeros: `21.5`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def enum_label(flat: str, value: Any) -> str | None:
    """The name of a value in the attribute's enumeration, such as `quick wash`, or None."""
    names = dict(zip(_enum_numbers(flat), enum_names(flat)))
    return names.get(value) if isinstance(value, int) else None


def enum_names(flat: str) -> list[str]:
    """The names of all members of an attribute's enumeration; an empty list if it has none."""
    return [one.name.replace("_", " ").lower() for one in _enumeration(flat)]


def _enum_numbers(flat: str) -> list[int]:
    return [int(one) for one in _enumeration(flat)]


def _enumeration(flat: str) -> Iterable[IntEnum]:
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
    return REQUESTS[episode.meta.query_type](episode, speaker)


def _perceive(episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    return speaker.join_phrases("two", [_question(goal, speaker) for goal in episode.eval.goals])


def _question(goal: GoalSpec, speaker: SimuHomeSpeaker) -> str:
    if goal.room_state:
        return speaker.say_phrase(f"ask.{goal.room_state}", room=speaker.say_room(goal.room_id))
    attribute = goal.asked_attribute
    return speaker.say_phrase(
        "ask.attribute", name=speaker.say_attribute(attribute), target=speaker.say_device(DeviceReference.from_target(goal))
    )


def _complain(episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    said = [
        speaker.say_phrase(f"hint.{g.room_state}.{g.direction}", room=speaker.say_room(g.room_id))
        for g in episode.eval.goals
    ]
    return speaker.join_phrases("two", said)


def _command(episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    return speaker.say_phrase("request", act=action_clauses(episode.eval.goals, speaker))


def action_clauses(targets: Iterable[Any], speaker: SimuHomeSpeaker) -> str:
    """What is to be done with several devices, as one text of joined clauses."""
    return speaker.join_phrases("and", [action_clause(target, speaker) for target in targets])


def action_clause(target: Any, speaker: SimuHomeSpeaker) -> str:
    """One clause: what the asserts want of a device."""
    name, value = clause_for_asserts(target.asserts)
    return speaker.say_phrase(f"act.{name}", target=speaker.say_device(DeviceReference.from_target(target)), value=value)


def clause_for_asserts(asserts: Sequence[AttributeAssert]) -> tuple[str, Any]:
    """(name of the clause that expresses the asserts, the number that it mentions)."""
    wanted = {one.attribute.partition(".")[2]: one.value for one in asserts}
    for path, name, scale in CLAUSES:
        if path in wanted:
            cools = wanted.get("Thermostat.SystemMode") == COOLING
            return "cool" if cools else name, plain_number(wanted[path] / scale)
    return ("power" if wanted.get("OnOff.OnOff") else "off"), ""


COOLING = 3
CLAUSES = (
    ("FanControl.PercentSetting", "fan", 1),
    ("LevelControl.CurrentLevel", "level", 1),
    ("WindowCovering.TargetPositionLiftPercent100ths", "closed", 100),
    ("TemperatureControl.TemperatureSetpoint", "degrees", 100),
    ("OperationalState.OperationalState", "run", 1),
    ("MediaPlayback.CurrentState", "play", 1),
    ("Thermostat.SystemMode", "heat", 1),
)


def _later(episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    said = [
        speaker.say_phrase(
            "later", minutes=due_time_of(goal).further_keys["offset_minutes"], act=action_clauses(goal.targets, speaker)
        )
        for goal in episode.eval.goals
    ]
    return _with_conflict(speaker.join_phrases("two", said), episode, speaker)


def _after(episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    (goal,) = episode.eval.goals
    when, anchor = due_time_of(goal).further_keys, speaker.say_device(DeviceReference.from_target(goal.anchor))
    text = speaker.say_phrase(
        when["relation"], minutes=when["offset_minutes"], anchor=anchor, act=action_clauses(goal.targets, speaker)
    )
    return _with_conflict(text, episode, speaker)


def _together(episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    first, second = episode.eval.goals
    names = {
        "target": speaker.say_device(DeviceReference.from_target(first.targets[0])),
        "anchor": speaker.say_device(DeviceReference.from_target(first.anchor)),
    }
    scenario = {"pause_at_anchor_end": "pause", "align_end_with_anchor": "align", "delayed_start": "delay"}
    key = f"together.{scenario[(episode.meta.model_extra or {})['scenario']]}"
    return _with_conflict(
        speaker.say_phrase(key, minutes=due_time_of(second).further_keys["offset_minutes"], **names), episode, speaker
    )


CONFLICT_CLAUSES = {
    "absolute_time_mismatch": "but.start",
    "completion_vs_pause": "but.complete",
    "impossible_early_end": "but.early",
}


def _with_conflict(text: str, episode: EpisodeFile, speaker: SimuHomeSpeaker) -> str:
    """The request with the clause that contradicts it, if the episode has a conflict of times."""
    conflict = episode.temporal_conflict
    if conflict is None:
        return text
    key = CONFLICT_CLAUSES.get(conflict["type"], "at")
    return speaker.say_phrase(key, request=text, time=conflict.get("conflict_time", "")[:5])


REQUESTS: dict[str, Callable[[EpisodeFile, SimuHomeSpeaker], str]] = {
    "qt1": _perceive,
    "qt2": _complain,
    "qt3": _command,
    "qt4-1": _later,
    "qt4-2": _after,
    "qt4-3": _together,
}


def request_wordings(episode: EpisodeFile, voice: Voice, split: Split, count: int, rng: random.Random) -> tuple[str, ...]:
    """Up to `count` different requests of a split. Raises `NoSentence` if the split has none."""
    return tuple(
        dict.fromkeys(
            draw_of_split(lambda: _capitalized(request_text(episode, _any_style(voice, rng))), split) for _ in range(count)
        )
    )


def _any_style(voice: Voice, rng: random.Random) -> SimuHomeSpeaker:
    return SimuHomeSpeaker(voice, rng.choice(("clear", "colloquial")) if voice.temperature else "clear", rng)


def _capitalized(text: str) -> str:
    """A text with its first letter in upper case."""
    return text[0].upper() + text[1:]


def plain_speaker(language: str) -> SimuHomeSpeaker:
    """A speaker that always uses the most usual frames."""
    return SimuHomeSpeaker(Voice(language, 0.0, "any"), "clear", random.Random(0))
