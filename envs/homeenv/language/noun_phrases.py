"""Names and noun phrases: how people call things of a home, and which devices a phrase denotes.

In people's own homes two things may share a name; in a made home no two do. A phrase for devices of a kind is for example
"the two brightest lights upstairs".

A device is of a kind if one of its components is (`spec.kinds`): a fan with a lamp is a fan and a light. The words are
under the keys `noun.*` of each language. A specific key (`noun.that.light.brightness.above`) takes precedence over a
general one (`noun.that.above`).

Invariants:
- No sentence refers to a thing by a name or alias that another thing has too.
- In a task, a thing is always called the same.
- `denoted_devices` uses the meaning of the words alone, never `Target.devices`. If the words are ambiguous (equal values at
  the cut of a rank), it returns no device.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from typing import Any

from homerl.envs.homeenv.language.meaning import AttributeComparison, Sayer, Target
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.expressions import COMPARISONS
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE, value_means_word
from homerl.play.words.grammar import UnclearSentence


def refuse_shared_room(room: Room, home: Home) -> None:
    """Raise `UnclearSentence` if another room has the same name."""
    name = room.name.casefold()
    if any(other.name.casefold() == name and other.id != room.id for other in home.plan.rooms):
        raise UnclearSentence


def refuse_shared_device(device: Device, home: Home) -> None:
    """Raise `UnclearSentence` if another device, in this room or in one of the same name, has the same name.

    Of a device in no room, people say the name alone, so nothing else may have it, no room either.
    """
    name, room = device.name.casefold(), device.room.name.casefold()
    if device.room.id == HOME and any(other.name.casefold() == name for other in home.plan.rooms):
        raise UnclearSentence
    alike = (other for other in home.plan.devices if other.name.casefold() == name and other.did != device.did)
    if any(device.room.id == HOME or other.room.name.casefold() == room for other in alike):
        raise UnclearSentence


def spoken_name_of(thing: Device | Room, home: Home, by_alias: float) -> str:
    """What people call a device or a room: its name or, for a share of the things of a task, an alias of its own."""
    if not by_alias or not (aliases := aliases_of(thing, home)):
        return thing.name
    rng = random.Random(f"called {home.clock} {_thing_key(thing)}")  # homes of other tasks have other clocks
    things: tuple[Device | Room, ...] = (*home.plan.rooms, *home.plan.devices)
    others = [one for one in things if _thing_key(one) != _thing_key(thing)]
    taken = {name.casefold() for one in others for name in (one.name, *aliases_of(one, home))}
    free = [alias for alias in aliases if alias.casefold() not in taken]
    return rng.choice(free) if free and rng.random() < by_alias else thing.name


def aliases_of(thing: Device | Room, home: Home) -> tuple[str, ...]:
    """The further names of a device or a room."""
    if (origin := home.plan.origin) is None:
        return ()
    return origin.rooms.get(thing.id, ()) if isinstance(thing, Room) else origin.link_of_device(thing.did).aliases


def _thing_key(thing: Device | Room) -> tuple[str, str]:
    return ("room", thing.id) if isinstance(thing, Room) else ("device", thing.did)


OPERATORS = {  # as in conditions: null is neither less nor greater than anything
    "==": COMPARISONS[ast.Eq],
    "!=": COMPARISONS[ast.NotEq],
    "<": COMPARISONS[ast.Lt],
    "<=": COMPARISONS[ast.LtE],
    ">": COMPARISONS[ast.Gt],
    ">=": COMPARISONS[ast.GtE],
}
BROADER = {"fan": ("fan", "ceiling_fan")}  # nouns that cover several kinds
# Kind -> products that its usual noun does not cover; a home with one of them uses a wider noun.
WIDER = {
    "curtain": ("blind", "roller_blind"),
    "heater": ("ac_gateway",),
    "thermostat": ("radiator_valve",),
    "tv": ("projector",),
    "opener": ("door_opener",),
}
SIDES = {">": "above", ">=": "above", "<": "below", "<=": "below", "==": "is", "!=": "is_not"}


# What is meant


def parts_of_kind(device: Device, kind: str) -> list[str]:
    """The path prefixes of the device's components of this kind, such as "light."; "" is the device itself."""
    return [prefix for prefix, own_kind in device.spec.part_kinds if own_kind in BROADER.get(kind, (kind,))]


def devices_of_kind(home: Home, kind: str) -> list[Device]:
    """The devices that have a component of this kind."""
    return [device for device in home.plan.devices if parts_of_kind(device, kind)]


def attribute_values_of(home: Home, device: Device, kind: str, attribute: str) -> list[Any]:
    """The attribute's values in the device's components of this kind, without null."""
    paths = (prefix + attribute for prefix in parts_of_kind(device, kind))
    values = (home.read_value(device.did, path) for path in paths if path in device.spec.attribute_index)
    return [value for value in values if value is not None]


def is_comparison_met(home: Home, device: Device, kind: str, comparison: AttributeComparison) -> bool:
    """Whether the comparison holds for a component of this kind."""
    return any(is_met_by_value(value, comparison) for value in attribute_values_of(home, device, kind, comparison.attribute))


