"""The speaker, which puts meanings into noun phrases, clauses and sentences in one style.

A noun phrase is for example "the two brightest lights upstairs". Its words are under the keys `noun.*` of each language. A
specific key (`noun.that.light.brightness.above`) takes precedence over a general one (`noun.that.above`).

Invariants:
- A sentence is a pure function of (meaning, home, voice, style, random generator).
- A clause is an imperative that can be joined with others and can follow "when ...".
- Polite phrases belong to the sentence, not to the clause.
- Only a short speaker uses frames under `short.*`, and uses them wherever a key has some.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

from unicode_rbnf import RbnfEngine

from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.meaning import (
    Act,
    AttributeComparison,
    Meaning,
    Target,
    devices_of_kind,
    floors_of,
    is_only_of_kind,
    refuse_shared_device,
    refuse_shared_room,
    spoken_name_of,
)
from homerl.envs.homeenv.maker.home_names import load_lexicon
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.play.words.grammar import Grammar, Style, Voice

Wording = Literal["clear", "colloquial", "noisy", "people"]  # `people`: as Home Assistant's users say it
# Probabilities at temperature 1
SPELLED = 0.15  # a number is written in words
BRANDED = 0.08  # a device is named with its brand
SPECIFIC = 0.5  # a frame for this kind of device or this value is used, if there is one
ALONE = 0.5  # a short speaker leaves out the room of a device, at any temperature
SYMBOL = re.compile(r"[%°℃µ]|(?<![A-Za-z])[A-Za-z]{1,3}$")  # units that are written only after digits
WISHED = {"clear": 0.15, "colloquial": 0.4}  # a wish for the result replaces the request
# Kind -> products that its usual noun does not cover; a home with one of them uses a wider noun.
WIDER = {
    "curtain": ("blind", "roller_blind"),
    "heater": ("ac_gateway",),
    "thermostat": ("radiator_valve",),
    "tv": ("projector",),
    "opener": ("door_opener",),
}
SIDES = {">": "above", ">=": "above", "<": "below", "<=": "below", "==": "is", "!=": "is_not"}


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

    def first_known_key(self, *keys: str) -> str:
        """The first of the keys that the grammar has."""
        return next(key for key in keys if key in self.grammar)

    first = first_known_key  # as plug-ins of November 2026 call it

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
        return self.say(self.first_known_key(f"act.{act.service}", *([f"{usual}.heavy"] if heavy else []), usual), **slots)

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
        """A device by room and name, sometimes with its brand if no other device of the room has it, by its alias alone, or
        by its kind and room if nothing else there is of the kind.

        A short speaker may leave out the room if no other name of the home has a word in common with the device's. Raises
        `UnclearSentence` if another device has the same room and name.
        """
        refuse_shared_device(device, self.home)
        if device.room.id == HOME or self.say_thing_name(device) != device.name:
            return self.say("device.roomless", device=self.say_thing_name(device))
        if self._calls_by_kind(device):
            one = kind_noun(device.spec.category, "one", self)
            return self.say("ambiguous.some_in", one=one, room=self.room(device.room))
        slots = {"room": self.say_thing_name(device.room), "device": device.name}
        if self.short and self.rng.random() < ALONE and _stands_alone(device, self.home):
            return self.say("short.device.alone", device=device.name)
        brand = load_lexicon(self.voice.language).brand_name(device.spec.userdata.brand or "", device.room.name)
        there = [other.spec.userdata.brand for other in self.home.plan.devices if other.room.id == device.room.id]
        alone = there.count(device.spec.userdata.brand) == 1
        if brand and alone and brand not in device.name and not self.short and self.draw_chance(BRANDED):
            return self.say("device.branded", brand=brand, **slots)
        return self.say("device", **slots)

    def _calls_by_kind(self, device: Device) -> bool:
        """Whether the person calls a device by its kind: always so in a task."""
        if not self.voice.by_kind or f"kind.{device.spec.category}.one" not in self.grammar:
            return False
        drawn = random.Random(f"by kind {self.home.clock} {device.did}").random()
        return drawn < self.voice.by_kind and is_only_of_kind(device, self.home)

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

    def list_names(self, word: str) -> list[str]:
        """All that `name` may say."""
        return self.grammar.plain_texts(f"name.{word}") if f"name.{word}" in self.grammar else [word.replace("_", " ")]

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


Slot = str | Room | Target | Meaning | Callable[[Speaker], str]  # what a slot of a frame says; a text says itself


@dataclass(frozen=True)
class FramedMeaning:
    """A grammar frame and what its slots say, in every language."""

    frame: str
    slots: tuple[tuple[str, Slot], ...] = ()

    def words(self, speaker: Speaker) -> str:
        """The filled frame."""
        return speaker.say(self.frame, **{name: _say_slot(said, speaker) for name, said in self.slots})


def frame_meaning(frame: str, **slots: Slot) -> FramedMeaning:
    """A meaning that fills the slots of a grammar frame."""
    return FramedMeaning(frame, tuple(slots.items()))


def _say_slot(said: Slot, speaker: Speaker) -> str:
    match said:
        case str():
            return said
        case Room():
            return speaker.room(said)
        case Target():
            return speaker.say_target(said)
    return said(speaker) if callable(said) else said.words(speaker)


# Noun phrases


def is_heavy_phrase(target: Target) -> bool:
    """Whether the noun phrase is long, so that a verb should not surround it ("turn ... off")."""
    narrowed = target.where or target.rooms_where or target.rank or target.excluding
    return not target.pronoun and ((narrowed is not None and narrowed != ()) or len(target.rooms) > 1)


def noun_phrase(target: Target, speaker: Speaker, placed: bool = True) -> str:
    """The noun phrase of a target by kind; without its place if `placed` is false."""
    kind = target.required_kind
    slots = {number: kind_noun(kind, number, speaker) for number in ("one", "many")}
    slots["each"] = speaker.say(f"kind.{kind}.count", number="")  # only the measure word
    slots["place"] = place_phrase(target, speaker) if placed else ""
    if (rank := target.rank) is not None:
        slots["number"] = speaker.say(f"number.{rank.count}")
        slots["count"] = speaker.say(f"kind.{kind}.count", number=slots["number"])  # with a measure word in Chinese
        slots["name"] = speaker.name(rank.attribute)
        slots["that"] = ""
        if target.where is not None:
            holds = _predicate_forms(kind, target.where, speaker)["is" if rank.count == 1 else "are"]
            slots["that"] = speaker.say("noun.that_clause", holds=holds)
        side, number = "high" if rank.highest else "low", "one" if rank.count == 1 else "many"
        tries = (f"{kind}.{rank.attribute}.{side}", f"{rank.attribute}.{side}", side)
        return speaker.say(speaker.first_known_key(*(f"noun.top.{key}.{number}" for key in tries)), **slots)
    if target.where is None:
        but = "_but" if target.elsewhere or target.excluding else ""
        return speaker.say(f"noun.all{but}" if slots["place"] else "noun.bare", **slots)
    said = _predicate_forms(kind, target.where, speaker)
    return speaker.say("noun.those_but" if target.excluding else "noun.those", **slots, **said)


def kind_noun(kind: str, number: str, speaker: Speaker) -> str:
    """The noun for a kind in this home; `number` is "one" for the singular or "many" for the plural."""
    wide = (f"kind.{kind}.wide.{number}",) if is_wide_kind(speaker.home, kind) else ()
    return speaker.say(speaker.first_known_key(*wide, f"kind.{kind}.{number}"))


def is_wide_kind(home: Home, kind: str) -> bool:
    """Whether the home has a product that the kind's usual noun does not cover."""
    return any(device.spec.name in WIDER.get(kind, ()) for device in devices_of_kind(home, kind))


