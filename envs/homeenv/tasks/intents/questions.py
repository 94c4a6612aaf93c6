"""What all questions share, and the questions that compare numbers.

All questions share the draft of a question, the typed answer, the sentence that answers it, and the phrases that count as
an answer (in all languages that have a grammar). The questions here are about the air of rooms that have a sensor, and
about a level of all devices of a kind: which has the most of it, and what is its average.

Invariants:
- A phrase that already occurs in the question does not count (`phrases_not_in_text`).
- All lamps that are compared are lit, if need be by calls before the episode. People disagree whether the brightness of a
  lamp that is off counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from homerl.envs.homeenv.language.known_languages import home_grammar, list_home_languages
from homerl.envs.homeenv.language.meaning import Meaning, SpokenName, SpokenValue, refuse_shared_device
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.language.times_and_states import join_clauses
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import call_for_path, home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Call, Factors
from homerl.envs.homeenv.tasks.device_traits import (
    LEVELS,
    OFF,
    Read,
    above_trait,
    match_devices,
    possible_members,
    room_thermometers,
)
from homerl.envs.homeenv.tasks.intents.draft import Draft
from homerl.play.words.answer_rules import Answer
from homerl.play.words.grammar import Grammar
from homerl.play.words.numbers_and_times import find_numbers

Ways = tuple[str, ...]


@lru_cache
def _grammars() -> tuple[Grammar, ...]:
    return tuple(map(home_grammar, list_home_languages()))


def _frames_of(keys: Sequence[str]) -> Iterator[str]:
    """The frames of these keys in all languages, without those that leave something open."""
    for key, known in product(keys, _grammars()):
        if key in known:
            yield from (text for text in known.plain_texts(key) if not set(text) & set("[(|<"))


@lru_cache(maxsize=4096)
def _ways_of_device(room: str, name: str) -> Ways:
    """Phrases for a device: its room and name, and its name alone (which another device may share)."""
    texts = [frame.replace("{room}", room).replace("{device}", name) for frame in _frames_of(("query.way",))]
    return tuple(dict.fromkeys(texts))


def ways_of_option(option: str, path: str) -> Ways:
    """Phrases for an option of an attribute: its name and its words."""
    keys = (f"option.{path.rpartition('.')[2]}.{option}", f"option.{option}", f"query.option.{option}")
    return tuple(dict.fromkeys([option.replace("_", " "), *_frames_of(keys)]))


def phrases_not_in_text(ways: Ways, taken: str) -> Ways:
    """The phrases that do not occur in the text `taken`."""
    return tuple(way for way in ways if not re.search(rf"(?<![a-z]){re.escape(way)}(?![a-z])", taken))


def ways_of_trait(name: str) -> Ways:
    """Phrases that say that a trait holds."""
    return tuple(dict.fromkeys(_frames_of((f"query.trait.{name}",))))


MOST_READS = 25


def make_question_draft(
    meaning: Meaning,
    answer: Answer,
    reads: Sequence[Read],
    reply: Meaning,
    subcategory: str = "",
    before: tuple[Call, ...] = (),
) -> Draft | None:
    """The draft of a question, or None if its answer needs more than `MOST_READS` reads."""
    if len(reads) > MOST_READS:
        return None
    factors = Factors(scope="multi_device") if len({did for did, _ in reads}) > 1 else Factors()
    reply = CapitalisedReply(reply)
    return Draft(subcategory, meaning, factors, answer=answer, reads=tuple(reads), reply=reply, before=before)


def yes_no_reply(value: bool, rest: Meaning | None = None) -> Meaning:
    """Yes or no, and the state of things as a reason."""
    if rest is None:
        return frame_meaning("query.reply.alone", text=frame_meaning("query.some" if value else "query.none"))
    word = frame_meaning("query.yes" if value else "query.no")
    return frame_meaning("query.reply.yes_no", word=word, text=rest)


def statement_reply(of: Meaning) -> Meaning:
    """A meaning as a sentence of its own."""
    return frame_meaning("query.reply.alone", text=of)


def place_meaning(room: Room | None, home_frame: str) -> Meaning:
    """ "In the study", or the frame `home_frame` for the whole home."""
    return frame_meaning("query.place.room", room=room) if room else frame_meaning(home_frame)


@dataclass(frozen=True)
class CapitalisedReply:
    """A meaning that begins with a capital letter."""

    of: Meaning

    def words(self, speaker: Speaker) -> str:
        """The meaning with a capital letter."""
        text = self.of.words(speaker)
        return text[0].upper() + text[1:]


@dataclass(frozen=True)
class DeviceList:
    """A list of devices by name, or that there are none; with `counted`, their number first."""

    devices: tuple[Device, ...]
    counted: bool = False

    def words(self, speaker: Speaker) -> str:
        """The list as a sentence; a count of more than four devices leaves the names out."""
        for device in self.devices:
            refuse_shared_device(device, speaker.home)
        names = [speaker.say("query.device", room=device.room.name, device=device.name) for device in self.devices]
        if not names:
            return speaker.say("query.reply.none")
        count = str(len(names))
        if self.counted and len(names) > 4:
            return speaker.say("query.reply.alone", text=count)
        joined = join_clauses(speaker, names)
        if not self.counted:
            return speaker.say("query.reply.alone", text=joined)
        return speaker.say("query.reply.count", count=count, names=joined)


def number_answer(value: float, unit: str | None, tolerance: float = 0.0, names: Sequence[Device] = ()) -> Answer:
    """A numeric answer.

    `tolerance` is in `unit`. Digits in the names of the devices `names` do not count as an answer.
    """
    whole = int(value) if float(value).is_integer() else round(value, 2)
    texts = dict.fromkeys(name for device in names for name in (device.name, device.room.name))
    # A reader of numbers must ignore those in names ("two-door oven").
    distractors = tuple(name for name in texts if re.search(r"\d", name) or find_numbers(name))
    return Answer(type="number", value=whole, tolerance=tolerance, unit=unit, distractors=distractors)


def names_answer(met: Sequence[Device], candidates: Sequence[Device]) -> Answer:
    """An answer that lists the devices `met`; the names of the other candidates are wrong answers."""
    others = [device for device in candidates if device not in met]
    return Answer(
        type="names",
        value=tuple(f"{device.room.name} {device.name}" for device in met),
        accepted=tuple(_ways_of_device(device.room.name, device.name) for device in met),
        distractors=tuple(dict.fromkeys(way for one in others for way in _ways_of_device(one.room.name, one.name))),
    )


APART = 0.3  # degrees Celsius: rooms with a smaller difference are not compared


def propose_how_warm(home: Home, rng: random.Random) -> Draft | None:
    """ "How warm is it in the study?" """
    quantity, unit = rng.choice((("temperature", "celsius"), ("humidity", "percentage")))
    known = room_thermometers(home, quantity)
    if not known:
        return None
    room = rng.choice(list(known))
    value, sensor = home.read_value(*known[room]), home.plan.devices_by_did[known[room][0]]
    kind = sensor.spec.attribute_index[known[room][1]][1]
    reply = frame_meaning(f"query.reply.{quantity}", room=room, value=SpokenValue(value, kind))
    answer = number_answer(value, unit, 0.3 if unit == "celsius" else 1.0, (sensor,))
    return make_question_draft(frame_meaning(f"query.how.{quantity}", room=room), answer, (known[room],), reply)


def propose_warmer_room(home: Home, rng: random.Random) -> Draft | None:
    """ "Is the study warmer than the kitchen?", "which of the two is warmer?", "by how much?" """
    known = room_thermometers(home)
    if len(known) < 2:
        return None
    first, second = rng.sample(list(known), 2)
    one, other = home.read_value(*known[first]), home.read_value(*known[second])
    reads, slots = (known[first], known[second]), {"first": first, "second": second}
    if abs(one - other) < APART:
        return None
    warm, cold = (first, second) if one > other else (second, first)
    match rng.choice(("is", "which", "by")):
        case "is":
            answer = Answer(type="boolean", value=one > other)
            rest = frame_meaning("query.reply.warmer", first=warm, second=cold)
            return make_question_draft(
                frame_meaning("query.warmer", **slots), answer, reads, yes_no_reply(one > other, rest)
            )
        case "which":
            answer = Answer(type="text", value=warm.name, accepted=((warm.name,),), distractors=(cold.name,))
            reply = frame_meaning("query.reply.room", room=warm)
            return make_question_draft(frame_meaning("query.which_warmer", **slots), answer, reads, reply)
    difference = round(abs(one - other), 1)
    slots = {"first": warm, "second": cold}
    sensors = [home.plan.devices_by_did[known[room][0]] for room in (warm, cold)]
    type = home.plan.devices_by_did[known[first][0]].spec.attribute_index[known[first][1]][1]
    reply = frame_meaning("query.reply.level", value=SpokenValue(difference, type))
    answer = number_answer(difference, "celsius", 0.15, sensors)
    return make_question_draft(frame_meaning("query.how_much_warmer", **slots), answer, reads, reply)


def propose_warmest_room(home: Home, rng: random.Random) -> Draft | None:
    """ "Which room is the warmest?" Only if its temperature has a sensor and no other room is as warm."""
    known = room_thermometers(home)
    warm = rng.random() < 0.5
    rooms = sorted(home.plan.rooms, key=lambda room: home.read_value(room.id, "temperature"), reverse=warm)
    first, *others = rooms
    if len(known) < 2 or first not in known:
        return None
    if home.read_value(first.id, "temperature") == home.read_value(others[0].id, "temperature"):
        return None
    distractors = tuple(room.name for room in others)
    answer = Answer(type="text", value=first.name, accepted=((first.name,),), distractors=distractors)
    reply = frame_meaning("query.reply.room", room=first)
    meaning = frame_meaning("query.warmest" if warm else "query.coldest")
    return make_question_draft(meaning, answer, tuple(known.values()), reply)


def propose_most(home: Home, rng: random.Random) -> Draft | None:
    """ "Which light has the highest brightness?" """
    for kind in rng.sample(list(LEVELS), len(LEVELS)):
        before, levels = _levels(home, kind)
        highest = rng.random() < 0.5
        values = sorted((value for _, _, value in levels), reverse=highest)
        if len(values) < 2 or values[0] == values[1]:
            continue
        device = next(device for device, _, value in levels if value == values[0])
        one, said = frame_meaning(f"query.kind.{kind}.one"), SpokenName(LEVELS[kind][0])
        meaning = frame_meaning(f"query.most.{'high' if highest else 'low'}", one=one, name=said)
        reads = tuple((device.did, path) for device, path, _ in levels)
        answer = names_answer((device,), possible_members(home, kind))
        return make_question_draft(meaning, answer, reads, DeviceList((device,)), before=before)
    return None


def propose_average(home: Home, rng: random.Random) -> Draft | None:
    """ "What is the average set temperature of the heaters?", or the highest, or the lowest."""
    for kind in rng.sample(list(LEVELS), len(LEVELS)):
        before, levels = _levels(home, kind)
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
        return make_question_draft(meaning, answer, reads, reply, before=before)
    return None


def _levels(home: Home, kind: str) -> tuple[tuple[Call, ...], list[tuple[Device, str, float]]]:
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