def is_met_by_value(value: Any, comparison: AttributeComparison) -> bool:
    """Whether a comparison holds for a value. A state is compared by what it says, however it is spelled."""
    if comparison.attribute == STATE and comparison.operator == "==":
        return value_means_word(value, comparison.value)
    return OPERATORS[comparison.operator](value, comparison.value)


def denoted_devices(target: Target, home: Home) -> tuple[Device, ...]:
    """The devices that the target's words denote, in the home's order."""
    if target.kind is None:
        return target.devices
    matching = [device for device in devices_of_kind(home, target.kind) if is_room_in_place(target, device.room, home)]
    if target.where is not None:
        matching = [device for device in matching if is_comparison_met(home, device, target.kind, target.where)]
    if (rank := target.rank) is None:
        return tuple(matching)
    values = {d.did: max(attribute_values_of(home, d, target.kind, rank.attribute), default=None) for d in matching}
    ranked = sorted((value for value in values.values() if value is not None), reverse=rank.highest)
    if len(ranked) <= rank.count or ranked[rank.count - 1] == ranked[rank.count]:
        return ()
    return tuple(device for device in matching if values[device.did] in ranked[: rank.count])


def is_room_in_place(target: Target, room: Room, home: Home) -> bool:
    """Whether the target's place includes this room."""
    if room in target.excluding or (target.rooms and room not in target.rooms):
        return False
    if target.floor is not None and room.floor != target.floor:
        return False
    if target.rooms_where is None:
        return True
    kind, comparison = target.rooms_where
    here = [device for device in devices_of_kind(home, kind) if device.room == room]
    return any(is_comparison_met(home, device, kind, comparison) for device in here) != target.elsewhere


# How it is said


def is_heavy_phrase(target: Target) -> bool:
    """Whether the noun phrase is long, so that a verb should not surround it ("turn ... off")."""
    narrowed = target.where or target.rooms_where or target.rank or target.excluding
    return not target.pronoun and ((narrowed is not None and narrowed != ()) or len(target.rooms) > 1)


def noun_phrase(target: Target, speaker: Sayer, placed: bool = True) -> str:
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
        return speaker.say(speaker.first(*(f"noun.top.{key}.{number}" for key in tries)), **slots)
    if target.where is None:
        but = "_but" if target.elsewhere or target.excluding else ""
        return speaker.say(f"noun.all{but}" if slots["place"] else "noun.bare", **slots)
    said = _predicate_forms(kind, target.where, speaker)
    return speaker.say("noun.those_but" if target.excluding else "noun.those", **slots, **said)


def kind_noun(kind: str, number: str, speaker: Sayer) -> str:
    """The noun for a kind in this home; `number` is "one" for the singular or "many" for the plural."""
    wide = (f"kind.{kind}.wide.{number}",) if is_wide_kind(speaker.home, kind) else ()
    return speaker.say(speaker.first(*wide, f"kind.{kind}.{number}"))


def is_wide_kind(home: Home, kind: str) -> bool:
    """Whether the home has a product that the kind's usual noun does not cover."""
    return any(device.spec.name in WIDER.get(kind, ()) for device in devices_of_kind(home, kind))


def join_phrases(items: Sequence[str], speaker: Sayer, family: str = "noun") -> str:
    """The phrases as a list: "the hall, the study and the den". `family` is the family of the frames for comma and "and"."""
    text = items[0]
    for i, item in enumerate(items[1:], 2):
        text = speaker.say(f"{family}.and" if i == len(items) else f"{family}.comma", first=text, second=item)
    return text


def say_rooms(rooms: Sequence[Room], speaker: Sayer, bare: bool = False) -> str:
    """The names of rooms, or a plural such as "the bedrooms" if it denotes exactly these rooms."""
    if type := plural_room_type(rooms, speaker):
        return speaker.say(f"noun.rooms.{type}")
    if len(rooms) == 1 and not bare:
        return speaker.room(rooms[0])
    for room in rooms:
        refuse_shared_room(room, speaker.home)
    return join_phrases([speaker.say("noun.room", room=speaker.say_thing_name(room)) for room in rooms], speaker)


def plural_room_type(rooms: Sequence[Room], speaker: Sayer) -> str | None:
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


def floors_of(home: Home) -> list[int]:
    """The home's floors, from the lowest up."""
    return sorted({room.floor for room in home.plan.rooms})


def place_phrase(target: Target, speaker: Sayer) -> str:
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


def _predicate_forms(kind: str, where: AttributeComparison, speaker: Sayer) -> dict[str, str]:
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


def _comparison_key(key: str, kind: str, comparison: AttributeComparison, speaker: Sayer) -> str:
    """The most specific key of the grammar for a comparison."""
    side, value = SIDES[comparison.operator], str(comparison.value).lower()
    path = f"{comparison.attribute}.{side}"
    return speaker.first(
        f"{key}.{kind}.{path}.{value}",
        f"{key}.{path}.{value}",
        f"{key}.{kind}.{path}",
        f"{key}.{path}",
        f"{key}.{side}.{value}",
        f"{key}.{side}",
    )
