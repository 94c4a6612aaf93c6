"""What intents with an earlier dialogue share: past actions, alternatives to their devices, and words that refer back.

Invariants: the calls of the past are made in the home before the episode (`before`), and `past` tells them; in a chain
of live intents, all conditions can hold together at the end, and none holds at the start.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from homerl.envs.homeenv.language.meaning import Act, Meaning, SpokenCommand, Target
from homerl.envs.homeenv.language.noun_phrases import refuse_shared_device
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.language.times_and_states import AttributeState, AttributeStates
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.plan.conditions import compile_condition
from homerl.envs.homeenv.tasks.actions import (
    DeviceAction,
    actions,
    can_be_told,
    can_device_do,
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
from homerl.envs.homeenv.tasks.intents.draft import Ask, Draft, PastTurn, control

DEPENDENT = Factors(dependency="dependent")
SEVERAL = Factors(dependency="dependent", scope="multi_device")
TRIED = 25  # past actions tried in a home


@dataclass(frozen=True)
class PhrasedRequest:
    """An act whose target is a given phrase ("that one"), inside a grammar frame."""

    act: Act
    phrase: Callable[[Speaker], str]
    frame: str

    def words(self, speaker: Speaker) -> str:
        """The request as a sentence."""
        return speaker.say(self.frame, text=self.phrase_clause(speaker))

    def phrase_clause(self, speaker: Speaker) -> str:
        """The act as a clause with the phrase as its target."""
        if self.phrase is IT and (key := f"multi_turn.it.{self.act.service}") in speaker.grammar:
            return speaker.say(key)
        pointing, phrase = copy.copy(speaker), self.phrase(speaker)
        vars(pointing)["say_target"] = lambda target: phrase
        return pointing.act(self.act)


@dataclass(frozen=True)
class FramedMeaning:
    """A grammar frame whose slots are filled by functions of the speaker."""

    frame: str
    slots: tuple[tuple[str, Callable[[Speaker], str]], ...] = ()

    def words(self, speaker: Speaker) -> str:
        """The filled frame."""
        return speaker.say(self.frame, **{name: said(speaker) for name, said in self.slots})


def frame_meaning(frame: str, **slots: Callable[[Speaker], str]) -> FramedMeaning:
    """A meaning that fills the slots of a grammar frame."""
    return FramedMeaning(frame, tuple(slots.items()))


def frame_text(key: str, **slots: str) -> Callable[[Speaker], str]:
    """A slot that says a frame of the grammar."""
    return lambda speaker: speaker.say(key, **slots)


IT = frame_text("it")


def device_text(device: Device, part: str = "") -> Callable[[Speaker], str]:
    """A slot that names a device, or its part."""
    return lambda speaker: speaker.say_target(Target.of_device(device, part))


def that_text(device: Device) -> Callable[[Speaker], str]:
    """A slot that points at a device that was spoken of: "that fan"."""
    return lambda speaker: speaker.say("multi_turn.that", device=speaker.say_thing_name(device))


def there_text(device: Device) -> Callable[[Speaker], str]:
    """A slot that names a device of the room that was spoken of: "the fan there"."""

    def said(speaker: Speaker) -> str:
        refuse_shared_device(device, speaker.home)
        return speaker.say("multi_turn.there", device=speaker.say_thing_name(device))

    return said


def room_text(room: Room) -> Callable[[Speaker], str]:
    """A slot that names a room."""
    return lambda speaker: speaker.room(room)


def act_text(act: Act) -> Callable[[Speaker], str]:
    """A slot that says an act."""
    return lambda speaker: speaker.act(act)


def action_value_text(action: DeviceAction) -> Callable[[Speaker], str]:
    """A slot that says the value of an action."""
    return lambda speaker: speaker.value(action.value, action.value_type)


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


@dataclass(frozen=True)
class WasBeforeReply:
    """A reply of the assistant: "done", and the state until then."""

    standings: AttributeStates

    def words(self, speaker: Speaker) -> str:
        """The reply as text."""
        return speaker.say("multi_turn.was", states=self.standings.words(speaker))


def plan_undo(earlier: Home, now: Home, device: Device) -> UndoPlan | None:
    """How to undo what happened to a device between two homes.

    None if nothing happened, if people cannot say the values, or if no short series of calls restores them. Values that
    were null are restored, and not told.
    """
    paths = changed_paths(earlier, now, device)
    told_of = [path for path in paths if earlier.read_value(device.did, path) is not None]
    if not told_of or not can_be_told(device, told_of) or (calls := find_restoring_calls(earlier, now, device)) is None:
        return None
    told = AttributeStates(tuple(AttributeState.read_from_home(earlier, device, path) for path in told_of), "was")
    return UndoPlan(device, calls, earlier_values_condition(earlier, device, paths), WasBeforeReply(told))


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
    live = _chain(home, done, now)
    if ask.first and (live is None or rng.random() < 0.5):
        before = tuple(call for action in done for call in action.plan)
        return replace(now, before=before, past=tuple(past_request(action) for action in done))
    return live


def _chain(home: Home, done: Sequence[DeviceAction], now: Draft) -> Draft | None:
    """The actions as live intents, then the draft; None if their conditions cannot all hold at the end."""
    conditions = [action.condition for action in done] + list(now.conditions)
    end = home_after_calls(home, [*(call for action in done for call in action.plan), *now.plan])
    for text in conditions:
        condition = compile_condition(text, home.plan)
        if condition.holds_in(home) or not condition.holds_in(end):
            return None
    first, *others = (control(now.subcategory, (action,), Factors()) for action in done)
    return replace(first, then=(*others, now))
