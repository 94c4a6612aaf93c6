"""Ambiguous intents, QT3 and TC3: complaints, scenes, and requests with a missing slot (HomeFlow Table 10).

- `state_level`: a complaint with its remedies (`complaints.yaml`), such as "it is too dark in here".
- `scene_level`: what people are about to do, and what they want of the home then (`scenes.yaml`): "i am going to bed".
- `slot_missing`: a request with several readings, such as "turn on the light".

The agent may act on a complaint or a scene, or ask about it. If a slot is missing, it must ask before it acts.

Invariants:
- A complaint is true in the home, and every remedy in its room counts. The plain answer to a question asks for one of them.
- A scene asks for all that its wishes say about the devices of the place; what is already so must stay so. If the agent
  asks, the user spells out everything.
- A bound condition compiles for the home and compares only with values that the part can have; otherwise there is none.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.language.meaning import (
    Act,
    Meaning,
    SpokenCommand,
    Target,
    devices_of_kind,
    has_lookalikes,
    parts_of_kind,
)
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning, is_wide_kind, kind_noun
from homerl.envs.homeenv.sim.conditions import Condition, compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE
from homerl.envs.homeenv.tasks.actions import (
    DeviceAction,
    Operation,
    actions,
    can_device_do,
    carry_out_on_part,
    home_after_calls,
    make_action,
)
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, draft_of_actions, user_room
from homerl.envs.homeenv.tasks.intents.device_choice import KINDS, TRIVIAL, resolve_target
from homerl.envs.homeenv.tasks.prompts import agent_prompts

HERE = 0.6  # probability that people leave out the room in which they speak


# Conditions and steps of the files, bound to a home


SELF, ROOM = re.compile(r"\bself\."), re.compile(r"\broom\.")
STATED = re.compile(r'(?<=\bself\.state [!=]= )"(\w+)"')  # a state, which parts spell in their own ways


class ServiceStep(Model):
    """A service and its value, which is fixed or relative.

    `value` is a fixed value. `now` is added to the current value of the attribute that the service sets. `room` is
    added to the temperature of the room. A relative value is clipped to the range from `least` to `most`.
    """

    service: str
    value: str | int | bool | None = None
    now: int | None = None
    room: int | None = None
    least: float = -math.inf
    most: float = math.inf


def bind_to_part(text: str, home: Home, device: Device, prefix: str) -> Condition | None:
    """The condition for a part, or None if it does not fit the part.

    In `text`, {attribute} stands for its current value, and {room} for the temperature of the room.
    """
    try:
        text = text.format_map(_ValuesNow(home, device, prefix))
        if prefix + STATE in device.spec.attribute_index:  # states as the part spells them
            kind = device.spec.attribute_index[prefix + STATE][1]
            text = STATED.sub(lambda found: code_literal(kind.value_of_word(found[1])), text)
        condition = compile_condition(SELF.sub(f'device("{device.did}").{prefix}', text), home.plan)
        for slot, value in condition.comparisons:
            home.plan.slots[slot].type.check_value(value)
    except (InputError, KeyError, Refused):
        return None
    return condition


def bind_to_room(text: str, home: Home, room: Room) -> Condition:
    """The condition for a room."""
    return compile_condition(ROOM.sub(f'room("{room.id}").', text), home.plan)


class _ValuesNow(dict[str, Any]):
    """The current values of a part, read when they are looked up. What is null or missing raises `KeyError`.

    `room` is the temperature of the room, within the range of the target temperature.
    """

    def __init__(self, home: Home, device: Device, prefix: str) -> None:
        self.home, self.device, self.prefix = home, device, prefix

    def __missing__(self, name: str) -> Any:
        if name == "room":
            value = int(self.home.read_value(self.device.room.id, "temperature"))
            kind = self.device.spec.attribute_index[self.prefix + "target_temperature"][1]
            low, high = kind.range or (value, value)
            return int(min(max(value, low), high))
        path = self.prefix + name
        if path not in self.device.spec.attribute_index or (now := self.home.read_value(self.device.did, path)) is None:
            raise KeyError(path)
        return now


def bind_steps(steps: tuple[ServiceStep, ...], home: Home, device: Device, prefix: str) -> tuple[Operation, ...] | None:
    """The steps with their values computed; None if the part lacks a service or a value does not fit it."""
    bound = []
    for step in steps:
        if prefix + step.service in device.spec.switch_services:
            bound.append(Operation(step.service, None, None))
            continue
        service = device.spec.service_index.get(prefix + step.service)
        if service is None or len(service.service.arguments) > 1:
            return None
        type = next(iter(service.service.arguments), None)
        try:
            value = _value_of_step(step, _ValuesNow(home, device, prefix), type)
        except (KeyError, Refused):
            return None
        bound.append(Operation(step.service, value, type))
    return tuple(bound)


def _value_of_step(step: ServiceStep, now: _ValuesNow, type: Any) -> Any:
    if type is None or (step.now is None and step.room is None):
        return None if type is None else type.check_value(step.value)
    base = now["room"] + step.room if step.room is not None else now[step.service.removeprefix("set_")] + step.now
    base = min(max(base, step.least), step.most)
    low, high = type.range or (base, base)
    whole = 5 * round(base / 5) if high - low > 50 else base  # round over wide ranges, as people would say it
    value = min(max(whole, low), high)
    return type.check_value(float(value) if type.type == "float" else int(value))


def carry_out_steps(
    steps: tuple[ServiceStep, ...], home: Home, device: Device, prefix: str
) -> tuple[DeviceAction, tuple[Operation, ...]] | None:
    """The action and the operations of the steps; None if the part cannot do them or they change nothing."""
    wanted = bind_steps(steps, home, device, prefix)
    carried = carry_out_on_part(home, device, prefix, wanted) if wanted else None
    return (carried[0], wanted) if wanted and carried is not None and carried[1] else None


# Complaints


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
        named = first.to_act(Target.of_device(self.device, self.prefix[:-1]))
        return SpokenCommand((named, *(one.to_act(it) for one in others)))


def propose_state_level(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A complaint that is true in some room, with a remedy there."""
    rooms = sorted({device.room.id for device in home.plan.devices})
    pairs = [(name, home.plan.rooms_by_id[room]) for name in load_complaints() for room in rooms]
    by_name = {name: rng.random() for name in load_complaints()}  # all are equally likely, however many rooms they have
    near = user_room(home, ask) if rng.random() < HERE else None
    order = sorted(rng.sample(pairs, len(pairs)), key=lambda pair: (pair[1] != near, by_name[pair[0]]))
    for name, room in order:
        complaint = load_complaints()[name]
        applied = find_remedies(home, room, complaint) if is_complaint_true(home, room, complaint) else []
        feasible = [remedy for remedy in applied if remedy.how is not None]
        if feasible and not any(remedy.device.did in ask.taken for remedy in applied):
            unnamed = room == user_room(home, ask) and rng.random() < HERE  # the agent knows that the user is there
            said = frame_meaning(f"ambiguous.{name}.here") if unnamed else frame_meaning(f"ambiguous.{name}.in", room=room)
            return _draft_complaint(home, said, applied, rng.choice(feasible))
    return None


