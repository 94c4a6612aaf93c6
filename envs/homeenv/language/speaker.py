"""The speaker, which puts meanings into sentences in one style.

Invariants:
- A sentence is a pure function of (meaning, home, voice, style, random generator).
- A clause is an imperative that can be joined with others and can follow "when ...".
- Polite phrases belong to the sentence, not to the clause.
- Only a short speaker uses frames under `short.*`, and uses them wherever a key has some.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

from unicode_rbnf import RbnfEngine

from homerl.envs.homeenv.language.known_languages import home_grammar
from homerl.envs.homeenv.language.meaning import Act, Target
from homerl.envs.homeenv.language.noun_phrases import (
    is_heavy_phrase,
    join_phrases,
    kind_noun,
    noun_phrase,
    refuse_shared_device,
    refuse_shared_room,
    spoken_name_of,
)
from homerl.envs.homeenv.maker.lexicon import load_lexicon
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.play.words.grammar import Grammar, Style, Voice

Wording = Literal["clear", "colloquial", "noisy"]
# Probabilities at temperature 1
SPELLED = 0.15  # a number is written in words
BRANDED = 0.08  # a device is named with its brand
SPECIFIC = 0.5  # a frame for this kind of device or this value is used, if there is one
ALONE = 0.5  # a short speaker leaves out the room of a device, at any temperature
SYMBOL = re.compile(r"[%°℃µ]|(?<![A-Za-z])[A-Za-z]{1,3}$")  # units that are written only after digits
WISHED = {"clear": 0.15, "colloquial": 0.4}  # a wish for the result replaces the request


@dataclass(frozen=True)
class SpokenPiece:
    """The words for one device or one value in a sentence."""

    text: str
    device: Device | None = None
    value: Any = None
    type: ValueType | None = None


class Speaker:
    """Puts meanings about one home into words, in one style; a `short` speaker leaves out what goes without saying.

    `pieces` collects the devices and values that were mentioned; `noise` uses them.
    """

    def __init__(self, home: Home, voice: Voice, style: Style, rng: random.Random, short: bool = False) -> None:
        self.home, self.voice, self.style, self.rng, self.short = home, voice, style, rng, short
        self.grammar: Grammar = home_grammar(voice.language)
        self.pieces: list[SpokenPiece] = []

    def say(self, key: str, **slots: str) -> str:
        """Draw a frame of the key and fill its slots."""
        if self.short and (brief := f"short.{key}") in self.grammar:
            key = brief
        return self.grammar.draw_sentence(key, slots, self.rng, self.style, self.voice.frames, self.voice.temperature)

    def first(self, *keys: str) -> str:
        """The first of the keys that the grammar has."""
        return next(key for key in keys if key in self.grammar)

    def draw_chance(self, probability: float) -> bool:
        """True with this probability at temperature 1 or above, with less below, and never at temperature 0."""
        return self.rng.random() < probability * min(self.voice.temperature, 1.0)

    def request(self, acts: Sequence[Act]) -> str:
        """A sentence that requests acts. A single short act may become a wish for its result."""
        wish = f"result.{acts[0].service}"
        brief = len(acts) == 1 and not is_heavy_phrase(acts[0].target)
        if brief and not self.short and wish in self.grammar and self.draw_chance(WISHED[self.style]):
            slots = self._act_slots(acts[0])
            return self.say("wish", target=slots["target"], result=self.say(wish, **slots))
        same = groupby(acts, key=lambda act: (act.service, act.value))
        return self.say("request", act=self.join_requests([self._say_clause_of_acts(list(group)) for _, group in same]))

    def act(self, act: Act, target: str | None = None) -> str:
        """One clause, such as "turn off the kitchen light"; `target` replaces the act's own noun phrase."""
        return self._say_clause_of_acts([act], target)

    def _say_clause_of_acts(self, acts: Sequence[Act], said: str | None = None) -> str:
        """One clause for the same service and value on one or several targets."""
        act, slots, usual = acts[0], self._act_slots(acts[0], said), _general_key(acts[0])
        special = [f"act.{act.service}.{str(act.value).lower()}"] if isinstance(act.value, (bool, str)) else []
        if self.short and len(acts) == 1 and said is None:
            keys = (*special, f"act.{act.service}", *([usual] if act.value is not None else []))
            if key := next((key for key in keys if f"short.{key}" in self.grammar), None):
                return self.say(key, **slots)
        if len(acts) > 1:
            phrases = [slots["target"], *(self.say_target(other.target) for other in acts[1:])]
            if len(phrases) == 2:  # with frames such as "both the fan and the lamp"
                slots["target"] = self.say("and", first=phrases[0], second=phrases[1])
            else:
                slots["target"] = join_phrases(phrases, self)
        heavy = any(is_heavy_phrase(a.target) for a in acts)
        if heavy and (long := f"act.{act.service}.heavy") in self.grammar:
            return self.say(long, **slots)  # frames that suit long noun phrases
        targets = [a.target for a in acts if a.target.devices]
        kinds = {target.kind or _part_kind(target.devices[0], target.part) for target in targets}
        special = [*([f"act.{act.service}.{kind}" for kind in kinds] if len(kinds) == 1 else []), *special]
        known = [key for key in special if key in self.grammar]
        if known and self.draw_chance(SPECIFIC):
            return self.say(self.rng.choice(known), **slots)
        return self.say(self.first(f"act.{act.service}", *([f"{usual}.heavy"] if heavy else []), usual), **slots)

    def _act_slots(self, act: Act, said: str | None = None) -> dict[str, str]:
        device = act.target.devices[0] if act.target.devices and act.target.kind is None else None
        slots = {"target": said or self.say_target(act.target), "name": self.name(act.service.removeprefix("set_"), device)}
        if act.value is not None:
            slots["value"] = self.value(act.value, act.type)
        return slots

    def join_requests(self, clauses: Sequence[str]) -> str:
        """The clauses as one request."""
        text = clauses[0]
        for clause in clauses[1:]:
            text = self.say("join", first=text, second=clause)
        return text

    def say_target(self, target: Target) -> str:
        """The noun phrase of a target."""
        if target.pronoun:
            return self.say("them" if target.is_plural else "it")
        if target.kind is not None:
            single = len(target.rooms) == 1 and target.floor is None and not is_heavy_phrase(target)
            if self.short and single and target.is_plural:  # "kitchen lights"
                room, many = self.say_thing_name(target.rooms[0]), kind_noun(target.kind, "many", self)
                return self.say("short.room_kind", room=room, many=many)
            return noun_phrase(target, self)
        (device,) = target.devices
        refuse_shared_device(device, self.home)
        if target.part and len({path.rpartition(".")[0] for path in device.spec.service_index}) > 1:
            owner = self.say("device.owner", room=self.say_thing_name(device.room), device=self.say_thing_name(device))
            text = self.say("part", device=owner, part=self.name(target.part, device))
        else:
            text = self.say_device(device)
        self.pieces.append(SpokenPiece(text, device=device))
        return text

    def say_device(self, device: Device) -> str:
        """A device by room and name, sometimes with its brand if no other device of the room has it, or by its alias alone.

        A short speaker may leave out the room if no other name of the home has a word in common with the device's. Raises
        `UnclearSentence` if another device has the same room and name.
        """
        refuse_shared_device(device, self.home)
        if device.room.id == HOME or self.say_thing_name(device) != device.name:
            return self.say("device.roomless", device=self.say_thing_name(device))
        slots = {"room": self.say_thing_name(device.room), "device": device.name}
        if self.short and self.rng.random() < ALONE and _stands_alone(device, self.home):
            return self.say("short.device.alone", device=device.name)
        brand = load_lexicon(self.voice.language).brand_name(device.spec.userdata.brand or "", device.room.name)
        there = [other.spec.userdata.brand for other in self.home.plan.devices if other.room.id == device.room.id]
        alone = there.count(device.spec.userdata.brand) == 1
        if brand and alone and brand not in device.name and not self.short and self.draw_chance(BRANDED):
            return self.say("device.branded", brand=brand, **slots)
        return self.say("device", **slots)

    def room(self, room: Room) -> str:
        """A room by its name. Raises `UnclearSentence` if another room has it too."""
        refuse_shared_room(room, self.home)
        return self.say("room", room=self.say_thing_name(room))

    def say_thing_name(self, thing: Device | Room) -> str:
        """The name of a device or a room, or its alias if the person calls it so."""
        return spoken_name_of(thing, self.home, self.voice.by_alias)

    def name(self, word: str, device: Device | None = None) -> str:
        """An attribute, service, component or category in words.

        The grammar's words for the device's category take precedence, then its general words, then the identifier itself.
        """
        keys = ([f"name.{device.spec.category}.{word}"] if device else []) + [f"name.{word}"]
        known = [key for key in keys if key in self.grammar]
        return self.say(known[0]) if known else word.replace("_", " ")

    def value(self, value: Any, type: ValueType | None = None) -> str:
        """A value in words: a bool as on or off, an option by its name, a number with its unit."""
        text = self.value_in_words(value, type)
        self.pieces.append(SpokenPiece(text, value=value, type=type))
        return text

    def value_in_words(self, value: Any, type: ValueType | None) -> str:
        """A value in words, as `value` says it. It is not added to `pieces`."""
        if isinstance(value, bool):
            return self.say("value.true" if value else "value.false")
        of = type.name if type is not None else None
        if isinstance(value, str):
            known = [key for key in (f"option.{of}.{value}", f"option.{value}") if key in self.grammar]
            return self.say(known[0]) if known else value.replace("_", " ")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        unit = (type.unit if type is not None else None) or of
        known = [key for key in (f"unit.{unit}.{value}", f"unit.{unit}") if key in self.grammar]
        text = number_in_words(value, self.voice.language) if self.draw_chance(SPELLED) else str(value)
        said = self.say(known[0], value=text) if known else text
        return said.replace(text, str(value)) if SYMBOL.search(said) else said


