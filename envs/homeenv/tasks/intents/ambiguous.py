"""Ambiguous intents, QT3 and TC3: complaints, scenes, and requests with a missing slot (HomeFlow Table 10).

The agent may act on a complaint or a scene, or ask about it. If a slot is missing, the request has several readings,
and the agent must ask before it acts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from homerl.envs.homeenv.language.meaning import Act, Target
from homerl.envs.homeenv.language.noun_phrases import is_wide_kind, kind_noun, parts_of_kind
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import DeviceAction, actions, can_device_do, make_action
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents.complaints_and_scenes import propose_scene_level, propose_state_level
from homerl.envs.homeenv.tasks.intents.device_choice import KINDS, TRIVIAL, is_muddled, resolve_target
from homerl.envs.homeenv.tasks.intents.draft import Ask, Draft, control

DURATIONS = ("minute", "hour", "second")
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
        if self.asked:
            return speaker.say(f"ambiguous.ask_{self._slot}", **slots)
        key = speaker.first(f"ambiguous.open.{self.act.service}", f"ambiguous.open_{self._slot}")
        return speaker.say("request", act=speaker.say(key, **slots))

    @property
    def _slot(self) -> str:
        type = self.act.type
        return "duration" if type and type.unit in DURATIONS else "mode" if isinstance(self.act.value, str) else "value"


def propose_slot_missing(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A request that leaves out the room, the device, the mode, the value or the duration."""
    ways = [_device_missing, _device_missing, _value_missing]
    for way in rng.sample(ways, len(ways)):
        if draft := way(home, rng, ask):
            return draft
    return None


def _value_missing(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    for action in actions(home, rng):
        if action.device.did in ask.taken or not can_leave_out_value(action):
            continue
        act = action.act()
        return _drafted(action, UnvaluedRequest(act), UnvaluedRequest(act, asked=True), ask)
    return None


def _device_missing(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    for action, kind in _of_kinds(home, rng):
        room = action.device.room if rng.random() < 0.35 else None
        if action.device.did in ask.taken or not can_leave_out_device(home, action, kind, room):
            continue
        return _drafted(action, AnyDeviceRequest(action.act(), kind, room), WhichDeviceQuestion(kind, room), ask)
    return None


def _of_kinds(home: Home, rng: random.Random) -> Iterator[tuple[DeviceAction, str]]:
    """Actions, each with the kind of its part."""
    for action in actions(home, rng):
        if kind := open_kind_of(home, action):
            yield action, kind


def open_kind_of(home: Home, action: DeviceAction) -> str | None:
    """The kind by which people may call the action's part without saying which one, or None."""
    prefix = action.part_name + "." if action.part_name else ""
    kinds = (kind for kind in KINDS if prefix in parts_of_kind(action.device, kind) and not is_wide_kind(home, kind))
    return next(kinds, None) if _can_be_left_out(action) else None


def can_leave_out_value(action: DeviceAction) -> bool:
    """Whether the action has a value without which the request is understood, but open."""
    return action.value is not None and not isinstance(action.value, bool) and _can_be_left_out(action)


def can_leave_out_device(home: Home, action: DeviceAction, kind: str, room: Room | None) -> bool:
    """Whether "the light" (in a room, or anywhere) leaves open which device the action is on."""
    scope = resolve_target(Target((), kind, rooms=(room,) if room else ()), home)
    return not is_muddled(home, scope) and _is_open(home, scope, action, room)


def _can_be_left_out(action: DeviceAction) -> bool:
    return action.service not in UNSAID and action.value not in TRIVIAL


def _is_open(home: Home, scope: Target, action: DeviceAction, room: Room | None) -> bool:
    """Whether the request has several readings that nothing in the home decides.

    Several devices could do it, each with one part of the kind, and neither their state nor the place of the user
    decides which.
    """
    could = [device for device in scope.devices if _could(home, device, action, scope.required_kind)]
    near = [device for device in scope.devices if device.room == home.plan.entrance_room]
    single = len(parts_of_kind(action.device, scope.required_kind)) == 1
    apart = room is not None or (len({device.room.id for device in could}) > 1 and len(near) != 1)
    return single and len(could) > 1 and apart


def _could(home: Home, device: Device, action: DeviceAction, kind: str) -> bool:
    paths = [prefix + action.service for prefix in parts_of_kind(device, kind)]
    try:
        return any(make_action(home, device, path, action.value) for path in paths if can_device_do(device, path))
    except ValueError:
        return False


def _drafted(
    action: DeviceAction,
    meaning: AnyDeviceRequest | UnvaluedRequest,
    question: WhichDeviceQuestion | UnvaluedRequest,
    ask: Ask,
) -> Draft:
    factors = Factors(clarity="missing_slot")
    draft = control("slot_missing", (action,), factors)
    return replace(draft, meaning=meaning, plainly=draft.meaning, clarify=True, question=question)


SUBCATEGORIES = {
    "state_level": propose_state_level,
    "scene_level": propose_scene_level,
    "slot_missing": propose_slot_missing,
}