def is_complaint_true(home: Home, room: Room, complaint: Complaint) -> bool:
    """Whether a sign of the complaint holds in the room."""
    for sign in complaint.when:
        if sign.kind is None and bind_to_room(sign.if_, home, room).holds_in(home):
            return True
        parts = _parts_in_room(home, room, sign.kind) if sign.kind else ()
        if any((condition := bind_to_part(sign.if_, home, *part)) and condition.holds_in(home) for part in parts):
            return True
    return False


def find_remedies(home: Home, room: Room, complaint: Complaint) -> list[AppliedRemedy]:
    """All remedies in the room that are applicable and not yet effective."""
    applied = []
    for remedy in complaint.remedies:
        for device, prefix in _parts_in_room(home, room, remedy.kind):
            fits, better = (bind_to_part(text, home, device, prefix) for text in (remedy.if_, remedy.better))
            if fits and better and fits.holds_in(home) and not better.holds_in(home):
                how = carry_out_steps(remedy.do, home, device, prefix) if remedy.do else None
                helps = how is not None and better.holds_in(home_after_calls(home, how[0].plan))
                applied.append(AppliedRemedy(device, prefix, better, how if helps else None))
    return applied


def _parts_in_room(home: Home, room: Room, kind: str) -> list[tuple[Device, str]]:
    return [(device, prefix) for device in home.find_devices(room.id) for prefix in parts_of_kind(device, kind)]


def _draft_complaint(home: Home, meaning: Meaning, applied: list[AppliedRemedy], chosen: AppliedRemedy) -> Draft:
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


# Scenes


MOST_ACTS = 6  # nobody would spell out more
MOST_DEVICES = 24


class SceneWish(Model):
    """What is wanted of a kind of device: the first step in `do` that a part can carry out."""

    kind: str
    do: tuple[ServiceStep, ...]
    if_: str | None = Field(None, alias="if")
    want: str | None = None
    plain: str | None = None


class SceneSpec(Model):
    """A scene: the types of rooms in which it occurs (none: the whole home), and its wishes.

    `needs` are kinds of devices that the place must have. `if` is a condition on the weather.
    """

    rooms: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    if_: str | None = Field(None, alias="if")
    wishes: tuple[SceneWish, ...]


