"""States of devices, times, dates, durations and conditions of the home, in words.

An `AttributeState` becomes a clause: "the study lamp was off and its brightness was 40 percent".

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
from homerl.envs.homeenv.language.speaker import Speaker, join_phrases
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

    def say_clause(self, speaker: Speaker, tense: Tense, it: bool = False) -> str:
        """A clause about the attribute. With `it`, the device was just named, so a pronoun may stand for it."""
        index = self.device.spec.attribute_index
        part, _, attribute = self.path.rpartition(".")
        kind, doing = index[self.path][1], f"state.doing.{attribute}"
        named = not it or len({path.rpartition(".")[0] for path in index}) > 1
        slots = {"target": speaker.say_target(Target.of_device(self.device, part)) if named else ""}
        slots["name"] = speaker.name(attribute)
        if attribute == STATE and kind.state_words:
            slots["value"] = speaker.value(kind.word_of_value(self.value), kind)
        elif isinstance(self.value, bool):
            slots["value"] = speaker.say("state.value.true" if self.value else "state.value.false")
        else:
            slots["value"] = speaker.value(self.value, kind)
        slots["doing"] = speaker.say(doing) if doing in speaker.grammar else ""
        manner = "whole" if attribute in WHOLE else "aspect"
        if manner == "aspect" and isinstance(self.value, bool) and doing in speaker.grammar:
            manner = "doing" if self.value else "idle"
        return speaker.say(f"state.{tense}.{manner}" + ("" if named else ".it"), **slots)


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
    return join_phrases(clauses, speaker, "state")


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
    in_hours = minutes >= 60 and minutes % 30 == 0
    count = hours if in_hours else minutes
    counts = {"n": str(count), "word": spell_cardinal(count, speaker.voice.language)}
    if in_hours:
        key = f"when.duration.{'hour' if hours == 1 else 'hours'}{'_half' if minutes % 60 else ''}"
        return speaker.say(key, minutes=str(minutes), **counts)
    return speaker.say(speaker.first_known_key(f"when.duration.minutes.{minutes}", "when.duration.minutes"), **counts)


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
        minute = spell_cardinal(self.minute, language)
        if 0 < self.minute < 10:
            minute = speaker.say("when.minute_below_ten", minute=minute)
        return speaker.say(
            f"when.{'bare' if bare else 'clock'}.{shape}",
            h12=str(h12),
            h24=f"{self.hour:02d}",
            mm=f"{self.minute:02d}",
            hour=spell_cardinal(h12, language),
            next=spell_cardinal(h12 % 12 + 1, language),
            minute=minute,
            ampm=speaker.say("when.am" if self.hour < 12 else "when.pm"),
            part=speaker.say(f"when.part.{self.day_part}"),
        )


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
        slots["weekday"] = speaker.say(f"when.weekday.{self.day.weekday()}")
        month, nth = speaker.say(f"when.month.{self.day.month}"), spell_ordinal(self.day.day, speaker.voice.language)
        slots["date"] = speaker.say("when.date", month=month, n=str(self.day.day), nth=nth)
        ahead = (self.day - self.now.date()).days
        part = "evening" if self.clock.day_part == "night" else self.clock.day_part
        known = {0: f"today.{part}", 1: f"tomorrow.{part}", 2: "overmorrow"}.get(ahead, "weekday")
        by_date = ahead > 6 or (ahead > 0 and speaker.draw_chance(0.15))
        return speaker.say(f"when.once.{'date' if by_date else known}", **slots)


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
            for key in ("weekday", "weekdays"):  # "monday, tuesday and friday"
                slots[key] = join_phrases([speaker.say(f"when.{key}.{day}") for day in self.weekdays], speaker, "when")
            return speaker.say(f"when.every.{known}", **slots)
        part = f"when.every.{self.clock.day_part}"
        return speaker.say(part if part in speaker.grammar and speaker.draw_chance(0.4) else "when.every.day", **slots)


Time = AfterDelay | OnceAt | RecurringAt


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
            unit = speaker.say(speaker.first_known_key(f"when.unit.{self.quantity}", "when.unit"), value=slots["value"])
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
        target = speaker.say_target(Target.of_device(self.device, part))
        return speaker.say(f"{key}.{aspect}", target=target, duration=lasting)


Circumstance = MeasuredCondition | StateCondition


def clear_speaker(speaker: Speaker) -> Speaker:
    """A copy of the speaker that uses the clear style, for clauses after a time."""
    twin = copy(speaker)
    twin.style = "clear"
    return twin
