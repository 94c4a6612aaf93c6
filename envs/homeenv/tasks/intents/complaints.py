"""Complaints and their remedies (`complaints.yaml`): "it is too dark in here".

Invariants: a complaint is true in the home; every remedy in the room of the complaint counts; the plain answer to a
clarifying question asks for one of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.language.meaning import SpokenCommand, Target
from homerl.envs.homeenv.language.noun import parts_of_kind
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.conditions import Condition
from homerl.envs.homeenv.tasks.actions import DeviceAction
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents.binding import ServiceStep, bind_to_part, bind_to_room, carry_out_steps
from homerl.envs.homeenv.tasks.intents.draft import Ask, Draft, user_room
from homerl.envs.homeenv.tasks.intents.operation import Operation

HERE = 0.6  # probability that people leave out the room in which they speak


class ComplaintSign(Model):
    """A condition that makes a complaint true: on the air of the room, or on a part of a kind of device in it."""

    kind: str | None = None
    if_: str = Field(alias="if")


class Remedy(Model):
    """What helps, for a kind of device: applicable while `if` holds, and effective once `better` holds."""

    kind: str
    if_: str = Field(alias="if")
    better: str
    do: tuple[ServiceStep, ...] = ()


class Complaint(Model):
    """The signs of a complaint, any of which makes it true, and its remedies."""

    when: tuple[ComplaintSign, ...]
    remedies: tuple[Remedy, ...]


@lru_cache
def load_complaints() -> dict[str, Complaint]:
    """All complaints by name."""
    return validate_document(dict[str, Complaint], read_yaml(Path(__file__).parent / "complaints.yaml"))


@dataclass(frozen=True)
class ComplaintMeaning:
    """A complaint about a room; without a room, about the room in which the user is."""

    name: str
    room: Room | None

    def words(self, speaker: Speaker) -> str:
        """The complaint as a sentence."""
        if self.room is None:
            return speaker.say(f"ambiguous.{self.name}.here")
        return speaker.say(f"ambiguous.{self.name}.in", room=speaker.room(self.room))


@dataclass(frozen=True)
class AppliedRemedy:
    """A remedy for one part of a device in a home.

    `better` holds when it has helped. `how` are its action and operations, or None if people would not ask for it.
    """

    device: Device
    prefix: str
    better: Condition
    how: tuple[DeviceAction, tuple[Operation, ...]] | None

    @property
    def plain_request(self) -> SpokenCommand:
        """The explicit request for the remedy."""
        assert self.how is not None
        first, *others = self.how[1]
        it = Target((self.device,), pronoun=True)
        return SpokenCommand(
            (first.to_act(Target.of_device(self.device, self.prefix[:-1])), *(one.to_act(it) for one in others))
        )


def propose_state_level(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A complaint that is true in some room, with a remedy there."""
    rooms = sorted({device.room.id for device in home.plan.devices})
    pairs = [(name, home.plan.rooms_by_id[room]) for name in load_complaints() for room in rooms]
    by_name = {name: rng.random() for name in load_complaints()}  # all are equally likely, however many rooms they have
    near = user_room(home, ask) if rng.random() < HERE else None
    order = sorted(rng.sample(pairs, len(pairs)), key=lambda pair: (pair[1] != near, by_name[pair[0]]))
    for name, room in order:
        applied = (
            find_remedies(home, room, load_complaints()[name])
            if is_complaint_true(home, room, load_complaints()[name])
            else []
        )
        feasible = [remedy for remedy in applied if remedy.how is not None]
        if feasible and not any(remedy.device.did in ask.taken for remedy in applied):
            return _drafted(home, ComplaintMeaning(name, _named(home, room, ask, rng)), applied, rng.choice(feasible), ask)
    return None


def is_complaint_true(home: Home, room: Room, complaint: Complaint) -> bool:
    """Whether a sign of the complaint holds in the room."""
    for sign in complaint.when:
        if sign.kind is None and bind_to_room(sign.if_, home, room).holds_in(home):
            return True
        parts = _parts(home, room, sign.kind) if sign.kind else ()
        if any((condition := bind_to_part(sign.if_, home, *part)) and condition.holds_in(home) for part in parts):
            return True
    return False


def find_remedies(home: Home, room: Room, complaint: Complaint) -> list[AppliedRemedy]:
    """All remedies in the room that are applicable and not yet effective."""
    applied = []
    for remedy in complaint.remedies:
        for device, prefix in _parts(home, room, remedy.kind):
            fits, better = (bind_to_part(text, home, device, prefix) for text in (remedy.if_, remedy.better))
            if fits and better and fits.holds_in(home) and not better.holds_in(home):
                how = carry_out_steps(remedy.do, home, device, prefix) if remedy.do else None
                applied.append(AppliedRemedy(device, prefix, better, how if how and _helps(home, how[0], better) else None))
    return applied


def _parts(home: Home, room: Room, kind: str) -> list[tuple[Device, str]]:
    return [(device, prefix) for device in home.find_devices(room.id) for prefix in parts_of_kind(device, kind)]


def _helps(home: Home, action: DeviceAction, better: Condition) -> bool:
    after = home.fork()
    for call in action.plan:
        after.call(call.did, call.service, call.args)
    return better.holds_in(after)


def _named(home: Home, room: Room, ask: Ask, rng: random.Random) -> Room | None:
    """The room to name; None if the agent knows that the user is there and the sentence leaves it out."""
    return None if room == user_room(home, ask) and rng.random() < HERE else room


def _drafted(home: Home, meaning: ComplaintMeaning, applied: list[AppliedRemedy], chosen: AppliedRemedy, ask: Ask) -> Draft:
    assert chosen.how is not None
    slots = sorted({slot for remedy in applied for slot in remedy.better.slots})
    return Draft(
        "state_level",
        meaning,
        Factors(clarity="ambiguous"),
        conditions=(" or ".join(f"({text})" for text in dict.fromkeys(remedy.better.text for remedy in applied)),),
        devices=tuple(dict.fromkeys(remedy.device.did for remedy in applied)),
        plan=chosen.how[0].plan,
        plainly=chosen.plain_request,
        reads=tuple((home.plan.slots[slot].owner, home.plan.slots[slot].path) for slot in slots),
    )
