"""Context-aware multi-turn interaction, QT4 and TC5: the meaning depends on what was said before.

`continuation`, `coreference` and `topic_shift` follow an earlier dialogue, or a live intent whose conditions they leave
met. `correction` and `backtracking` follow an earlier dialogue whose actions have been carried out. If these restore a
state, the earlier dialogue tells that state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from homerl.envs.homeenv.language.meaning import (
    Meaning,
    SpokenCommand,
    SpokenName,
    SpokenValue,
    Target,
    refuse_shared_device,
)
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import DeviceAction, actions, home_after_calls, make_action, propose_action
from homerl.envs.homeenv.tasks.intents import Ask, Draft, PastTurn, Propose, draft_of_actions
from homerl.envs.homeenv.tasks.intents.device_choice import device_kind, members_of_kind
from homerl.envs.homeenv.tasks.intents.earlier_dialogue import (
    DEPENDENT,
    IT,
    SEVERAL,
    PhrasedRequest,
    UndoPlan,
    actions_on_same_part,
    draft_follow_up,
    draft_undo_and_act,
    past_actions,
    past_request,
    plan_undo,
    repeat_action,
    repeat_on_others,
)

STEPS = {  # services whose value people ask to be more or less, with their frame and kinds (None: all)
    "set_brightness": ("bright", None),
    "set_screen_brightness": ("bright", None),
    "set_volume": ("loud", ("speaker", "tv", "smart_screen")),
    "set_volume_level": ("loud", None),
    "set_speed": ("fast", ("fan",)),
    "set_fan_speed": ("fast", ("air_purifier",)),
    "set_position": ("open", None),
    "set_target_temperature": ("warm", ("heater", "air_conditioner")),
}
EXACT = ("warm",)  # the step can be said in the unit itself ("two degrees warmer")


@dataclass(frozen=True)
class FollowUp:
    """An action that is asked for in words that need the past; `also` was done after the past action."""

    action: DeviceAction
    meaning: Meaning
    also: tuple[DeviceAction, ...] = ()

    def to_draft(self) -> Draft:
        """When asked, the user names everything."""
        draft = draft_of_actions("", (self.action,), DEPENDENT, self.meaning)
        return replace(draft, plainly=SpokenCommand((self.action.act(),)))


# What may follow a past action, after which the home is `now`: way(home, now, past, rng, ask).
Way = Callable[[Home, Home, DeviceAction, random.Random, Ask], Iterator[FollowUp | Draft | None]]


def _after_a_past(subcategory: str, *ways: Way, first_only: bool = False) -> Propose:
    """A proposal that follows a past action.

    For one past action after the other, the functions `ways` are tried in random order; what a way yields first counts, and
    no more is drawn. With `first_only`, the past action has been carried out, and the proposal is made only for the first
    intent of a blueprint, which alone may have an earlier dialogue.
    """

    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        for past in past_actions(home, rng, ask) if ask.first or not first_only else ():
            now = home_after_calls(home, past.plan)
            for way in rng.sample(ways, len(ways)):
                draft = next(way(home, now, past, rng, ask), None)
                if isinstance(draft, FollowUp):
                    request = draft
                    if first_only:
                        draft = _correct_past(home, now, past, request)
                    else:
                        draft = draft_follow_up(ask, rng, home, (past, *request.also), request.to_draft())
                if draft is not None:
                    then = tuple(replace(later, subcategory=subcategory) for later in draft.then)
                    return replace(draft, subcategory=subcategory, then=then)
        return None

    return propose


def _correct_past(home: Home, now: Home, past: DeviceAction, request: FollowUp) -> Draft | None:
    """The request in place of the past action, which is undone if it was on another device."""
    if request.action.device is past.device:
        return _with_past(past, request.to_draft())
    undo = plan_undo(home, now, past.device)
    return draft_undo_and_act(undo, past, request.action, request.meaning) if undo else None


def _with_past(past: DeviceAction, now: Draft) -> Draft:
    return replace(now, before=past.plan, past=(past_request(past),))


def _free_devices(home: Home, past: DeviceAction, ask: Ask, rng: random.Random) -> list[Device]:
    """Devices other than the past one that may change, in random order."""
    taken = {past.device.did, *ask.taken}
    return rng.sample(devices := [d for d in home.plan.devices if d.did not in taken], len(devices))


def _are_same_kind(past: DeviceAction, device: Device, part: str) -> bool:
    """Whether a device has exactly the kind of the past one, so that "the same" can mean it without a name."""
    kinds = dict(device.spec.part_kinds), dict(past.device.spec.part_kinds)
    return kinds[0].get(f"{part}." if part else "") == kinds[1].get(f"{past.part_name}." if past.part_name else "")


# continuation


def _repeat_in_room(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "Also do that in the study": for the only device of the same kind there."""
    kind = device_kind(past.device, past.part_name)
    for room in rng.sample(now.plan.rooms, len(now.plan.rooms)):
        there = members_of_kind(now, kind, room)
        if room == past.device.room or len(there) != 1 or there[0][0].did in ask.taken:
            continue
        if _are_same_kind(past, *there[0]) and (action := repeat_action(now, past, *there[0])):
            yield FollowUp(action, frame_meaning("multi_turn.same_room", room=room))


