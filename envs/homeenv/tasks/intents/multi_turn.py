"""Context-aware multi-turn interaction, QT4 and TC5: the meaning depends on what was said before.

`continuation`, `coreference` and `topic_shift` follow an earlier dialogue, or a live intent whose conditions they leave
met. `correction` and `backtracking` follow an earlier dialogue whose actions have been carried out. If these restore a
state, the earlier dialogue tells that state.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
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
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.conditions import compile_condition
from homerl.envs.homeenv.tasks.actions import DeviceAction, actions, home_after_calls, make_action, propose_action
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose, draft_of_actions
from homerl.envs.homeenv.tasks.intents.device_choice import device_kind, members_of_kind
from homerl.envs.homeenv.tasks.intents.earlier_dialogue import (
    DEPENDENT,
    IT,
    SEVERAL,
    PhrasedRequest,
    actions_on_same_part,
    draft_follow_up,
    draft_undo_and_act,
    past_actions,
    past_request,
    plan_undo,
    repeat_action,
    repeat_on_others,
)

Follow = Draft | None
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


def _after_a_past(subcategory: str, *ways: Callable[..., Follow], first_only: bool = False) -> Propose:
    """A proposal that follows a past action.

    For one past action after the other, the functions `ways` are tried in random order. With `first_only`, it is made only
    for the first intent of a blueprint, which alone may have an earlier dialogue.
    """

    def propose(home: Home, rng: random.Random, ask: Ask) -> Follow:
        for action in past_actions(home, rng, ask) if ask.first or not first_only else ():
            now = home_after_calls(home, action.plan)
            for way in rng.sample(ways, len(ways)):
                if (draft := way(home, now, action, rng, ask)) is not None:
                    then = tuple(replace(later, subcategory=subcategory) for later in draft.then)
                    return replace(draft, subcategory=subcategory, then=then)
        return None

    return propose


def _draft_request(action: DeviceAction, meaning: Meaning) -> Draft:
    """A draft in words that need the past; when asked, the user names everything."""
    return replace(draft_of_actions("", (action,), DEPENDENT, meaning), plainly=SpokenCommand((action.act(),)))


def _free_devices(home: Home, past: DeviceAction, ask: Ask, rng: random.Random) -> list[Device]:
    """Devices other than the past one that may change, in random order."""
    taken = {past.device.did, *ask.taken}
    return rng.sample(devices := [d for d in home.plan.devices if d.did not in taken], len(devices))


def _are_same_kind(past: DeviceAction, device: Device, part: str) -> bool:
    """Whether a device has exactly the kind of the past one, so that "the same" can mean it without a name."""
    kinds = dict(device.spec.part_kinds), dict(past.device.spec.part_kinds)
    return kinds[0].get(f"{part}." if part else "") == kinds[1].get(f"{past.part_name}." if past.part_name else "")


# continuation


def _repeat_in_room(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "Also do that in the study": for the only device of the same kind there."""
    kind = device_kind(past.device, past.part_name)
    for room in rng.sample(now.plan.rooms, len(now.plan.rooms)):
        there = members_of_kind(now, kind, room)
        if room == past.device.room or len(there) != 1 or there[0][0].did in ask.taken:
            continue
        if _are_same_kind(past, *there[0]) and (action := repeat_action(now, past, *there[0])):
            meaning = frame_meaning("multi_turn.same_room", room=room)
            return draft_follow_up(ask, rng, home, (past,), _draft_request(action, meaning))
    return None