def join_phrases(items: Sequence[str], speaker: Speaker, family: str = "noun") -> str:
    """The phrases as a list: "the hall, the study and the den". `family` is the family of the frames for comma and "and"."""
    text = items[0]
    for i, item in enumerate(items[1:], 2):
        text = speaker.say(f"{family}.and" if i == len(items) else f"{family}.comma", first=text, second=item)
    return text


def say_rooms(rooms: Sequence[Room], speaker: Speaker, bare: bool = False) -> str:
    """The names of rooms, or a plural such as "the bedrooms" if it denotes exactly these rooms."""
    if type := plural_room_type(rooms, speaker):
        return speaker.say(f"noun.rooms.{type}")
    if len(rooms) == 1 and not bare:
        return speaker.room(rooms[0])
    for room in rooms:
        refuse_shared_room(room, speaker.home)
    return join_phrases([speaker.say("noun.room", room=speaker.say_thing_name(room)) for room in rooms], speaker)


def plural_room_type(rooms: Sequence[Room], speaker: Speaker) -> str | None:
    """The room type whose plural denotes exactly these rooms, or None.

    All rooms of the type must be given, and no other room may have the type's word in its name.
    """
    type = rooms[0].type
    if len(rooms) < 2 or f"noun.rooms.{type}" not in speaker.grammar:
        return None
    mark = speaker.grammar.plain_sentence(f"noun.mark.{type}")
    everywhere = speaker.home.plan.rooms
    typed, marked = {r.id for r in everywhere if r.type == type}, {r.id for r in everywhere if mark in r.name}
    return type if typed == marked == {room.id for room in rooms} else None


