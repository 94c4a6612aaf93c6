"""Questions about the air of rooms that have a sensor: how warm, which is warmest, by how much."""

from __future__ import annotations

import random
from collections.abc import Callable

from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types import ValueType
from homerl.envs.homeenv.tasks.intents.dialogue import frame_meaning, room_text
from homerl.envs.homeenv.tasks.intents.draft import Draft
from homerl.envs.homeenv.tasks.intents.questions import YesNoReply, make_question_draft, number_answer
from homerl.envs.homeenv.tasks.traits import room_thermometers
from homerl.play.words.answers import Answer

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
    reply = frame_meaning(f"query.reply.{quantity}", room=room_text(room), value=typed_value_text(value, kind))
    answer = number_answer(value, unit, 0.3 if unit == "celsius" else 1.0, (sensor,))
    return make_question_draft(frame_meaning(f"query.how.{quantity}", room=room_text(room)), answer, (known[room],), reply)


def propose_warmer_room(home: Home, rng: random.Random) -> Draft | None:
    """ "Is the study warmer than the kitchen?", "which of the two is warmer?", "by how much?" """
    known = room_thermometers(home)
    if len(known) < 2:
        return None
    first, second = rng.sample(list(known), 2)
    one, other = home.read_value(*known[first]), home.read_value(*known[second])
    reads, slots = (known[first], known[second]), {"first": room_text(first), "second": room_text(second)}
    if abs(one - other) < APART:
        return None
    warm, cold = (first, second) if one > other else (second, first)
    match rng.choice(("is", "which", "by")):
        case "is":
            answer = Answer(type="boolean", value=one > other)
            rest = frame_meaning("query.reply.warmer", first=room_text(warm), second=room_text(cold))
            return make_question_draft(frame_meaning("query.warmer", **slots), answer, reads, YesNoReply(one > other, rest))
        case "which":
            answer = Answer(type="text", value=warm.name, accepted=((warm.name,),), distractors=(cold.name,))
            reply = frame_meaning("query.reply.room", room=room_text(warm))
            return make_question_draft(frame_meaning("query.which_warmer", **slots), answer, reads, reply)
    difference = round(abs(one - other), 1)
    slots = {"first": room_text(warm), "second": room_text(cold)}
    sensors = [home.plan.devices_by_did[known[room][0]] for room in (warm, cold)]
    type = home.plan.devices_by_did[known[first][0]].spec.attribute_index[known[first][1]][1]
    reply = frame_meaning("query.reply.level", value=typed_value_text(difference, type))
    answer = number_answer(difference, "celsius", 0.15, sensors)
    return make_question_draft(frame_meaning("query.how_much_warmer", **slots), answer, reads, reply)


def propose_warmest_room(home: Home, rng: random.Random) -> Draft | None:
    """ "Which room is the warmest?" Only if its temperature has a sensor and no other room is as warm."""
    known = room_thermometers(home)
    warm = rng.random() < 0.5
    rooms = sorted(home.plan.rooms, key=lambda room: home.read_value(room.id, "temperature"), reverse=warm)
    if (
        len(known) < 2
        or rooms[0] not in known
        or home.read_value(rooms[0].id, "temperature") == home.read_value(rooms[1].id, "temperature")
    ):
        return None
    others = tuple(room.name for room in rooms[1:])
    answer = Answer(type="text", value=rooms[0].name, accepted=((rooms[0].name,),), distractors=others)
    reply = frame_meaning("query.reply.room", room=room_text(rooms[0]))
    return make_question_draft(
        frame_meaning("query.warmest" if warm else "query.coldest"), answer, tuple(known.values()), reply
    )


def typed_value_text(value: float, kind: ValueType | None) -> Callable[[Speaker], str]:
    """A slot that says a value of this type."""
    return lambda speaker: speaker.value(value, kind)
