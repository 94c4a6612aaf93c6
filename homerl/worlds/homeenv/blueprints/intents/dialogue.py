"""What intents with a past share: what was done before, who else could be meant, and the words that point back.

Invariants: a past is played in a home before the episode (`before`) and told in `past`; a chain of live intents has
conditions that can all hold at the end and none of which holds at the start.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from envs.homeenv.conditions import compile_condition
from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.homeenv.rooms import Room
from homerl.worlds.homeenv.blueprints.actions import DeviceAction, actions, enact
from homerl.worlds.homeenv.blueprints.blueprint import Call, Factors
from homerl.worlds.homeenv.blueprints.intents.draft import Ask, Draft, PastTurn, control
from homerl.worlds.homeenv.blueprints.undo import after, as_it_was, can_be_told, changed, restore
from homerl.worlds.homeenv.language.meaning import Act, Command, Meaning, Target
from homerl.worlds.homeenv.language.speaker import Speaker
from homerl.worlds.homeenv.language.state import Standing, Standings

DEPENDENT = Factors(dependency="dependent")
SEVERAL = Factors(dependency="dependent", scope="multi_device")
TRIED = 25  # past actions tried before a home is given up


@dataclass(frozen=True)
class Phrased:
    """An act whose target is said by a phrase of one's own ("that one"), in a frame."""

    act: Act
    phrase: Callable[[Speaker], str]
    frame: str

    def words(self, speaker: Speaker) -> str:
        return speaker.say(self.frame, text=self.clause(speaker))

    def clause(self, speaker: Speaker) -> str:
        if self.phrase is IT and (key := f"multi_turn.it.{self.act.service}") in speaker.grammar:
            return speaker.say(key)
        pointing, phrase = copy.copy(speaker), self.phrase(speaker)
        pointing.target = lambda target: phrase
        return pointing.act(self.act)


@dataclass(frozen=True)
class Framed:
    """A frame whose slots are filled by what their functions say."""

    frame: str
    slots: tuple[tuple[str, Callable[[Speaker], str]], ...] = ()

    def words(self, speaker: Speaker) -> str:
        return speaker.say(self.frame, **{name: said(speaker) for name, said in self.slots})


def framed(frame: str, **slots: Callable[[Speaker], str]) -> Framed:
    return Framed(frame, tuple(slots.items()))


def frame_text(key: str, **slots: str) -> Callable[[Speaker], str]:
    return lambda speaker: speaker.say(key, **slots)


IT = frame_text("it")


def device_text(device: Device, part: str = "") -> Callable[[Speaker], str]:
    return lambda speaker: speaker.target(Target.of(device, part))


def room_text(room: Room) -> Callable[[Speaker], str]:
    return lambda speaker: speaker.room(room)


def act_text(act: Act) -> Callable[[Speaker], str]:
    return lambda speaker: speaker.act(act)


def value_text(action: DeviceAction) -> Callable[[Speaker], str]:
    return lambda speaker: speaker.value(action.value, action.type)


def past_request(action: DeviceAction, told: Meaning | None = None) -> PastTurn:
    """A request of the past, and what the assistant answered."""
    return PastTurn(Command((action.act(),)), told)


def as_acts(device: Device, calls: Sequence[Call]) -> tuple[Act, ...]:
    """Calls as somebody asks for them, by the device's name."""
    acts = []
    for call in calls:
        part, _, name = call.service.rpartition(".")
        arguments = device.spec.service_index[call.service].service.arguments
        value = call.args[0] if call.args else None
        acts.append(Act(name, Target.of(device, part), value, arguments[0] if arguments else None))
    return tuple(acts)


@dataclass(frozen=True)
class UndoPlan:
    """How to bring a device back to how it was, and the words that tell how that was."""

    device: Device
    calls: tuple[Call, ...]
    condition: str
    told: Meaning

    @property
    def acts(self) -> tuple[Act, ...]:
        return as_acts(self.device, self.calls)


@dataclass(frozen=True)
class WasBefore:
    """The assistant's "done", and how things stood until then."""

    standings: Standings

    def words(self, speaker: Speaker) -> str:
        return speaker.say("multi_turn.was", states=self.standings.words(speaker))


def plan_undo(earlier: Home, now: Home, device: Device) -> UndoPlan | None:
    """How to undo what happened to a device, if that can be told and done."""
    paths = changed(earlier, now, device)
    if not paths or not can_be_told(device, paths) or (calls := restore(earlier, now, device)) is None:
        return None
    told = Standings(tuple(Standing.of(earlier, device, path) for path in paths), "was")
    return UndoPlan(device, calls, as_it_was(earlier, device, paths), WasBefore(told))


def effective_actions(home: Home, rng: random.Random, devices: Sequence[Device] | None = None) -> Iterator[DeviceAction]:
    """Actions whose last call alone changes something, and not only what is switched on for it."""
    return (action for action in actions(home, rng, devices) if is_effective(home, action))


def is_effective(home: Home, action: DeviceAction) -> bool:
    enabled = after(home, action.plan[:-1])
    return enabled.values != after(enabled, action.plan[-1:]).values


def past_actions(home: Home, rng: random.Random, ask: Ask) -> Iterator[DeviceAction]:
    """What may have been done before, to devices that are free."""
    return islice((action for action in effective_actions(home, rng) if action.device.did not in ask.taken), TRIED)


def repeated(home: Home, action: DeviceAction, device: Device, part: str) -> DeviceAction | None:
    """The same done to another device, if it can do that and would change by it."""
    path = f"{part}.{action.service}" if part else action.service
    if path not in device.spec.service_index:
        return None
    arguments = device.spec.service_index[path].service.arguments
    if len(arguments) != (action.value is not None):
        return None
    again = enact(home, device, path, action.value)
    return again if again is not None and is_effective(home, again) else None


def on_the_same(home: Home, action: DeviceAction, rng: random.Random, valued: bool | None = None) -> Iterator[DeviceAction]:
    """Other actions on the same device and part, in random order; with a value, without, or either."""
    for other in effective_actions(home, rng, (action.device,)):
        fits = valued is None or valued == (other.value is not None)
        if other.part == action.part and fits and (other.path, other.value) != (action.path, action.value):
            yield other


def follow_up(ask: Ask, rng: random.Random, home: Home, done: Sequence[DeviceAction], now: Draft) -> Draft | None:
    """What comes after these actions: of a past, or (by a coin, where it can be) of live intents before it."""
    live = _chain(home, done, now)
    if ask.first and (live is None or rng.random() < 0.5):
        before = tuple(call for action in done for call in action.plan)
        return replace(now, before=before, past=tuple(past_request(action) for action in done))
    return live


def _chain(home: Home, done: Sequence[DeviceAction], now: Draft) -> Draft | None:
    """The actions and what follows as intents of their own, if all their conditions can hold at the end."""
    conditions = [action.condition for action in done] + list(now.conditions)
    end = after(home, [*(call for action in done for call in action.plan), *now.plan])
    for text in conditions:
        condition = compile_condition(text, home.plan)
        if condition.holds(home) or not condition.holds(end):
            return None
    first, *others = (control(now.subcategory, (action,), Factors()) for action in done)
    return replace(first, then=(*others, now))