def _stands_alone(device: Device, home: Home) -> bool:
    """Whether the device's name alone denotes it: no other name of a device or room contains it or is part of it."""
    others = [other.name for other in home.plan.devices if other.did != device.did]
    others += [room.name for room in home.plan.rooms]
    words = set(device.name.lower().split())
    return not any(words & set(name.lower().split()) or device.name in name or name in device.name for name in others)


def _general_key(act: Act) -> str:
    """The key for an act of any service, by the type of its value."""
    if act.value is None:
        return "act._plain"
    return "act._bool" if isinstance(act.value, bool) else "act._enum" if isinstance(act.value, str) else "act._setter"


def _part_kind(device: Device, part: str) -> str:
    """The kind of a component, or the device's category."""
    return dict(device.spec.part_kinds).get(f"{part}." if part else "", device.spec.category)


@lru_cache(maxsize=4096)
def number_in_words(value: float, language: str) -> str:
    """A number in words, as speech recognition writes it."""
    if value < 0:  # the engine drops the fraction of a negative number
        return _engine_words(-1, language).removesuffix(_engine_words(1, language)) + _engine_words(-value, language)
    return _engine_words(value, language)


def _engine_words(value: float, language: str) -> str:
    return RbnfEngine.for_language(language).format_number(value).text.replace("-", " ").replace("〇", "零")
