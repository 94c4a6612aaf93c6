"""Questions about the home, TC7: `status` (the state of things) and `quantity` (counts, extremes, averages).

Invariants: the answer is computed from the home and unambiguous; nothing may change; `reads` are the attributes that
one must look up. Whether the brightness of a lamp that is off counts, which people see in two ways, decides no answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from homerl.envs.homeenv.language.meaning import Meaning
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.language.times_and_states import WHOLE, AttributeState, AttributeStates, join_clauses
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE, ValueType, value_means_word
from homerl.envs.homeenv.tasks.device_traits import (
    LEVELS,
    OFF,
    ON,
    OPPOSITES,
    TRAITS,
    DeviceMatches,
    Trait,
    above_trait,
    match_devices,
    possible_members,
)
from homerl.envs.homeenv.tasks.intents.draft import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.earlier_dialogue import device_text, frame_meaning, frame_text, room_text
from homerl.envs.homeenv.tasks.intents.questions import (
    DeviceList,
    RoomList,
    StatementReply,
    YesNoReply,
    is_part_off,
    make_question_draft,
    names_answer,
    number_answer,
    phrases_not_in_text,
    propose_average,
    propose_how_warm,
    propose_most,
    propose_warmer_room,
    propose_warmest_room,
    ways_of_option,
    ways_of_trait,
)
from homerl.play.words.answer_rules import Answer

ROUNDED = 1000  # answers of this size may be rounded
RARELY = 0.15  # probability of a question whose answer is none, or about a single device
SENSES = {"motion": True, "human_detected": "yes", "contact": "open", "leak": True, "smoke": True, "gas": True}
UNASKED = ("countdown", "fed_today", "no_move_duration", "lamp_hours", "open_zones")  # numbers that nobody asks about


# status


def _is_on(home: Home, rng: random.Random) -> Draft | None:
    """ "Is the study lamp on?" """
    for device, part, trait in _single(home, rng):
        path = trait.attribute_path(device, part) or ""
        holds = trait.is_met_by(home.read_value(device.did, path))
        here, there = ways_of_trait(trait.name), ways_of_trait(OPPOSITES.get(trait.name, f"not_{trait.name}"))
        same, other = (here, there) if holds else (there, here)
        answer = Answer(type="boolean", value=holds, accepted=(same,) if same else (), distractors=other)
        meaning = frame_meaning("query.is", target=device_text(device, part), trait=frame_text(f"query.trait.{trait.name}"))
        reply = YesNoReply(holds, AttributeStates((AttributeState.read_from_home(home, device, path),)))
        return make_question_draft(meaning, answer, ((device.did, path),), reply)
    return None


def _single(home: Home, rng: random.Random) -> list[tuple[Device, str, Trait]]:
    """The (device, part, trait) triples of all devices with a trait that can be told now, in random order."""
    triples = [
        (device, prefix[:-1], trait)
        for device in home.plan.devices
        for prefix, kind in device.spec.part_kinds
        for trait in TRAITS.get(kind, TRAITS.get(device.spec.category, ()))
        if (path := trait.attribute_path(device, prefix[:-1])) and home.read_value(device.did, path) is not None
    ]
    return rng.sample(triples, len(triples))


def _both(home: Home, rng: random.Random) -> Draft | None:
    """ "Are both the study lamp and the hall fan on?" """
    triples = _single(home, rng)
    for device, part, trait in triples:
        others = [other for other in triples if other[2] == trait and other[0] != device]
        if not others:
            continue
        pair = ((device, part), others[0][:2])
        reads = tuple((one.did, trait.attribute_path(one, of) or "") for one, of in pair)
        both = all(trait.is_met_by(home.read_value(*read)) for read in reads)
        slots = {"first": device_text(*pair[0]), "second": device_text(*pair[1])}
        meaning = frame_meaning("query.both", trait=frame_text(f"query.trait.{trait.name}"), **slots)
        standings = tuple(AttributeState.read_from_home(home, one, path) for (one, _), (_, path) in zip(pair, reads))
        return make_question_draft(
            meaning, Answer(type="boolean", value=both), reads, YesNoReply(both, AttributeStates(standings))
        )
    return None


def _value(home: Home, rng: random.Random) -> Draft | None:
    """ "What is the brightness of the lamp?", "how much battery is left?" """
    for device, path, kind in _attributes(home, rng, ("int", "float")):
        if path.rpartition(".")[2] in WHOLE:  # people ask by the name of what is measured
            continue
        value = home.read_value(device.did, path)
        tolerance = 0.05 if isinstance(value, float) else abs(value) * 0.005 if abs(value) >= ROUNDED else 0.0
        answer = number_answer(value, kind.unit, tolerance, (device,))
        return make_question_draft(
            _asked(device, path, "query.value"), answer, ((device.did, path),), _as_it_is(home, device, path)
        )
    return None


def _mode(home: Home, rng: random.Random) -> Draft | None:
    """ "Which mode is the air conditioner in?" """
    for device, path, kind in _attributes(home, rng, ("enum",)):
        value = home.read_value(device.did, path)
        value = kind.word_of_value(value) if path.rpartition(".")[2] == STATE else value
        taken = f"{device.room.name} {device.name} {path}".replace("_", " ")
        here, others = ways_of_option(str(value), path), _other_options(kind, value, path, taken)
        if here != phrases_not_in_text(here, taken) or isinstance(value, (int, float)) or set(here) & set(others):
            continue
        answer = Answer(type="text", value=str(value), accepted=(here,), distractors=others)
        return make_question_draft(
            _asked(device, path, "query.mode"), answer, ((device.did, path),), _as_it_is(home, device, path)
        )
    return None


def _other_options(kind: ValueType, value: str, path: str, taken: str) -> tuple[str, ...]:
    """The phrases for all options except this one."""
    options = [kind.word_of_value(option) if path.rpartition(".")[2] == STATE else option for option in kind.options or ()]
    ways = (way for option in options if option != value for way in ways_of_option(str(option), path))
    return phrases_not_in_text(tuple(dict.fromkeys(ways)), taken)


def _attributes(home: Home, rng: random.Random, types: tuple[str, ...]) -> list[tuple[Device, str, ValueType]]:
    """The (device, path, type) of attributes of these types that have a value and mean something to people.

    They are in random order.
    """
    triples = [
        (device, path, kind)
        for device in home.plan.devices
        for path, kind in device.spec.readable_attributes.items()
        if kind.type in types and kind.counts is None and path.rpartition(".")[2] not in UNASKED
        if home.read_value(device.did, path) is not None
    ]
    return rng.sample(triples, len(triples))


def _asked(device: Device, path: str, frame: str) -> Meaning:
    part, _, attribute = path.rpartition(".")
    frame = f"{frame}.state" if attribute in WHOLE else frame
    return frame_meaning(frame, name=lambda speaker: speaker.name(attribute), target=device_text(device, part))


def _as_it_is(home: Home, device: Device, path: str) -> Meaning:
    return StatementReply(AttributeStates((AttributeState.read_from_home(home, device, path),)))


def _where(home: Home, rng: random.Random) -> Draft | None:
    """ "Where is the robot vacuum?" """
    for device in rng.sample(home.plan.devices, len(home.plan.devices)):
        rooms = [room.name for room in home.plan.rooms]
        alone = sum(other.name == device.name for other in home.plan.devices) == 1
        shared = any(word in device.name.split() for room in rooms for word in room.split())
        if alone and not shared:
            others = tuple(name for name in rooms if name != device.room.name)
            answer = Answer(type="text", value=device.room.name, accepted=((device.room.name,),), distractors=others)
            reply = frame_meaning("query.reply.where", room=room_text(device.room))
            return make_question_draft(frame_meaning("query.where", device=_literally(device.name)), answer, (), reply)
    return None


def _literally(text: str) -> Callable[[Speaker], str]:
    return lambda speaker: text


def _which(home: Home, rng: random.Random) -> Draft | None:
    """ "Which lights are on in the study?" """
    perhaps_none = rng.random() < RARELY
    for matches in _matches(home, rng):
        candidates = possible_members(home, matches.kind)
        if len(matches.met) <= 5 and (matches.met or perhaps_none):
            return make_question_draft(
                _about(matches, "query.which"), names_answer(matches.met, candidates), matches.reads, DeviceList(matches.met)
            )
    return None


def _senses(home: Home, rng: random.Random) -> Draft | None:
    """ "Is there anybody in the hallway?", according to a sensor there."""
    for device in rng.sample(home.plan.devices, len(home.plan.devices)):
        for name, value in SENSES.items():
            if name in device.spec.attribute_index and (now := home.read_value(device.did, name)) is not None:
                holds = now == value
                meaning = frame_meaning(f"query.sense.{name}", target=device_text(device))
                return make_question_draft(
                    meaning, Answer(type="boolean", value=holds), ((device.did, name),), YesNoReply(holds)
                )
    return None


# quantity


def _matches(home: Home, rng: random.Random, joined: bool = False) -> Iterator[DeviceMatches]:
    """What may be counted in a room or the home, in random order.

    With `joined`, the devices must have two traits at once.
    """
    counts = {kind: len(possible_members(home, kind)) for kind in TRAITS}
    kinds = [kind for kind, count in counts.items() if count > 1 or (count and rng.random() < RARELY)]
    rooms: list[Room | None] = [None, None, *home.plan.rooms]
    for _ in range(12):
        if not kinds:
            return
        kind, room = rng.choice(kinds), rng.choice(rooms)
        if room is not None and not any(device.room == room for device in possible_members(home, kind)):
            continue
        matches = match_devices(home, kind, _traits(kind, rng, joined), room)
        counted = matches is not None and matches.reads and (len(matches.reads) > 1 or room is None)
        if matches is not None and counted and not _decided_by_unlit(home, matches):
            yield matches


def _decided_by_unlit(home: Home, matches: DeviceMatches) -> bool:
    """Whether a lamp that is off is counted for its brightness."""
    if matches.kind != "light" or {ON, OFF} & {*matches.traits}:
        return False
    met = {device.did for device in matches.met}
    return any(did in met and is_part_off(home, did, path) for did, path in matches.reads)


def _traits(kind: str, rng: random.Random, joined: bool) -> tuple[Trait, ...]:
    first = rng.choice(TRAITS[kind])
    if kind not in LEVELS or first.name in ("off", "closed"):
        return (first,)
    attribute, bounds = LEVELS[kind]
    level = above_trait(attribute, rng.choice(bounds))
    return (first, level) if joined else rng.choice(((first,), (level,)))


def _about(matches: DeviceMatches, frame: str) -> Meaning:
    return frame_meaning(
        frame,
        many=frame_text(f"query.kind.{matches.kind}.many"),
        traits=lambda speaker: _traits_said(speaker, matches),
        place=_place(matches.room),
    )


def _traits_said(speaker: Speaker, matches: DeviceMatches) -> str:
    texts = []
    for trait in matches.traits:
        slots = {} if trait.value is None else {"value": speaker.value(trait.value, _type_of(speaker.home, matches, trait))}
        texts.append(speaker.say(f"query.trait.{trait.name}", **slots))
    return join_clauses(speaker, texts)


def _type_of(home: Home, matches: DeviceMatches, trait: Trait) -> ValueType | None:
    """The type of the attribute that the trait tests, for its unit."""
    found = next(((did, path) for did, path in matches.reads if path.endswith(trait.attributes[0])), None)
    return home.plan.devices_by_did[found[0]].spec.attribute_index[found[1]][1] if found else None


def _place(room: Room | None) -> Callable[[Speaker], str]:
    if room is None:
        return frame_text("query.place.home")
    return lambda speaker: speaker.say("query.place.room", room=speaker.room(room))


def _count(home: Home, rng: random.Random, joined: bool = False) -> Draft | None:
    """ "How many lights are on?", or `joined`, "on and above 50 percent?" """
    perhaps_none = rng.random() < RARELY
    for matches in _matches(home, rng, joined):
        if joined and len(matches.traits) < 2:
            continue
        if matches.met or perhaps_none:
            answer = number_answer(len(matches.met), "count", names=home.plan.devices)
            return make_question_draft(
                _about(matches, "query.count"), answer, matches.reads, DeviceList(matches.met, counted=True)
            )
    return None


def _count_parts(home: Home, rng: random.Random) -> Draft | None:
    """ "How many fans with a light have both on?" """
    fans = list(home.find_devices(category="ceiling_fan"))
    if not fans or any(home.find_devices(category="range_hood")):  # some people would count it as a fan with a light
        return None
    states = rng.choice((("on", "on"), ("on", "off"), ("off", "on")))
    reads = tuple((device.did, f"{part}.state") for device in fans for part in ("light", "fan"))
    if any(home.read_value(*read) is None for read in reads):
        return None
    met = [
        d
        for d in fans
        if all(value_means_word(home.read_value(d.did, f"{part}.state"), s) for part, s in zip(("light", "fan"), states))
    ]
    answer = number_answer(len(met), "count", names=home.plan.devices)
    return make_question_draft(
        frame_meaning(f"query.parts.{states[0]}_{states[1]}"), answer, reads, DeviceList(tuple(met), counted=True)
    )


def _count_all(home: Home, rng: random.Random) -> Draft | None:
    """ "How many lights are there in the study?" """
    scopes = [(kind, room) for kind in TRAITS for room in (None, *home.plan.rooms)]
    perhaps_none = rng.random() < RARELY
    for kind, room in rng.sample(scopes, len(scopes)):
        devices = [device for device in possible_members(home, kind) if room in (None, device.room)]
        strict = match_devices(home, kind, (), room)
        if strict is not None and len(strict.met) == len(devices) and (len(devices) > 1 or perhaps_none):
            slots = {"many": frame_text(f"query.kind.{kind}.many"), "place": _place(room)}
            answer = number_answer(len(devices), "count", names=home.plan.devices)
            return make_question_draft(
                frame_meaning("query.count_all", **slots), answer, (), DeviceList(tuple(devices), counted=True)
            )
    return None


def _rooms_with(home: Home, rng: random.Random) -> Draft | None:
    """ "How many rooms have a light on?" """
    perhaps_none = rng.random() < RARELY
    for matches in _matches(home, rng):
        if matches.room is None and len(matches.traits) == 1 and (matches.met or perhaps_none):
            rooms = list(dict.fromkeys(device.room for device in matches.met))
            slots: dict[str, Callable[[Speaker], str]] = {
                "a": frame_text(f"query.kind.{matches.kind}.a"),
                "traits": partial(_traits_said, matches=matches),
            }
            reply = RoomList(tuple(rooms))
            answer = number_answer(len(rooms), "count", names=home.plan.devices)
            return make_question_draft(frame_meaning("query.rooms", **slots), answer, matches.reads, reply)
    return None


def _one_of(subcategory: str, *ways: Callable[[Home, random.Random], Draft | None]) -> Propose:
    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """The first of the ways, in random order, that the home offers; only a first intent has calls before it."""
        for way in rng.sample(ways, len(ways)):
            draft = way(home, rng)
            if draft is not None and (ask.first or not draft.before):
                return replace(draft, subcategory=subcategory)
        return None

    return propose


SUBCATEGORIES: dict[str, Propose] = {
    "status": _one_of("status", _is_on, _both, _value, _mode, _where, _which, _senses, propose_how_warm),
    "quantity": _one_of(
        "quantity",
        _count,
        _count,
        partial(_count, joined=True),
        _count_parts,
        _count_all,
        _rooms_with,
        propose_most,
        propose_average,
        propose_warmer_room,
        propose_warmest_room,
    ),
}