def _repeat_on_device(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "The same for the study lamp"."""
    for action in repeat_on_others(now, past, rng, ask):
        meaning = frame_meaning("multi_turn.same_device", target=action.target)
        return draft_follow_up(ask, rng, home, (past,), _draft_request(action, meaning))
    return None


def _set_further(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "And the speed at 3": another setting of the same device, which leaves what was asked before as it is."""
    done = compile_condition(past.condition, now.plan)
    for action in actions_on_same_part(now, past, rng, valued=True):
        if not action.service.startswith("set_") or _written_attributes(action) & _written_attributes(past):
            continue
        if done.holds_in(home_after_calls(now, action.plan)):
            frame = "multi_turn.further_switch" if isinstance(action.value, bool) else "multi_turn.further"
            name, value = SpokenName(action.service.removeprefix("set_")), action.spoken_value
            meaning = frame_meaning(frame, name=name, value=value)
            return draft_follow_up(ask, rng, home, (past,), _draft_request(action, meaning))
    return None


def _written_attributes(action: DeviceAction) -> set[str]:
    """The attributes that its last call writes."""
    return {attribute.name for _, attribute, _ in action.device.spec.service_index[action.plan[-1].service].writes}


def _more_or_less(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "A bit brighter": more or less of what was set."""
    name, kinds = STEPS.get(past.service, (None, None))
    bounds = past.value_type.range if past.value_type else None
    numeric = isinstance(past.value, (int, float)) and not isinstance(past.value, bool)
    other = kinds and device_kind(past.device, past.part_name) not in kinds
    if name is None or not numeric or bounds is None or other or not ask.first:
        return None
    up, (low, high) = rng.random() < 0.5, bounds
    step = rng.choice((1, 2, 3)) if name in EXACT else max(1, round((high - low) / 5))
    value = past.value + (step if up else -step)
    most = value + (step if up else -step)
    if not (low <= value <= high and low <= most <= high):
        return None
    action = make_action(now, past.device, past.path, type(past.value)(value))
    if action is None:
        return None
    frame = f"multi_turn.more.{name}.{'up' if up else 'down'}"
    if name in EXACT and rng.random() < 0.5:
        meaning = frame_meaning(frame.replace("more", "by"), value=SpokenValue(step, past.value_type))
        return _with_past(past, _draft_request(action, meaning))
    # Any value beyond the earlier one counts, up to twice the step of the plan.
    slot = f'device("{action.device.did}").{action.path.replace("set_", "")}'
    loose = f"{past.value!r} < {slot} <= {most!r}" if up else f"{most!r} <= {slot} < {past.value!r}"
    condition = action.condition.replace(f"{slot} == {action.value!r}", loose)
    return _with_past(past, replace(_draft_request(action, frame_meaning(frame)), conditions=(condition,)))


def _with_past(past: DeviceAction, now: Draft) -> Draft:
    return replace(now, before=past.plan, past=(past_request(past),))


# topic shift


def _shift_elsewhere(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """An unrelated request: another kind of device, named in full, and no words that refer to the past."""
    for action in actions(now, rng, _free_devices(now, past, ask, rng)):
        other = (action.service, action.value) != (past.service, past.value)
        if other and device_kind(action.device, action.part_name) != device_kind(past.device, past.part_name):
            meaning = frame_meaning("multi_turn.shift", text=action.act())
            return draft_follow_up(ask, rng, home, (past,), _draft_request(action, meaning))
    return None


def _shift_nearby(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """An unrelated request that a careless agent could confuse with the past.

    It asks for the same setting with another value, or for a device in the same room.
    """
    others = [action for action in actions(now, rng, _free_devices(now, past, ask, rng)) if action.value != past.value]
    same = [action for action in others if action.service == past.service]
    near = same or [action for action in others if action.device.room == past.device.room]
    if not near:
        return None
    meaning = frame_meaning("multi_turn.shift", text=near[0].act())
    return draft_follow_up(ask, rng, home, (past,), _draft_request(near[0], meaning))


# coreference


def _refer_by_pronoun(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "Turn it off again", "set that one to 40"."""
    for action in actions_on_same_part(now, past, rng):
        back = action.value is None and past.value is None
        that = frame_meaning("multi_turn.that", device=lambda speaker: speaker.say_thing_name(past.device))
        words, frame = rng.choice((IT, that)), "multi_turn.again" if back else "multi_turn.now"
        return draft_follow_up(ask, rng, home, (past,), _draft_request(action, PhrasedRequest(action.act(), words, frame)))
    return None


def _refer_to_other(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "The other one": in a room with two of the kind."""
    kind = device_kind(past.device, past.part_name)
    others = [pair for pair in members_of_kind(now, kind, past.device.room) if pair[0] != past.device]
    if len(others) != 1 or len(members_of_kind(now, kind, past.device.room)) != 2 or others[0][0].did in ask.taken:
        return None
    device, part = others[0]
    again = repeat_action(now, past, device, part)
    options = [action for action in actions(now, rng, (device,)) if action.part_name == part]
    options = [again, *options] if again else options
    if not options:
        return None
    action = rng.choice(options[:2])
    frame = "multi_turn.too" if action == again else "multi_turn.now"
    meaning = PhrasedRequest(action.act(), frame_meaning("multi_turn.other"), frame)
    return draft_follow_up(ask, rng, home, (past,), _draft_request(action, meaning))


def _refer_to_place(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "The fan there"."""
    here = [device for device in _free_devices(now, past, ask, rng) if device.room == past.device.room]
    for action in actions(now, rng, here):
        if len({path.rpartition(".")[0] for path in action.device.spec.service_index}) > 1:
            continue
        there = frame_meaning("multi_turn.there", device=partial(_say_unshared_name, action.device))
        meaning = PhrasedRequest(action.act(), there, "multi_turn.now")
        return draft_follow_up(ask, rng, home, (past,), _draft_request(action, meaning))
    return None


def _say_unshared_name(device: Device, speaker: Speaker) -> str:
    """The name alone. Raises `UnclearSentence` if another device of the room has it."""
    refuse_shared_device(device, speaker.home)
    return speaker.say_thing_name(device)


def _refer_by_order(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "The first one", of two devices that were mentioned."""
    for second in actions(now, rng, _free_devices(now, past, ask, rng)):
        later = home_after_calls(now, second.plan)
        word, meant = rng.choice((("multi_turn.first", past), ("multi_turn.last", second)))
        for action in actions_on_same_part(later, meant, rng):
            meaning = PhrasedRequest(action.act(), frame_meaning(word), "multi_turn.now")
            return draft_follow_up(ask, rng, home, (past, second), _draft_request(action, meaning))
    return None


# correction


def _correct_value(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "No, make it 26"."""
    if past.value is None or isinstance(past.value, bool):
        return None
    for _ in range(4):
        action = propose_action(now, past.device, past.path, rng)
        if action is not None and action.value != past.value:
            slots = {"value": action.spoken_value, "wrong": past.spoken_value}
            return _with_past(past, _draft_request(action, frame_meaning("multi_turn.make_it", **slots)))
    return None


def _correct_act(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "No, turn it off": another action without a value on the same device."""
    for action in actions_on_same_part(now, past, rng, valued=False):  # after a value, all are drawn and none is taken
        if past.value is None:
            return _with_past(past, _draft_request(action, PhrasedRequest(action.act(), IT, "multi_turn.no")))
    return None


def _correct_room(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "Not the bedroom, the study"."""
    kind = device_kind(past.device, past.part_name)
    for device, part in members_of_kind(now, kind):
        alone = len(members_of_kind(now, kind, device.room)) == 1 and device.room != past.device.room
        free = alone and device.did not in ask.taken and _are_same_kind(past, device, part)
        if free and (action := repeat_action(now, past, device, part)):
            slots = {"right": device.room, "wrong": past.device.room}
            return _do_instead(home, now, past, action, frame_meaning("multi_turn.not_room", **slots))
    return None


def _correct_device(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "No, I meant the study lamp"."""
    for action in repeat_on_others(now, past, rng, ask):
        meaning = frame_meaning("multi_turn.not_device", right=action.target, wrong=past.target)
        return _do_instead(home, now, past, action, meaning)
    return None


def _correct_thing(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "Leave the fan as it was, turn on the lamp instead"."""
    for action in actions(now, rng, _free_devices(now, past, ask, rng)):
        meaning = frame_meaning("multi_turn.instead", wrong=past.target, text=action.act())
        return _do_instead(home, now, past, action, meaning)
    return None


def _do_instead(home: Home, now: Home, past: DeviceAction, action: DeviceAction, meaning: Meaning) -> Follow:
    """A draft that undoes the past action and does another."""
    undo = plan_undo(home, now, past.device)
    return draft_undo_and_act(undo, past, action, meaning) if undo else None


# backtracking


def _undo_past(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """ "Put it back as it was", where the assistant has told the earlier state."""
    if (undo := plan_undo(home, now, past.device)) is None:
        return None
    named = frame_meaning("multi_turn.back_named", target=Target.of_device(past.device))
    meaning = rng.choice((frame_meaning("multi_turn.back"), named))
    draft = Draft("", meaning, DEPENDENT, (undo.condition,), (past.device.did,), undo.calls, SpokenCommand(undo.undo_acts))
    return replace(draft, before=past.plan, past=(past_request(past, undo.told),))


def _undo_last(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """The state before the last of two settings, which the request for the first setting told."""
    if past.value is None:
        return None
    for _ in range(4):
        second = propose_action(now, past.device, past.path, rng)
        if second is None or second.value == past.value:
            continue
        undo = plan_undo(now, home_after_calls(now, second.plan), past.device)
        if undo is None or len(undo.calls) != 1 or undo.calls[0].args != (past.value,):
            return None
        meaning, plainly = frame_meaning("multi_turn.back_last"), SpokenCommand(undo.undo_acts)
        draft = Draft("", meaning, DEPENDENT, (undo.condition,), (past.device.did,), undo.calls, plainly)
        told = (past_request(past), past_request(second))
        return replace(draft, before=(*past.plan, *second.plan), past=told)
    return None


def _undo_one_of_two(home: Home, now: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Follow:
    """Two things were done; one of them is undone, or both are."""
    for second in actions(now, rng, _free_devices(now, past, ask, rng)):
        later = home_after_calls(now, second.plan)
        undos = [undo for action in (past, second) if (undo := plan_undo(home, later, action.device))]
        if len(undos) < 2:
            continue
        meant = rng.choice((undos[:1], undos[1:], undos))
        named = frame_meaning("multi_turn.back_named", target=Target.of_device(meant[0].device))
        return Draft(
            "",
            named if len(meant) == 1 else frame_meaning("multi_turn.back_both"),
            DEPENDENT if len(meant) == 1 else SEVERAL,
            conditions=tuple(undo.condition for undo in meant),
            devices=tuple(undo.device.did for undo in meant),
            plan=tuple(call for undo in meant for call in undo.calls),
            plainly=SpokenCommand(tuple(act for undo in meant for act in undo.undo_acts)),
            before=(*past.plan, *second.plan),
            past=(past_request(past, undos[0].told), past_request(second, undos[1].told)),
        )
    return None


SUBCATEGORIES: dict[str, Propose] = {
    "continuation": _after_a_past("continuation", _repeat_in_room, _repeat_on_device, _set_further, _more_or_less),
    "topic_shift": _after_a_past("topic_shift", _shift_elsewhere, _shift_nearby),
    "coreference": _after_a_past("coreference", _refer_by_pronoun, _refer_to_other, _refer_to_place, _refer_by_order),
    "correction": _after_a_past(
        "correction", _correct_value, _correct_act, _correct_room, _correct_device, _correct_thing, first_only=True
    ),
    "backtracking": _after_a_past("backtracking", _undo_past, _undo_last, _undo_one_of_two, first_only=True),
}
