"""The state of devices in words: "the study lamp was off and its brightness was 40 percent".

Times, dates, durations and conditions of the home, in words.

An automation is triggered by a time (`Once`, `Every`, `After`) or by a condition (`Measured`, `Stands`). A condition is put
into words in one of three aspects: it begins to hold ("it gets warmer than ..."), it holds ("it is warmer than ..."), or it
has held for some time. The frames are under the keys `when.*`.

Invariant: an hour is always given with its part of the day, unless the name of the day implies it ("tonight at ten").
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Literal

from unicode_rbnf import FormatPurpose, RbnfEngine

from homerl.envs.homeenv.language.meaning import Operator, Target
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE

Tense = Literal["is", "was"]
WHOLE = ("state", "work_state")  # attributes that describe the device as a whole


@dataclass(frozen=True)
class AttributeState:
    """The value of one attribute of a device; `path` is dotted."""

    device: Device
    path: str
    value: Any

    @classmethod
    def read_from_home(cls, home: Home, device: Device, path: str) -> AttributeState:
        """The attribute's value in this home."""
        return cls(device, path, home.read_value(device.did, path))

    @property
    def component_name(self) -> str:
        """The component of the attribute, or ""."""
        return self.path.rpartition(".")[0]

    @property
    def spoken_attribute(self) -> str:
        """The attribute's name within its component."""
        return self.path.rpartition(".")[2]

    def say_clause(self, speaker: Speaker, tense: Tense, it: bool = False) -> str:
        """A clause about the attribute. With `it`, the device was just named, so a pronoun may stand for it."""
        parts = {path.rpartition(".")[0] for path in self.device.spec.attribute_index}
        named = not it or len(parts) > 1
        target = speaker.say_target(Target.of_device(self.device, self.component_name)) if named else ""
        key = f"state.{tense}.{self._manner(speaker)}" + ("" if named else ".it")
        doing = f"state.doing.{self.spoken_attribute}"
        return speaker.say(
            key,
            target=target,
            name=speaker.name(self.spoken_attribute),
            value=self._value(speaker),
            doing=speaker.say(doing) if doing in speaker.grammar else "",
        )

    def _value(self, speaker: Speaker) -> str:
        kind = self.device.spec.attribute_index[self.path][1]
        if self.spoken_attribute == STATE and kind.state_words:
            return speaker.value(kind.word_of_value(self.value), kind)
        if isinstance(self.value, bool):
            return speaker.say("state.value.true" if self.value else "state.value.false")
        return speaker.value(self.value, kind)

    def _manner(self, speaker: Speaker) -> str:
        if self.spoken_attribute in WHOLE:
            return "whole"
        if isinstance(self.value, bool) and f"state.doing.{self.spoken_attribute}" in speaker.grammar:
            return "doing" if self.value else "idle"
        return "aspect"


@dataclass(frozen=True)
class AttributeStates:
    """The values of several attributes, grouped by device."""

    standings: tuple[AttributeState, ...]
    tense: Tense = "is"

    def words(self, speaker: Speaker) -> str:
        """The clauses, joined into one sentence."""
        clauses, last = [], None
        for standing in self.standings:
            clauses.append(standing.say_clause(speaker, self.tense, it=standing.device == last))
            last = standing.device
        return join_clauses(speaker, clauses)


def join_clauses(speaker: Speaker, clauses: Sequence[str]) -> str:
    """The clauses as a list: "a, b and c"."""
    *others, last = clauses
    text = others[0] if others else last
    for clause in others[1:]:
        text = speaker.say("state.comma", first=text, second=clause)
    return speaker.say("state.and", first=text, second=last) if others else text


Aspect = Literal["begins", "is", "has_been"]
PARTS = ((5, "small"), (12, "morning"), (13, "midday"), (18, "afternoon"), (22, "evening"), (24, "night"))
OPERATORS: dict[Operator, str] = {">": "above", "<": "below", ">=": "at_least", "<=": "at_most"}
WORKDAYS, WEEKEND = (0, 1, 2, 3, 4), (5, 6)


# Numbers and durations


