"""Ambiguous intents, QT3 and TC3: complaints, scenes, and requests with a missing slot (HomeFlow Table 10).

The agent may act on a complaint or a scene, or ask about it. If a slot is missing, the request has several readings,
and the agent must ask before it acts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from homerl.envs.homeenv.language.meaning import Act, Meaning, Target, parts_of_kind
from homerl.envs.homeenv.language.speaker import Speaker, is_wide_kind, kind_noun
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import DeviceAction, actions, can_device_do, make_action
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents.complaints_and_scenes import propose_scene_level, propose_state_level
from homerl.envs.homeenv.tasks.intents.device_choice import KINDS, TRIVIAL, is_muddled, resolve_target
from homerl.envs.homeenv.tasks.intents.draft import Ask, Draft, control

UNSAID = ("set_alias", "set_channel", "set_hold_time", "set_breathing_light_enabled")


@dataclass(frozen=True)
class AnyDeviceRequest:
    """An act on some device of a kind, in a room or anywhere: "turn on the light"."""

    act: Act
    kind: str
    room: Room | None

    def words(self, speaker: Speaker) -> str:
        """The request, which does not say which device."""
        one = kind_noun(self.kind, "one", speaker)
        if self.room is None:
            said = speaker.say("ambiguous.some", one=one)
        else:
            said = speaker.say("ambiguous.some_in", one=one, room=speaker.room(self.room))
        return speaker.say("request", act=speaker.act(self.act, said))


@dataclass(frozen=True)
class WhichDeviceQuestion:
    """The clarifying question which device of a kind is meant."""

    kind: str
    room: Room | None

    def words(self, speaker: Speaker) -> str:
        """The question; it asks for the room if none was named."""
        slots = {"one": kind_noun(self.kind, "one", speaker), "each": speaker.say(f"kind.{self.kind}.count", number="")}
        if self.room is None:
            return speaker.say("ambiguous.ask_room", **slots)
        return speaker.say("ambiguous.ask_device", **slots, room=speaker.room(self.room))


@dataclass(frozen=True)
class UnvaluedRequest:
    """An act without its argument: "set the brightness of the desk lamp".

    With `asked`, it is the clarifying question for the argument.
    """

    act: Act
    asked: bool = False

    def words(self, speaker: Speaker) -> str:
        """The request, or the question."""
        slots = {"target": speaker.say_target(self.act.target), "name": speaker.name(self.act.service.removeprefix("set_"))}
        missing = "mode" if isinstance(self.act.value, str) else "value"
        if self.act.type and self.act.type.unit in ("minute", "hour", "second"):
            missing = "duration"
        if self.asked:
            return speaker.say(f"ambiguous.ask_{missing}", **slots)
        key = speaker.first_known_key(f"ambiguous.open.{self.act.service}", f"ambiguous.open_{missing}")
        return speaker.say("request", act=speaker.say(key, **slots))


def propose_slot_missing(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A request that leaves out the room, the device, the mode, the value or the duration."""
    ways = [_leave_out_device, _leave_out_device, _leave_out_value]
    drafts = (way(home, rng, ask) for way in rng.sample(ways, len(ways)))
    return next(filter(None, drafts), None)


def _leave_out_value(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    for action in actions(home, rng):
        if action.device.did not in ask.taken and can_leave_out_value(action):
            act = action.act()
            return _draft_open_request(action, UnvaluedRequest(act), UnvaluedRequest(act, asked=True))
    return None


def _leave_out_device(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    for action in actions(home, rng):
        if (kind := open_kind_of(home, action)) is None:
            continue
        room = action.device.room if rng.random() < 0.35 else None
        if action.device.did not in ask.taken and can_leave_out_device(home, action, kind, room):
            request = AnyDeviceRequest(action.act(), kind, room)
            return _draft_open_request(action, request, WhichDeviceQuestion(kind, room))
    return None


def open_kind_of(home: Home, action: DeviceAction) -> str | None:
    """The kind by which people may call the action's part without saying which one, or None."""
    prefix = action.part_name + "." if action.part_name else ""
    kinds = (kind for kind in KINDS if prefix in parts_of_kind(action.device, kind) and not is_wide_kind(home, kind))
    return next(kinds, None) if _can_be_left_out(action) else None


def can_leave_out_value(action: DeviceAction) -> bool:
    """Whether the action has a value without which the request is understood, but open."""
    return action.value is not None and not isinstance(action.value, bool) and _can_be_left_out(action)


def can_leave_out_device(home: Home, action: DeviceAction, kind: str, room: Room | None) -> bool:
    """Whether "the light" (in a room, or anywhere) leaves open which device the action is on.

    Several devices could do it, each with one part of the kind, and neither their state nor the place of the user
    decides which.
    """
    scope = resolve_target(Target((), kind, rooms=(room,) if room else ()), home)
    if is_muddled(home, scope) or len(parts_of_kind(action.device, kind)) != 1:
        return False
    could = [device for device in scope.devices if _can_kind_do(home, device, action, kind)]
    near = [device for device in scope.devices if device.room == home.plan.entrance_room]
    apart = room is not None or (len({device.room.id for device in could}) > 1 and len(near) != 1)
    return len(could) > 1 and apart


def _can_be_left_out(action: DeviceAction) -> bool:
    return action.service not in UNSAID and action.value not in TRIVIAL


def _can_kind_do(home: Home, device: Device, action: DeviceAction, kind: str) -> bool:
    paths = [prefix + action.service for prefix in parts_of_kind(device, kind)]
    try:
        return any(make_action(home, device, path, action.value) for path in paths if can_device_do(device, path))
    except ValueError:  # the value is none that plans can hold for this device
        return False


def _draft_open_request(action: DeviceAction, meaning: Meaning, question: Meaning) -> Draft:
    draft = control("slot_missing", (action,), Factors(clarity="missing_slot"))
    return replace(draft, meaning=meaning, plainly=draft.meaning, clarify=True, question=question)


SUBCATEGORIES = {
    "state_level": propose_state_level,
    "scene_level": propose_scene_level,
    "slot_missing": propose_slot_missing,
}
