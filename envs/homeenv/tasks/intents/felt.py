"""Wishes for more or less of something in a room, without a device: "a bit warmer in the study".

Invariants: one device of the room alone can change what is felt, by one attribute; the wish is met as one of
`adjust/step` is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose, adjust
from homerl.envs.homeenv.tasks.intents.adjust import FELT, AdjustmentRequest, find_dials

FELT_IN_ROOMS = ("light", "sound", "warmth")


@dataclass(frozen=True)
class FeltWish:
    """A wish for more or less light, sound or warmth in a room; `way` is up or down."""

    group: str
    way: str
    room: Room

    def words(self, speaker: Speaker) -> str:
        """The request, which names the room alone."""
        said = speaker.say(f"felt.{self.way}.{self.group}", room=speaker.room(self.room))
        return speaker.say("request", act=said) if speaker.style == "clear" else said


def propose_felt_in_room(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A step of the only device that can make it."""
    every = [dial for dial in find_dials(home, rng, frozenset()) if FELT[dial.attribute_name] in FELT_IN_ROOMS]
    places = [(FELT[dial.attribute_name], dial.device.room.id) for dial in every]
    for dial, place in zip(every, places):
        # Another device of the room may have such an attribute though it cannot be changed as the home now is.
        others = [one for one in home.plan.devices if one.room.id == place[1] and one.did != dial.device.did]
        names = {path.rpartition(".")[2] for one in others for path in one.spec.attribute_index}
        lone = places.count(place) == 1 and not any(FELT.get(name) == place[0] for name in names)
        draft = adjust.propose_step_of_dial(home, rng, dial) if lone and dial.device.did not in ask.taken else None
        if draft and isinstance(draft.meaning, AdjustmentRequest):
            felt = FeltWish(place[0], draft.meaning.way, dial.device.room)
            return replace(draft, subcategory="in_room", meaning=felt, plainly=draft.meaning)
    return None


SUBCATEGORIES: dict[str, Propose] = {"in_room": propose_felt_in_room}