@lru_cache(maxsize=4096)
def spell_cardinal(number: int, language: str) -> str:
    """A cardinal number in words, in the form used for counting."""
    formatted = RbnfEngine.for_language(language).format_number(number)
    return formatted.text_by_ruleset.get("spellout-cardinal-alternate2", formatted.text)


@lru_cache(maxsize=256)
def spell_ordinal(number: int, language: str) -> str:
    """An ordinal number in words."""
    return RbnfEngine.for_language(language).format_number(number, purpose=FormatPurpose.ORDINAL).text


def duration_in_words(seconds: int, speaker: Speaker) -> str:
    """A duration: "half an hour", "ninety minutes", "an hour and a half"."""
    minutes, hours = seconds // 60, seconds // 3600
    counts = {"n": str(minutes), "word": spell_cardinal(minutes, speaker.voice.language)}
    if minutes >= 60 and minutes % 30 == 0:
        kind = "hour" if hours == 1 else "hours"
        counts = {"n": str(hours), "word": spell_cardinal(hours, speaker.voice.language)}
        return speaker.say(f"when.duration.{kind}{'_half' if minutes % 60 else ''}", minutes=str(minutes), **counts)
    known = f"when.duration.minutes.{minutes}"
    return speaker.say(speaker.first(known, "when.duration.minutes"), **counts)


# Times


@dataclass(frozen=True)
class ClockTime:
    """A time of day, to the minute."""

    hour: int
    minute: int = 0

    @property
    def day_part(self) -> str:
        """The part of the day, such as "morning"."""
        return next(part for end, part in PARTS if self.hour < end)

    def words(self, speaker: Speaker, bare: bool = False) -> str:
        """ "half past seven in the evening", or with `bare` "half past seven"."""
        named = {(12, 0): "noon", (0, 0): "midnight"}.get((self.hour, self.minute))
        if named and not bare:
            return speaker.say(f"when.clock.{named}")
        shape = {0: "sharp", 15: "quarter", 30: "half", 45: "quarter_to"}.get(self.minute, "any")
        h12, language = (self.hour - 1) % 12 + 1, speaker.voice.language
        return speaker.say(
            f"when.{'bare' if bare else 'clock'}.{shape}",
            h12=str(h12),
            h24=f"{self.hour:02d}",
            mm=f"{self.minute:02d}",
            hour=spell_cardinal(h12, language),
            next=spell_cardinal(h12 % 12 + 1, language),
            minute=self._spoken_minute(speaker),
            ampm=speaker.say("when.am" if self.hour < 12 else "when.pm"),
            part=speaker.say(f"when.part.{self.day_part}"),
        )

    def _spoken_minute(self, speaker: Speaker) -> str:
        text = spell_cardinal(self.minute, speaker.voice.language)
        return speaker.say("when.minute_below_ten", minute=text) if 0 < self.minute < 10 else text


@dataclass(frozen=True)
class AfterDelay:
    """A delay from now."""

    seconds: int

    def words(self, speaker: Speaker) -> str:
        """ "in half an hour"."""
        return speaker.say("when.after", duration=duration_in_words(self.seconds, speaker))


@dataclass(frozen=True)
class OnceAt:
    """A time on one future day; `now` is the time of speaking."""

    day: date
    clock: ClockTime
    now: datetime

    def words(self, speaker: Speaker) -> str:
        """ "tomorrow morning at seven", "on june 27 at noon"."""
        slots = {"clock": self.clock.words(speaker), "bare": self.clock.words(speaker, bare=True)}
        slots |= {"weekday": speaker.say(f"when.weekday.{self.day.weekday()}"), "date": date_in_words(self.day, speaker)}
        return speaker.say(f"when.once.{self._day(speaker)}", **slots)

    def _day(self, speaker: Speaker) -> str:
        ahead = (self.day - self.now.date()).days
        part = "evening" if self.clock.day_part == "night" else self.clock.day_part
        if ahead > 6 or (ahead > 0 and speaker.draw_chance(0.15)):
            return "date"
        return {0: f"today.{part}", 1: f"tomorrow.{part}", 2: "overmorrow"}.get(ahead, "weekday")