def _repeat_on_device(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "The same for the study lamp"."""
    for action in repeat_on_others(now, past, rng, ask):
        yield FollowUp(action, frame_meaning("multi_turn.same_device", target=action.target))


def _set_further(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "And the speed at 3": another setting of the same device, which leaves what was asked before as it is."""
    done = compile_condition(past.condition, now.plan)
    for action in actions_on_same_part(now, past, rng, valued=True):
        if not action.service.startswith("set_") or _written_attributes(action) & _written_attributes(past):
            continue
        if done.holds_in(home_after_calls(now, action.plan)):
            frame = "multi_turn.further_switch" if isinstance(action.value, bool) else "multi_turn.further"
            name, value = SpokenName(action.service.removeprefix("set_")), action.spoken_value
            yield FollowUp(action, frame_meaning(frame, name=name, value=value))


def _written_attributes(action: DeviceAction) -> set[str]:
    """The attributes that its last call writes."""
    return {attribute.name for _, attribute, _ in action.device.spec.service_index[action.plan[-1].service].writes}


def _more_or_less(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[Draft]:
    """ "A bit brighter": more or less of what was set."""
    name, kinds = STEPS.get(past.service, (None, None))
    bounds = past.value_type.range if past.value_type else None
    numeric = isinstance(past.value, (int, float)) and not isinstance(past.value, bool)
    other = kinds and device_kind(past.device, past.part_name) not in kinds
    if name is None or not numeric or bounds is None or other or not ask.first:
        return
    up, (low, high) = rng.random() < 0.5, bounds
    step = rng.choice((1, 2, 3)) if name in EXACT else max(1, round((high - low) / 5))
    value = past.value + (step if up else -step)
    most = value + (step if up else -step)
    if not (low <= value <= high and low <= most <= high):
        return
    action = make_action(now, past.device, past.path, type(past.value)(value))
    if action is None:
        return
    frame = f"multi_turn.more.{name}.{'up' if up else 'down'}"
    if name in EXACT and rng.random() < 0.5:
        meaning = frame_meaning(frame.replace("more", "by"), value=SpokenValue(step, past.value_type))
        yield _with_past(past, FollowUp(action, meaning).to_draft())
        return
    # Any value beyond the earlier one counts, up to twice the step of the plan.
    slot = f'device("{action.device.did}").{action.path.replace("set_", "")}'
    loose = f"{past.value!r} < {slot} <= {most!r}" if up else f"{most!r} <= {slot} < {past.value!r}"
    condition = action.condition.replace(f"{slot} == {action.value!r}", loose)
    yield _with_past(past, replace(FollowUp(action, frame_meaning(frame)).to_draft(), conditions=(condition,)))


# topic shift


def _shift_elsewhere(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """An unrelated request: another kind of device, named in full, and no words that refer to the past."""
    for action in actions(now, rng, _free_devices(now, past, ask, rng)):
        other = (action.service, action.value) != (past.service, past.value)
        if other and device_kind(action.device, action.part_name) != device_kind(past.device, past.part_name):
            yield FollowUp(action, frame_meaning("multi_turn.shift", text=action.act()))


def _shift_nearby(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """An unrelated request that a careless agent could confuse with the past.

    It asks for the same setting with another value, or for a device in the same room.
    """
    others = [action for action in actions(now, rng, _free_devices(now, past, ask, rng)) if action.value != past.value]
    same = [action for action in others if action.service == past.service]
    near = same or [action for action in others if action.device.room == past.device.room]
    if not near:
        return
    yield FollowUp(near[0], frame_meaning("multi_turn.shift", text=near[0].act()))


# coreference


def _refer_by_pronoun(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "Turn it off again", "set that one to 40"."""
    for action in actions_on_same_part(now, past, rng):
        back = action.value is None and past.value is None
        that = frame_meaning("multi_turn.that", device=lambda speaker: speaker.say_thing_name(past.device))
        words, frame = rng.choice((IT, that)), "multi_turn.again" if back else "multi_turn.now"
        yield FollowUp(action, PhrasedRequest(action.act(), words, frame))


def _refer_to_other(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "The other one": in a room with two of the kind."""
    kind = device_kind(past.device, past.part_name)
    others = [pair for pair in members_of_kind(now, kind, past.device.room) if pair[0] != past.device]
    if len(others) != 1 or len(members_of_kind(now, kind, past.device.room)) != 2 or others[0][0].did in ask.taken:
        return
    device, part = others[0]
    again = repeat_action(now, past, device, part)
    options = [action for action in actions(now, rng, (device,)) if action.part_name == part]
    options = [again, *options] if again else options
    if not options:
        return
    action = rng.choice(options[:2])
    frame = "multi_turn.too" if action == again else "multi_turn.now"
    yield FollowUp(action, PhrasedRequest(action.act(), frame_meaning("multi_turn.other"), frame))


def _refer_to_place(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "The fan there"."""
    here = [device for device in _free_devices(now, past, ask, rng) if device.room == past.device.room]
    for action in actions(now, rng, here):
        if len({path.rpartition(".")[0] for path in action.device.spec.service_index}) > 1:
            continue
        there = frame_meaning("multi_turn.there", device=partial(_say_unshared_name, action.device))
        yield FollowUp(action, PhrasedRequest(action.act(), there, "multi_turn.now"))


def _say_unshared_name(device: Device, speaker: Speaker) -> str:
    """The name alone. Raises `UnclearSentence` if another device of the room has it."""
    refuse_shared_device(device, speaker.home)
    return speaker.say_thing_name(device)


def _refer_by_order(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "The first one", of two devices that were mentioned."""
    for second in actions(now, rng, _free_devices(now, past, ask, rng)):
        later = home_after_calls(now, second.plan)
        word, meant = rng.choice((("multi_turn.first", past), ("multi_turn.last", second)))
        for action in actions_on_same_part(later, meant, rng):
            yield FollowUp(action, PhrasedRequest(action.act(), frame_meaning(word), "multi_turn.now"), (second,))


# correction


def _correct_value(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "No, make it 26"."""
    if past.value is None or isinstance(past.value, bool):
        return
    for _ in range(4):
        action = propose_action(now, past.device, past.path, rng)
        if action is not None and action.value != past.value:
            slots = {"value": action.spoken_value, "wrong": past.spoken_value}
            yield FollowUp(action, frame_meaning("multi_turn.make_it", **slots))


def _correct_act(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "No, turn it off": another action without a value on the same device."""
    for action in actions_on_same_part(now, past, rng, valued=False):  # after a value, all are drawn and none is taken
        if past.value is None:
            yield FollowUp(action, PhrasedRequest(action.act(), IT, "multi_turn.no"))


def _correct_room(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "Not the bedroom, the study"."""
    kind = device_kind(past.device, past.part_name)
    for device, part in members_of_kind(now, kind):
        alone = len(members_of_kind(now, kind, device.room)) == 1 and device.room != past.device.room
        free = alone and device.did not in ask.taken and _are_same_kind(past, device, part)
        if free and (action := repeat_action(now, past, device, part)):
            slots = {"right": device.room, "wrong": past.device.room}
            yield FollowUp(action, frame_meaning("multi_turn.not_room", **slots))


def _correct_device(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "No, I meant the study lamp"."""
    for action in repeat_on_others(now, past, rng, ask):
        yield FollowUp(action, frame_meaning("multi_turn.not_device", right=action.target, wrong=past.target))


def _correct_thing(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[FollowUp]:
    """ "Leave the fan as it was, turn on the lamp instead"."""
    for action in actions(now, rng, _free_devices(now, past, ask, rng)):
        yield FollowUp(action, frame_meaning("multi_turn.instead", wrong=past.target, text=action.act()))


# backtracking


def _undo_past(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[Draft]:
    """ "Put it back as it was", where the assistant has told the earlier state."""
    if undo := plan_undo(home, now, past.device):
        named = frame_meaning("multi_turn.back_named", target=Target.of_device(past.device))
        meaning = rng.choice((frame_meaning("multi_turn.back"), named))
        yield _draft_undo((undo,), meaning, (past,), (past_request(past, undo.told),))


def _undo_last(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[Draft]:
    """The state before the last of two settings, which the request for the first setting told."""
    for _ in range(4 if past.value is not None else 0):
        second = propose_action(now, past.device, past.path, rng)
        if second is None or second.value == past.value:
            continue
        undo = plan_undo(now, home_after_calls(now, second.plan), past.device)
        if undo is None or len(undo.calls) != 1 or undo.calls[0].args != (past.value,):
            return
        told = (past_request(past), past_request(second))
        yield _draft_undo((undo,), frame_meaning("multi_turn.back_last"), (past, second), told)


def _undo_one_of_two(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[Draft]:
    """Two things were done; one of them is undone, or both are."""
    for second in actions(now, rng, _free_devices(now, past, ask, rng)):
        later = home_after_calls(now, second.plan)
        undos = [undo for action in (past, second) if (undo := plan_undo(home, later, action.device))]
        if len(undos) < 2:
            continue
        meant = rng.choice((undos[:1], undos[1:], undos))
        both, target = frame_meaning("multi_turn.back_both"), Target.of_device(meant[0].device)
        meaning = both if len(meant) > 1 else frame_meaning("multi_turn.back_named", target=target)
        told = (past_request(past, undos[0].told), past_request(second, undos[1].told))
        yield _draft_undo(meant, meaning, (past, second), told)


def _draft_undo(
    undos: Sequence[UndoPlan], meaning: Meaning, done: Sequence[DeviceAction], told: tuple[PastTurn, ...]
) -> Draft:
    """A draft that undoes some of what was done."""
    return Draft(
        "",
        meaning,
        DEPENDENT if len(undos) == 1 else SEVERAL,
        conditions=tuple(undo.condition for undo in undos),
        devices=tuple(undo.device.did for undo in undos),
        plan=tuple(call for undo in undos for call in undo.calls),
        plainly=SpokenCommand(tuple(act for undo in undos for act in undo.undo_acts)),
        before=tuple(call for action in done for call in action.plan),
        past=told,
    )


SUBCATEGORIES: dict[str, Propose] = {
    "continuation": _after_a_past("continuation", _repeat_in_room, _repeat_on_device, _set_further, _more_or_less),
    "topic_shift": _after_a_past("topic_shift", _shift_elsewhere, _shift_nearby),
    "coreference": _after_a_past("coreference", _refer_by_pronoun, _refer_to_other, _refer_to_place, _refer_by_order),
    "correction": _after_a_past(
        "correction", _correct_value, _correct_act, _correct_room, _correct_device, _correct_thing, first_only=True
    ),
    "backtracking": _after_a_past("backtracking", _undo_past, _undo_last, _undo_one_of_two, first_only=True),
}