def place_phrase(target: Target, speaker: Speaker) -> str:
    """The phrase for the target's place: rooms, floor or home, with exceptions."""
    if target.rooms:
        text = speaker.say("noun.in", rooms=say_rooms(target.rooms, speaker))
    elif target.floor is not None:
        floors = floors_of(speaker.home)
        text = speaker.say(f"noun.floor.{floors.index(target.floor) + 1}.of.{len(floors)}")
    else:
        text = "" if target.rooms_where else speaker.say("noun.home")
    if target.rooms_where is not None:
        kind, comparison = target.rooms_where  # "the air conditioner is on"
        words = {"one": kind_noun(kind, "one", speaker), "name": speaker.name(comparison.attribute)}
        value = speaker.value(comparison.value, comparison.type)
        holds = speaker.say(_comparison_key("noun.holds", kind, comparison, speaker), **words, value=value)
        rooms = speaker.say("noun.rooms_except" if target.elsewhere else "noun.rooms_where", holds=holds)
        text = speaker.say("noun.within", place=text, rooms=rooms)
    if target.excluding:
        text = speaker.say("noun.without", place=text, rooms=say_rooms(target.excluding, speaker, bare=True))
    return text


def _predicate_forms(kind: str, where: AttributeComparison, speaker: Speaker) -> dict[str, str]:
    """The predicate of a comparison in both numbers: "are on" and "is on"."""
    key = _comparison_key("noun.that", kind, where, speaker)
    slots = {"name": speaker.name(where.attribute), "value": speaker.value(where.value, where.type)}
    verbs = {"are": {"be": "are", "have": "have", "s": ""}, "is": {"be": "is", "have": "has", "s": "s"}}
    state = speaker.rng.getstate()
    said = {}
    for number, forms in verbs.items():
        speaker.rng.setstate(state)  # both numbers must draw the same frame
        said[number] = speaker.say(key, **slots, **forms)
    return said


def _comparison_key(key: str, kind: str, comparison: AttributeComparison, speaker: Speaker) -> str:
    """The most specific key of the grammar for a comparison."""
    side, value = SIDES[comparison.operator], str(comparison.value).lower()
    path = f"{comparison.attribute}.{side}"
    return speaker.first_known_key(
        f"{key}.{kind}.{path}.{value}",
        f"{key}.{path}.{value}",
        f"{key}.{kind}.{path}",
        f"{key}.{path}",
        f"{key}.{side}.{value}",
        f"{key}.{side}",
    )


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
