"""Requests for a device that is not there: "switch on the fan" where the home has none, or the room that is named.

Invariants: nothing in the home could be taken for the device, and nothing may change; the answer is that there is none.
"""

from __future__ import annotations

import random

from homerl.envs.homeenv.language.meaning import Act, Target, aliases_of, denoted_devices, has_lookalikes
from homerl.envs.homeenv.language.speaker import frame_meaning, kind_noun
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.ambiguous import AnyDeviceRequest
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft, statement_reply
from homerl.play.words.answer_rules import Answer

WORD = {  # of the kinds that people switch on and off, with a word that would make a person take something for it
    "light": "light",
    "fan": "fan",
    "air_conditioner": "air con",
    "heater": "heater",
    "humidifier": "humidifier",
    "dehumidifier": "dehumidifier",
    "air_purifier": "purifier",
    "speaker": "speaker",
    "tv": "tv",
}
KINDS = tuple(WORD)
SERVICES = ("turn_on", "turn_off")


def propose_absent_in_home(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A device of a kind that the home has not."""
    missing = (kind for kind in rng.sample(KINDS, len(KINDS)) if _is_absent(home, kind))
    return next((_draft_absent("in_home", kind, None, rng) for kind in missing), None)


def propose_absent_in_room(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A device in a room that has none of the kind; the home may have one elsewhere."""
    rooms = list(dict.fromkeys(device.room for device in home.plan.devices))  # an agent is told of no other
    places = [(kind, room) for kind in KINDS for room in rooms]
    missing = ((kind, room) for kind, room in rng.sample(places, len(places)) if _is_absent(home, kind, room))
    return next((_draft_absent("in_room", kind, room, rng) for kind, room in missing), None)


def _is_absent(home: Home, kind: str, room: Room | None = None) -> bool:
    """Whether nothing of the kind is there, and no name has its word."""
    scope = Target((), kind, rooms=(room,) if room else ())
    near = [device for device in home.plan.devices if room in (None, device.room)]
    names = [name.lower() for device in near for name in (device.name, *aliases_of(device, home))]
    some = denoted_devices(scope, home) or has_lookalikes(home, scope)
    return not some and not any(WORD[kind] in name for name in names)


def _draft_absent(subcategory: str, kind: str, room: Room | None, rng: random.Random) -> Draft | None:
    wish = AnyDeviceRequest(Act(rng.choice(SERVICES), Target((), kind)), kind, room)
    slots = {"one": lambda speaker: kind_noun(kind, "one", speaker)} | ({"room": room} if room else {})
    reply = statement_reply(frame_meaning("absent.reply_in" if room else "absent.reply", **slots))
    return make_question_draft(wish, Answer(type="names", value=()), (), reply, subcategory)


SUBCATEGORIES: dict[str, Propose] = {"in_home": propose_absent_in_home, "in_room": propose_absent_in_room}
