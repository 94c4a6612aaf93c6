"""Questions about the home, TC7: `status` (the state of things) and `quantity` (counts, extremes, averages).

Invariants: the answer is computed from the home and unambiguous; nothing may change; `reads` are the attributes that
one must look up. Whether the brightness of a lamp that is off counts, which people see in two ways, decides no answer: lamps
that are compared are lit, if need be by calls before the episode.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from homerl.envs.homeenv.language.meaning import Meaning, SpokenName, SpokenValue, Target
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.language.times_and_states import WHOLE, AttributeState, AttributeStates, join_clauses
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE, ValueType, value_means_word
from homerl.envs.homeenv.tasks.actions import call_for_path, home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Call
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.device_choice import (
    LEVELS,
    OFF,
    ON,
    OPPOSITES,
    TRAITS,
    DeviceMatches,
    Read,
    Trait,
    above_trait,
    match_devices,
    possible_members,
    room_thermometers,
)
from homerl.envs.homeenv.tasks.intents.questions import (
    DeviceList,
    make_question_draft,
    names_answer,
    number_answer,
    phrases_not_in_text,
    place_meaning,
    statement_reply,
    ways_of_option,
    ways_of_trait,
    yes_no_reply,
)
from homerl.play.words.answer_rules import Answer

Questions = Iterator[Draft | None]
ROUNDED = 1000  # answers of this size may be rounded
RARELY = 0.15  # probability of a question whose answer is none, or about a single device
SENSES = {"motion": True, "human_detected": "yes", "contact": "open", "leak": True, "smoke": True, "gas": True}
UNASKED = ("countdown", "fed_today", "no_move_duration", "lamp_hours", "open_zones")  # numbers that nobody asks about


# status


def _ask_trait(home: Home, rng: random.Random) -> Questions:
    """ "Is the study lamp on?" """
    for device, part, trait in _traits_of_devices(home, rng):
        path = trait.attribute_path(device, part) or ""
        holds = trait.is_met_by(home.read_value(device.did, path))
        here, there = ways_of_trait(trait.name), ways_of_trait(OPPOSITES.get(trait.name, f"not_{trait.name}"))
        same, other = (here, there) if holds else (there, here)
        answer = Answer(type="boolean", value=holds, accepted=(same,) if same else (), distractors=other)
        meaning = frame_meaning(
            "query.is", target=Target.of_device(device, part), trait=frame_meaning(f"query.trait.{trait.name}")
        )
        reply = yes_no_reply(holds, _state_meaning(home, device, path))
        yield make_question_draft(meaning, answer, ((device.did, path),), reply)


def _traits_of_devices(home: Home, rng: random.Random) -> list[tuple[Device, str, Trait]]:
    """The (device, part, trait) triples of all devices with a trait that can be told now, in random order."""
    triples = [
        (device, prefix[:-1], trait)
        for device in home.plan.devices
        for prefix, kind in device.spec.part_kinds
        for trait in TRAITS.get(kind, TRAITS.get(device.spec.category, ()))
        if (path := trait.attribute_path(device, prefix[:-1])) and home.read_value(device.did, path) is not None
    ]
    return rng.sample(triples, len(triples))


def _ask_both(home: Home, rng: random.Random) -> Questions:
    """ "Are both the study lamp and the hall fan on?" """
    triples = _traits_of_devices(home, rng)
    for device, part, trait in triples:
        others = [other for other in triples if other[2] == trait and other[0] != device]
        if not others:
            continue
        pair = ((device, part), others[0][:2])
        reads = tuple((one.did, trait.attribute_path(one, of) or "") for one, of in pair)
        both = all(trait.is_met_by(home.read_value(*read)) for read in reads)
        slots = {"first": Target.of_device(*pair[0]), "second": Target.of_device(*pair[1])}
        meaning = frame_meaning("query.both", trait=frame_meaning(f"query.trait.{trait.name}"), **slots)
        states = tuple(AttributeState.read_from_home(home, one, path) for (one, _), (_, path) in zip(pair, reads))
        reply = yes_no_reply(both, AttributeStates(states))
        yield make_question_draft(meaning, Answer(type="boolean", value=both), reads, reply)


def _ask_number(home: Home, rng: random.Random) -> Questions:
    """ "What is the brightness of the lamp?", "how much battery is left?" """
    for device, path, kind in _known_attributes(home, rng, ("int", "float")):
        if path.rpartition(".")[2] in WHOLE:  # people ask by the name of what is measured
            continue
        value = home.read_value(device.did, path)
        tolerance = 0.05 if isinstance(value, float) else abs(value) * 0.005 if abs(value) >= ROUNDED else 0.0
        yield _draft_attribute("query.value", home, device, path, number_answer(value, kind.unit, tolerance, (device,)))


def _ask_mode(home: Home, rng: random.Random) -> Questions:
    """ "Which mode is the air conditioner in?" """
    for device, path, kind in _known_attributes(home, rng, ("enum",)):
        value, options = home.read_value(device.did, path), [*(kind.options or ())]
        if path.rpartition(".")[2] == STATE:
            value, *options = map(kind.word_of_value, (value, *options))
        taken = f"{device.room.name} {device.name} {path}".replace("_", " ")
        here = ways_of_option(str(value), path)
        ways = (way for option in options if option != value for way in ways_of_option(str(option), path))
        others = phrases_not_in_text(tuple(dict.fromkeys(ways)), taken)
        if here != phrases_not_in_text(here, taken) or isinstance(value, (int, float)) or set(here) & set(others):
            continue
        answer = Answer(type="text", value=str(value), accepted=(here,), distractors=others)
        yield _draft_attribute("query.mode", home, device, path, answer)


def _known_attributes(home: Home, rng: random.Random, types: tuple[str, ...]) -> list[tuple[Device, str, ValueType]]:
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


def _draft_attribute(frame: str, home: Home, device: Device, path: str, answer: Answer) -> Draft | None:
    """The draft of a question for the value of an attribute."""
    part, _, attribute = path.rpartition(".")
    frame = f"{frame}.state" if attribute in WHOLE else frame
    meaning = frame_meaning(frame, name=SpokenName(attribute), target=Target.of_device(device, part))
    return make_question_draft(meaning, answer, ((device.did, path),), statement_reply(_state_meaning(home, device, path)))


def _state_meaning(home: Home, device: Device, path: str) -> Meaning:
    return AttributeStates((AttributeState.read_from_home(home, device, path),))


def _ask_where(home: Home, rng: random.Random) -> Questions:
    """ "Where is the robot vacuum?" """
    rooms = [room.name for room in home.plan.rooms]
    for device in rng.sample(home.plan.devices, len(home.plan.devices)):
        alone = sum(other.name == device.name for other in home.plan.devices) == 1
        shared = any(word in device.name.split() for room in rooms for word in room.split())
        if alone and not shared:
            others = tuple(name for name in rooms if name != device.room.name)
            answer = Answer(type="text", value=device.room.name, accepted=((device.room.name,),), distractors=others)
            reply = frame_meaning("query.reply.where", room=device.room)
            yield make_question_draft(frame_meaning("query.where", device=device.name), answer, (), reply)


def _ask_which(home: Home, rng: random.Random) -> Questions:
    """ "Which lights are on in the study?" """
    perhaps_none = rng.random() < RARELY
    for matches in _draw_matches(home, rng):
        if len(matches.met) <= 5 and (matches.met or perhaps_none):
            answer = names_answer(matches.met, possible_members(home, matches.kind))
            yield make_question_draft(
                _meaning_of_matches(matches, "query.which"), answer, matches.reads, DeviceList(matches.met)
            )


def _ask_sensor(home: Home, rng: random.Random) -> Questions:
    """ "Is there anybody in the hallway?", according to a sensor there."""
    for device in rng.sample(home.plan.devices, len(home.plan.devices)):
        for name, value in SENSES.items():
            if name in device.spec.attribute_index and (now := home.read_value(device.did, name)) is not None:
                holds = now == value
                meaning = frame_meaning(f"query.sense.{name}", target=Target.of_device(device))
                answer = Answer(type="boolean", value=holds)
                yield make_question_draft(meaning, answer, ((device.did, name),), yes_no_reply(holds))


# quantity


def _draw_matches(home: Home, rng: random.Random, joined: bool = False) -> Iterator[DeviceMatches]:
    """What may be counted in a room or the home, in random order.

    With `joined`, the devices must have two traits at once.
    """
    counts = {kind: len(possible_members(home, kind)) for kind in TRAITS}
    kinds = [kind for kind, count in counts.items() if count > 1 or (count and rng.random() < RARELY)]
    rooms: list[Room | None] = [None, None, *home.plan.rooms]
    for _ in range(12 if kinds else 0):
        kind, room = rng.choice(kinds), rng.choice(rooms)
        if room is not None and not any(device.room == room for device in possible_members(home, kind)):
            continue
        traits: tuple[Trait, ...] = (rng.choice(TRAITS[kind]),)
        if kind in LEVELS and traits[0].name not in ("off", "closed"):
            attribute, bounds = LEVELS[kind]
            level = above_trait(attribute, rng.choice(bounds))
            traits = (*traits, level) if joined else rng.choice((traits, (level,)))
        matches = match_devices(home, kind, traits, room)
        counted = matches is not None and matches.reads and (len(matches.reads) > 1 or room is None)
        if matches is not None and counted and not _decided_by_unlit(home, matches):
            yield matches


def _decided_by_unlit(home: Home, matches: DeviceMatches) -> bool:
    """Whether a lamp that is off is counted for its brightness."""
    if matches.kind != "light" or {ON, OFF} & {*matches.traits}:
        return False
    met = {device.did for device in matches.met}
    return any(did in met and is_part_off(home, did, path) for did, path in matches.reads)


def _meaning_of_matches(matches: DeviceMatches, frame: str) -> Meaning:
    return frame_meaning(
        frame,
        many=frame_meaning(f"query.kind.{matches.kind}.many"),
        traits=partial(_say_traits, matches),
        place=place_meaning(matches.room, "query.place.home"),
    )


def _say_traits(matches: DeviceMatches, speaker: Speaker) -> str:
    texts, devices = [], speaker.home.plan.devices_by_did
    for trait in matches.traits:
        slots = {}
        if trait.value is not None:  # the type of the tested attribute has the unit
            tested = ((did, path) for did, path in matches.reads if path.endswith(trait.attributes[0]))
            type = next((devices[did].spec.attribute_index[path][1] for did, path in tested), None)
            slots["value"] = speaker.value(trait.value, type)
        texts.append(speaker.say(f"query.trait.{trait.name}", **slots))
    return join_clauses(speaker, texts)


def _draft_count(home: Home, meaning: Meaning, reads: Sequence[Read], counted: Sequence[Device]) -> Draft | None:
    answer = number_answer(len(counted), "count", names=home.plan.devices)
    return make_question_draft(meaning, answer, reads, DeviceList(tuple(counted), counted=True))


def _count_matches(home: Home, rng: random.Random, joined: bool = False) -> Questions:
    """ "How many lights are on?", or `joined`, "on and above 50 percent?" """
    perhaps_none = rng.random() < RARELY
    for matches in _draw_matches(home, rng, joined):
        if (len(matches.traits) > 1 or not joined) and (matches.met or perhaps_none):
            yield _draft_count(home, _meaning_of_matches(matches, "query.count"), matches.reads, matches.met)


def _count_parts(home: Home, rng: random.Random) -> Questions:
    """ "How many fans with a light have both on?" """
    fans = list(home.find_devices(category="ceiling_fan"))
    if not fans or any(home.find_devices(category="range_hood")):  # some people would count it as a fan with a light
        return
    wanted = rng.choice((("on", "on"), ("on", "off"), ("off", "on")))
    states = {fan: [home.read_value(fan.did, f"{part}.state") for part in ("light", "fan")] for fan in fans}
    if any(None in shown for shown in states.values()):
        return
    met = [fan for fan, shown in states.items() if all(map(value_means_word, shown, wanted))]
    reads = [(fan.did, f"{part}.state") for fan in fans for part in ("light", "fan")]
    yield _draft_count(home, frame_meaning(f"query.parts.{'_'.join(wanted)}"), reads, met)


def _count_kind(home: Home, rng: random.Random) -> Questions:
    """ "How many lights are there in the study?" """
    scopes = [(kind, room) for kind in TRAITS for room in (None, *home.plan.rooms)]
    perhaps_none = rng.random() < RARELY
    for kind, room in rng.sample(scopes, len(scopes)):
        devices = [device for device in possible_members(home, kind) if room in (None, device.room)]
        strict = match_devices(home, kind, (), room)
        if strict is not None and len(strict.met) == len(devices) and (len(devices) > 1 or perhaps_none):
            slots = {"many": frame_meaning(f"query.kind.{kind}.many"), "place": place_meaning(room, "query.place.home")}
            yield _draft_count(home, frame_meaning("query.count_all", **slots), (), devices)


def _count_rooms(home: Home, rng: random.Random) -> Questions:
    """ "How many rooms have a light on?" """
    perhaps_none = rng.random() < RARELY
    for matches in _draw_matches(home, rng):
        if matches.room is None and len(matches.traits) == 1 and (matches.met or perhaps_none):
            rooms = tuple(dict.fromkeys(device.room for device in matches.met))
            a, traits = frame_meaning(f"query.kind.{matches.kind}.a"), partial(_say_traits, matches)
            answer = number_answer(len(rooms), "count", names=home.plan.devices)
            reply = frame_meaning("query.reply.none")
            if rooms:
                reply = frame_meaning("query.reply.count", count=str(len(rooms)), names=partial(_say_rooms, rooms))
            yield make_question_draft(frame_meaning("query.rooms", a=a, traits=traits), answer, matches.reads, reply)


def _say_rooms(rooms: Sequence[Room], speaker: Speaker) -> str:
    return join_clauses(speaker, [speaker.room(room) for room in rooms])


# numbers that are compared


APART = 0.3  # degrees Celsius: rooms with a smaller difference are not compared


def ask_how_warm(home: Home, rng: random.Random) -> Questions:
    """ "How warm is it in the study?" """
    quantity, unit = rng.choice((("temperature", "celsius"), ("humidity", "percentage")))
    known = room_thermometers(home, quantity)
    if not known:
        return
    room = rng.choice(list(known))
    value, sensor = home.read_value(*known[room]), home.plan.devices_by_did[known[room][0]]
    kind = sensor.spec.attribute_index[known[room][1]][1]
    reply = frame_meaning(f"query.reply.{quantity}", room=room, value=SpokenValue(value, kind))
    answer = number_answer(value, unit, 0.3 if unit == "celsius" else 1.0, (sensor,))
    yield make_question_draft(frame_meaning(f"query.how.{quantity}", room=room), answer, (known[room],), reply)


def ask_warmer_room(home: Home, rng: random.Random) -> Questions:
    """ "Is the study warmer than the kitchen?", "which of the two is warmer?", "by how much?" """
    known = room_thermometers(home)
    if len(known) < 2:
        return
    first, second = rng.sample(list(known), 2)
    one, other = home.read_value(*known[first]), home.read_value(*known[second])
    if abs(one - other) < APART:
        return
    warm, cold = (first, second) if one > other else (second, first)
    match rng.choice(("is", "which", "by")):
        case "is":
            meaning = frame_meaning("query.warmer", first=first, second=second)
            answer = Answer(type="boolean", value=one > other)
            reply = yes_no_reply(one > other, frame_meaning("query.reply.warmer", first=warm, second=cold))
        case "which":
            meaning = frame_meaning("query.which_warmer", first=first, second=second)
            answer = Answer(type="text", value=warm.name, accepted=((warm.name,),), distractors=(cold.name,))
            reply = frame_meaning("query.reply.room", room=warm)
        case _:
            meaning = frame_meaning("query.how_much_warmer", first=warm, second=cold)
            sensors = [home.plan.devices_by_did[known[room][0]] for room in (warm, cold)]
            difference = round(abs(one - other), 1)
            type = home.plan.devices_by_did[known[first][0]].spec.attribute_index[known[first][1]][1]
            answer = number_answer(difference, "celsius", 0.15, sensors)
            reply = frame_meaning("query.reply.level", value=SpokenValue(difference, type))
    yield make_question_draft(meaning, answer, (known[first], known[second]), reply)


def _ask_warmest_room(home: Home, rng: random.Random) -> Questions:
    """ "Which room is the warmest?" Only if its temperature has a sensor and no other room is as warm."""
    known = room_thermometers(home)
    warm = rng.random() < 0.5
    rooms = sorted(home.plan.rooms, key=lambda room: home.read_value(room.id, "temperature"), reverse=warm)
    first, *others = rooms
    if len(known) < 2 or first not in known:
        return
    if home.read_value(first.id, "temperature") == home.read_value(others[0].id, "temperature"):
        return
    distractors = tuple(room.name for room in others)
    answer = Answer(type="text", value=first.name, accepted=((first.name,),), distractors=distractors)
    reply = frame_meaning("query.reply.room", room=first)
    meaning = frame_meaning("query.warmest" if warm else "query.coldest")
    yield make_question_draft(meaning, answer, tuple(known.values()), reply)


def _ask_most(home: Home, rng: random.Random) -> Questions:
    """ "Which light has the highest brightness?" """
    for kind in rng.sample(list(LEVELS), len(LEVELS)):
        before, levels = _compared_levels(home, kind)
        highest = rng.random() < 0.5
        values = sorted((value for _, _, value in levels), reverse=highest)
        if len(values) < 2 or values[0] == values[1]:
            continue
        device = next(device for device, _, value in levels if value == values[0])
        one, said = frame_meaning(f"query.kind.{kind}.one"), SpokenName(LEVELS[kind][0])
        meaning = frame_meaning(f"query.most.{'high' if highest else 'low'}", one=one, name=said)
        reads = tuple((device.did, path) for device, path, _ in levels)
        answer = names_answer((device,), possible_members(home, kind))
        yield make_question_draft(meaning, answer, reads, DeviceList((device,)), before=before)


def _ask_average(home: Home, rng: random.Random) -> Questions:
    """ "What is the average set temperature of the heaters?", or the highest, or the lowest."""
    for kind in rng.sample(list(LEVELS), len(LEVELS)):
        before, levels = _compared_levels(home, kind)
        if len(levels) < 2:
            continue
        name, of = rng.choice((("average", lambda vs: sum(vs) / len(vs)), ("highest", max), ("lowest", min)))
        value = of([value for _, _, value in levels])
        type = levels[0][0].spec.attribute_index[levels[0][1]][1]
        many, said = frame_meaning(f"query.kind.{kind}.many"), SpokenName(LEVELS[kind][0])
        reads = tuple((device.did, path) for device, path, _ in levels)
        shown = round(value, 1)
        shown = int(shown) if float(shown).is_integer() else shown
        answer = number_answer(value, type.unit, 0.3 if name == "average" else 0.0, home.plan.devices)
        reply = frame_meaning("query.reply.level", value=SpokenValue(shown, type))
        meaning = frame_meaning(f"query.{name}", many=many, name=said)
        yield make_question_draft(meaning, answer, reads, reply, before=before)


def _compared_levels(home: Home, kind: str) -> tuple[tuple[Call, ...], list[tuple[Device, str, float]]]:
    """Calls before the episode that light all lamps, and then the (device, path, value) triples to compare.

    There are no triples if it is unclear which devices are meant.
    """
    everything = match_devices(home, kind, (above_trait(LEVELS[kind][0], -1000),))
    reads = everything.reads if everything is not None else ()
    devices = home.plan.devices_by_did
    unlit = [read for read in reads if kind == "light" and is_part_off(home, *read)]
    lighting = [call_for_path(devices[did], f"{path.rpartition('.')[0]}.turn_on".lstrip(".")) for did, path in unlit]
    if (before := tuple(call for call in lighting if call)) and len(before) < len(lighting):
        return (), []
    try:
        then = home_after_calls(home, before)
    except Refused:
        return (), []
    levels = [(devices[did], path, then.read_value(did, path)) for did, path in reads]
    return (before, levels) if all(value is not None for _, _, value in levels) else ((), [])


def is_part_off(home: Home, did: str, path: str) -> bool:
    """Whether the part of a device that has this attribute is off."""
    state = OFF.attribute_path(home.plan.devices_by_did[did], path.rpartition(".")[0])
    return state is not None and OFF.is_met_by(home.read_value(did, state))


def _one_of_ways(subcategory: str, *ways: Callable[[Home, random.Random], Questions]) -> Propose:
    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """The first of the ways, in random order, that the home offers; only a first intent has calls before it.

        What a way yields first counts, and no more is drawn.
        """
        for way in rng.sample(ways, len(ways)):
            draft = next(way(home, rng), None)
            if draft is not None and (ask.first or not draft.before):
                return replace(draft, subcategory=subcategory)
        return None

    return propose


SUBCATEGORIES: dict[str, Propose] = {
    "status": _one_of_ways(
        "status", _ask_trait, _ask_both, _ask_number, _ask_mode, _ask_where, _ask_which, _ask_sensor, ask_how_warm
    ),
    "quantity": _one_of_ways(
        "quantity",
        *(_count_matches, _count_matches, partial(_count_matches, joined=True), _count_parts, _count_kind, _count_rooms),
        *(_ask_most, _ask_average, ask_warmer_room, _ask_warmest_room),
    ),
}