@lru_cache
def load_scenes() -> dict[str, SceneSpec]:
    """All scenes by name."""
    return validate_document(dict[str, SceneSpec], read_yaml(Path(__file__).parent / "scenes.yaml"))


@dataclass(frozen=True)
class GrantedWish:
    """A wish for one part: its operation and action, the condition that then holds, and whether it holds already."""

    device: Device
    prefix: str
    operation: Operation
    action: DeviceAction
    condition: str
    already: bool

    @property
    def telling_attribute(self) -> str:
        """The attribute that shows whether the wish is fulfilled: the last one that the condition reads."""
        return self.condition.split(" and ")[-1].split('").')[1].split()[0].rstrip(")")


def propose_scene_level(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A scene for which a room, or the home, has suitable devices."""
    for name in rng.sample(list(load_scenes()), len(load_scenes())):
        scene = load_scenes()[name]
        rooms: list[Room | None] = [room for room in home.plan.rooms if room.type in scene.rooms] if scene.rooms else [None]
        weather = scene.if_ is None or bind_to_room(scene.if_, home, home.plan.rooms[0]).holds_in(home)
        for room in rng.sample(rooms, len(rooms)):
            fits = weather and all(_devices_in_place(home, room, kind) for kind in scene.needs)
            if fits and (draft := _draft_scene(home, name, scene, room, rng, ask)):
                return draft
    return None


def _devices_in_place(home: Home, room: Room | None, kind: str) -> list[Device]:
    return [device for device in devices_of_kind(home, kind) if room in (None, device.room)]


def _draft_scene(home: Home, name: str, scene: SceneSpec, room: Room | None, rng: random.Random, ask: Ask) -> Draft | None:
    found = [(wish, parts) for wish in scene.wishes if (parts := _grant_wish(home, room, wish))]
    groups = [(wish, [one for one in parts if one is not None]) for wish, parts in found]
    granted = [one for _, group in groups for one in group]
    todo = [one for one in granted if not one.already]
    refused = len(granted) < sum(len(parts) for _, parts in found)
    if refused or not todo or len(granted) > MOST_DEVICES or any(one.device.did in ask.taken for one in granted):
        return None
    acts = [act for wish, group in groups for act in _spell_out_wish(home, room, wish, group)]
    if not 0 < len(acts) <= MOST_ACTS or (len(acts) == 1 and len(home.plan.devices) > 9):
        return None
    # The agent can infer the room if it is the only one for the scene, or if the user is there.
    alone = sum(other.type in scene.rooms for other in home.plan.rooms) == 1
    bare = room is not None and (alone or room == user_room(home, ask)) and rng.random() < 0.6
    key = f"ambiguous.scene.{name}"
    if room is None or bare:
        meaning = frame_meaning(f"{key}.home" if room is None else f"{key}.here")
    else:
        meaning = frame_meaning(f"{key}.in", room=room)
    kept = dict.fromkeys(one.condition for one in granted if one.already)
    devices = tuple(dict.fromkeys(one.device.did for one in todo))
    return Draft(
        "scene_level",
        meaning,
        Factors(clarity="ambiguous", scope="single_device" if len(devices) == 1 else "multi_device"),
        conditions=tuple(one.condition for one in todo),
        devices=devices,
        plan=tuple(call for one in todo for call in one.action.plan),
        plainly=SpokenCommand(tuple(acts)),
        keeps=tuple(kept),
        reads=tuple(dict.fromkeys((one.device.did, one.telling_attribute) for one in granted)),
    )


def _grant_wish(home: Home, room: Room | None, wish: SceneWish) -> list[GrantedWish | None]:
    """The wish for each part that it concerns; an item is None if no step can be carried out."""
    granted = []
    for device in _devices_in_place(home, room, wish.kind):
        for prefix in parts_of_kind(device, wish.kind):
            applies = wish.if_ is None or bind_to_part(wish.if_, home, device, prefix)
            if not applies or not any(can_device_do(device, prefix + step.service) for step in wish.do):
                continue
            if applies is True or applies.holds_in(home):
                granted.append(_grant_part(home, wish, device, prefix))
    return granted


def _grant_part(home: Home, wish: SceneWish, device: Device, prefix: str) -> GrantedWish | None:
    for step in wish.do:
        wanted = bind_steps((step,), home, device, prefix)
        carried = carry_out_on_part(home, device, prefix, wanted) if wanted else None
        if wanted is None or carried is None:
            continue
        action, changes = carried
        conditions = (bind_to_part(text, home, device, prefix) for text in (wish.want, wish.plain) if text)
        condition = next((bound for bound in conditions if bound is not None), None)
        text = condition.text if condition is not None else action.condition
        already = condition.holds_in(home) if condition is not None else not changes
        return GrantedWish(device, prefix, wanted[0], action, text, already)
    return None


def _spell_out_wish(home: Home, room: Room | None, wish: SceneWish, group: Sequence[GrantedWish]) -> list[Act]:
    """The wish as acts.

    If it concerns all devices of a kind, one act names the kind. Otherwise an act names each device that must still
    change.
    """
    target = resolve_target(Target((), wish.kind, rooms=(room,) if room else ()), home)
    alike = {(one.operation.service, one.operation.value) for one in group}
    whole = {device.did for device in target.devices} == {one.device.did for one in group}
    if len(target.devices) > 1 and len(alike) == 1 and whole and not has_lookalikes(home, target):
        return [group[0].operation.to_act(target)]
    acts = []
    for device in target.devices:  # one act for the whole device if its parts agree, otherwise one for each part
        todo = [one for one in group if one.device == device and not one.already]
        every = 1 < len(todo) == len(parts_of_kind(device, wish.kind))
        if every and len({one.operation for one in todo}) == 1:
            acts.append(todo[0].operation.to_act(Target.of_device(device)))
        else:
            acts += [one.operation.to_act(Target.of_device(device, one.prefix[:-1])) for one in todo]
    return acts


# Requests with a missing slot


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

    def list_names(self, speaker: Speaker) -> Iterator[str]:
        """What a question for the device names: the kind, a candidate, or, where no room was named, a room."""
        for number in ("one", "many"):
            yield from speaker.grammar.plain_texts(f"kind.{self.kind}.{number}")
        candidates = [one for one in devices_of_kind(speaker.home, self.kind) if self.room in (None, one.room)]
        yield from (device.name for device in candidates)
        if self.room is None:
            yield from agent_prompts(speaker.voice.language).asked_for.room
            yield from (device.room.name for device in candidates)


def which_device_question(kind: str, room: Room | None) -> Meaning:
    """The clarifying question which device of a kind is meant; it asks for the room if none was named."""
    one, each = partial(kind_noun, kind, "one"), frame_meaning(f"kind.{kind}.count", number="")
    if room is None:
        return frame_meaning("ambiguous.ask_room", one=one, each=each)
    return frame_meaning("ambiguous.ask_device", one=one, each=each, room=room)


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
        missing = self.missing
        if self.asked:
            return speaker.say(f"ambiguous.ask_{missing}", **slots)
        key = speaker.first_known_key(f"ambiguous.open.{self.act.service}", f"ambiguous.open_{missing}")
        return speaker.say("request", act=speaker.say(key, **slots))

    @property
    def missing(self) -> Literal["mode", "value", "duration"]:
        """The sort of the argument that is missing."""
        if self.act.type and self.act.type.unit in ("minute", "hour", "second"):
            return "duration"
        return "mode" if isinstance(self.act.value, str) else "value"

    def list_names(self, speaker: Speaker) -> Iterator[str]:
        """What a question for the argument names: the argument, or one of its options."""
        yield from speaker.list_names(self.act.service.removeprefix("set_"))
        yield from getattr(agent_prompts(speaker.voice.language).asked_for, self.missing)
        options = self.act.type.options if self.act.type else None
        yield from (speaker.value(option, self.act.type) for option in options or () if isinstance(option, str))


def propose_slot_missing(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A request that leaves out the room, the device, the mode, the value or the duration."""
    ways = [_leave_out_device, _leave_out_device, _leave_out_value]
    drafts = (way(home, rng, ask) for way in rng.sample(ways, len(ways)))
    return next(filter(None, drafts), None)


def _leave_out_value(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    for action in actions(home, rng):
        if action.device.did not in ask.taken and can_leave_out_value(action):
            act = action.act()
            request = UnvaluedRequest(act)
            return _draft_open_request(action, request, replace(request, asked=True), request.list_names)
    return None


def _leave_out_device(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    for action in actions(home, rng):
        if (kind := open_kind_of(home, action)) is None:
            continue
        room = action.device.room if rng.random() < 0.35 else None
        if action.device.did not in ask.taken and can_leave_out_device(home, action, kind, room):
            request = AnyDeviceRequest(action.act(), kind, room)
            return _draft_open_request(action, request, which_device_question(kind, room), request.list_names)
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
    if has_lookalikes(home, scope) or len(parts_of_kind(action.device, kind)) != 1:
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


def _draft_open_request(
    action: DeviceAction, meaning: Meaning, question: Meaning, names: Callable[[Speaker], Iterable[str]]
) -> Draft:
    draft = draft_of_actions("slot_missing", (action,), Factors(clarity="missing_slot"))
    return replace(draft, meaning=meaning, plainly=draft.meaning, clarify=True, question=question, names=names)


SUBCATEGORIES = {
    "state_level": propose_state_level,
    "scene_level": propose_scene_level,
    "slot_missing": propose_slot_missing,
}
