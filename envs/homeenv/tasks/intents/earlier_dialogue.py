"""What intents with an earlier dialogue share: past actions, alternatives to their devices, and words that refer back.

Invariants: the calls of the past are made in the home before the episode (`before`), and `past` tells them; in a chain
of live intents, all conditions can hold together at the end, and none holds at the start.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from homerl.envs.homeenv.language.meaning import Act, Meaning, SpokenCommand, Target
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.language.times_and_states import AttributeState, AttributeStates
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import (
    DeviceAction,
    actions,
    can_device_do,
    can_type_be_said,
    changed_paths,
    earlier_values_condition,
    find_restoring_calls,
    given_argument,
    home_after_calls,
    make_action,
    spoken_call,
    spoken_service_name,
)
from homerl.envs.homeenv.tasks.blueprint import Call, Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, PastTurn, draft_of_actions
from homerl.envs.homeenv.tasks.intents.device_choice import device_kind

DEPENDENT = Factors(dependency="dependent")
SEVERAL = Factors(dependency="dependent", scope="multi_device")
TRIED = 25  # past actions tried in a home


# `speaker.act(act, phrase)` would say almost the same, but a short speaker has its own frames only for targets of its own.
class _PointingSpeaker(Speaker):
    """Speaks as another speaker does, but says a given phrase ("that one") for each target."""

    def __init__(self, speaker: Speaker, phrase: str) -> None:
        super().__init__(speaker.home, speaker.voice, speaker.style, speaker.rng, speaker.short)
        self.pieces, self.phrase = speaker.pieces, phrase

    def say_target(self, target: Target) -> str:
        return self.phrase


@dataclass(frozen=True)
class PhrasedRequest:
    """An act whose target is a given phrase ("that one"), inside a grammar frame."""

    act: Act
    phrase: Meaning
    frame: str

    def words(self, speaker: Speaker) -> str:
        """The request as a sentence."""
        if self.phrase is IT and (key := f"multi_turn.it.{self.act.service}") in speaker.grammar:
            clause = speaker.say(key)
        else:
            clause = _PointingSpeaker(speaker, self.phrase.words(speaker)).act(self.act)
        return speaker.say(self.frame, text=clause)


IT = frame_meaning("it")


def past_request(action: DeviceAction, told: Meaning | None = None) -> PastTurn:
    """A request of the past; without `told`, the assistant answered "done"."""
    return PastTurn(SpokenCommand((action.act(),)), told)


def calls_as_acts(device: Device, calls: Sequence[Call]) -> tuple[Act, ...]:
    """Calls on a device as requests that name it."""
    acts = []
    for call in calls:
        path, value, type = spoken_call(device, call)
        part, _, name = path.rpartition(".")
        acts.append(Act(spoken_service_name(name, type), Target.of_device(device, part), value, type))
    return tuple(acts)


@dataclass(frozen=True)
class UndoPlan:
    """The calls that restore a device, and the condition that they have done so.

    `told` is the reply that told the user the earlier state.
    """

    device: Device
    calls: tuple[Call, ...]
    condition: str
    told: Meaning

    @property
    def undo_acts(self) -> tuple[Act, ...]:
        """The calls as requests."""
        return calls_as_acts(self.device, self.calls)


def plan_undo(earlier: Home, now: Home, device: Device) -> UndoPlan | None:
    """How to undo what happened to a device between two homes.

    None if nothing happened, if people cannot say the values, or if no short series of calls restores them. Values that
    were null are restored, and not told.
    """
    paths = changed_paths(earlier, now, device)
    told = [path for path in paths if earlier.read_value(device.did, path) is not None]
    if not told or not all(can_type_be_said(device.spec.attribute_index[path][1]) for path in told):
        return None
    if (calls := find_restoring_calls(earlier, now, device)) is None:
        return None
    states = AttributeStates(tuple(AttributeState.read_from_home(earlier, device, path) for path in told), "was")
    reply = frame_meaning("multi_turn.was", states=states)  # the assistant said "done", and the state until then
    return UndoPlan(device, calls, earlier_values_condition(earlier, device, paths), reply)


def draft_undo_and_act(
    undo: UndoPlan, past: DeviceAction, action: DeviceAction, meaning: Meaning, between: Sequence[DeviceAction] = ()
) -> Draft:
    """A draft that undoes a past action and does another; `between` are further past actions, which stay."""
    return Draft(
        "",
        meaning,
        SEVERAL,
        conditions=(undo.condition, action.condition),
        devices=(past.device.did, action.device.did),
        plan=(*undo.calls, *action.plan),
        plainly=SpokenCommand((*undo.undo_acts, action.act())),
        before=tuple(call for one in (past, *between) for call in one.plan),
        past=(past_request(past, undo.told), *map(past_request, between)),
    )


def past_actions(home: Home, rng: random.Random, ask: Ask) -> Iterator[DeviceAction]:
    """Up to `TRIED` actions on free devices that may have been done before."""
    return islice((action for action in actions(home, rng) if action.device.did not in ask.taken), TRIED)


def repeat_action(home: Home, action: DeviceAction, device: Device, part: str) -> DeviceAction | None:
    """The same action on another device; None if that device cannot do it, or would not change by it."""
    path = f"{part}.{action.service}" if part else action.service
    if not can_device_do(device, path):
        return None
    compiled = device.spec.service_index.get(path)
    if compiled is not None and (given_argument(compiled.service, action.value) is None) != (action.value is None):
        return None
    return make_action(home, device, path, action.value)


def repeat_on_others(home: Home, past: DeviceAction, rng: random.Random, ask: Ask) -> Iterator[DeviceAction]:
    """The same action on other free devices and parts of its kind, in random order."""
    taken = {past.device.did, *ask.taken}
    devices = [device for device in home.plan.devices if device.did not in taken]
    for device in rng.sample(devices, len(devices)):
        for part in {path.rpartition(".")[0]: None for path in device.spec.service_index}:
            alike = device_kind(device, part) == device_kind(past.device, past.part_name)
            if alike and (action := repeat_action(home, past, device, part)):
                yield action


def actions_on_same_part(
    home: Home, action: DeviceAction, rng: random.Random, valued: bool | None = None
) -> Iterator[DeviceAction]:
    """Other actions on the same device and part, in random order.

    `valued` restricts them to those with a value (True) or without one (False).
    """
    for other in actions(home, rng, (action.device,)):
        fits = valued is None or valued == (other.value is not None)
        if other.part_name == action.part_name and fits and (other.path, other.value) != (action.path, action.value):
            yield other


def draft_follow_up(ask: Ask, rng: random.Random, home: Home, done: Sequence[DeviceAction], now: Draft) -> Draft | None:
    """The draft of what follows the actions `done`.

    The actions are an earlier dialogue or, with probability 1/2 where that is possible, live intents before this one.
    Only the first intent of a blueprint may have an earlier dialogue.
    """
    before = tuple(call for action in done for call in action.plan)
    end = home_after_calls(home, [*before, *now.plan])
    conditions = [compile_condition(text, home.plan) for text in (*(action.condition for action in done), *now.conditions)]
    # Live intents come one after the other: none may be met at the start, and the later must leave the earlier met.
    can_be_live = all(not condition.holds_in(home) and condition.holds_in(end) for condition in conditions)
    if ask.first and (not can_be_live or rng.random() < 0.5):
        return replace(now, before=before, past=tuple(past_request(action) for action in done))
    first, *others = (draft_of_actions(now.subcategory, (action,), Factors()) for action in done)
    return replace(first, then=(*others, now)) if can_be_live else None