@dataclass(frozen=True)
class RecurringAt:
    """A recurring time: every day, on some weekdays (0 is Monday), or on one day of each month."""

    clock: ClockTime
    weekdays: tuple[int, ...] = ()
    monthday: int | None = None

    def words(self, speaker: Speaker) -> str:
        """ "on weekdays at seven in the morning"."""
        slots = {"clock": self.clock.words(speaker), "bare": self.clock.words(speaker, bare=True)}
        if self.monthday is not None:
            slots |= {"nth": spell_ordinal(self.monthday, speaker.voice.language), "n": str(self.monthday)}
            return speaker.say("when.every.first" if self.monthday == 1 else "when.every.month", **slots)
        if self.weekdays:
            known = {WORKDAYS: "workdays", WEEKEND: "weekend"}.get(self.weekdays, "days")
            listed = {
                key: _listed([f"when.{key}.{day}" for day in self.weekdays], speaker) for key in ("weekday", "weekdays")
            }
            return speaker.say(f"when.every.{known}", **slots, **listed)
        part = f"when.every.{self.clock.day_part}"
        return speaker.say(part if part in speaker.grammar and speaker.draw_chance(0.4) else "when.every.day", **slots)


Time = AfterDelay | OnceAt | RecurringAt


def date_in_words(day: date, speaker: Speaker) -> str:
    """A date: "june 27"."""
    month = speaker.say(f"when.month.{day.month}")
    return speaker.say("when.date", month=month, n=str(day.day), nth=spell_ordinal(day.day, speaker.voice.language))


def _listed(keys: list[str], speaker: Speaker) -> str:
    """The words of the keys as a list: "monday, tuesday and friday"."""
    *first, last = [speaker.say(key) for key in keys]
    if not first:
        return last
    text = first[0]
    for word in first[1:]:
        text = speaker.say("when.comma", first=text, second=word)
    return speaker.say("when.and", first=text, second=last)


# Circumstances


@dataclass(frozen=True)
class MeasuredCondition:
    """A condition on a measured quantity of a room, of outdoors (`where` is None), or of a device."""

    quantity: str
    operator: Operator
    value: float
    where: Room | Device | None
    part: str = ""

    def words(self, speaker: Speaker, aspect: Aspect, lasting: str = "") -> str:
        """The condition in an aspect; `lasting` is the duration in words for "has_been"."""
        slots = {"value": f"{self.value:g}", "duration": lasting}
        way = f"{OPERATORS[self.operator]}.{aspect}"
        if isinstance(self.where, Device):
            name = speaker.say(f"when.reading.{self.quantity}")
            target = speaker.say_target(Target.of_device(self.where, self.part))
            unit = speaker.say(speaker.first(f"when.unit.{self.quantity}", "when.unit"), value=slots["value"])
            return speaker.say(f"when.reads.{way}", **slots | {"name": name, "target": target, "value": unit})
        place = speaker.say("when.outside") if self.where is None else speaker.say("when.in", room=speaker.room(self.where))
        return speaker.say(f"when.{self.quantity}.{way}", **slots, place=place)


@dataclass(frozen=True)
class StateCondition:
    """A condition that an attribute of a device has a value.

    With `alone`, the device is the only one of its kind in its room, so the room identifies it.
    """

    device: Device
    path: str
    value: Any
    alone: bool = False

    def words(self, speaker: Speaker, aspect: Aspect, lasting: str = "") -> str:
        """The condition in an aspect; `lasting` is the duration in words for "has_been"."""
        part, _, attribute = self.path.rpartition(".")
        key = f"when.{attribute}.{str(self.value).lower()}"
        if self.alone and f"{key}.room.{aspect}" in speaker.grammar and not speaker.draw_chance(0.3):
            place = speaker.say("when.in", room=speaker.room(self.device.room))
            return speaker.say(f"{key}.room.{aspect}", place=place, duration=lasting)
        return speaker.say(
            f"{key}.{aspect}", target=speaker.say_target(Target.of_device(self.device, part)), duration=lasting
        )


Circumstance = MeasuredCondition | StateCondition


def clear_speaker(speaker: Speaker) -> Speaker:
    """A copy of the speaker that uses the clear style, for clauses after a time."""
    twin = copy(speaker)
    twin.style = "clear"
    return twin
