"""Personalised memory, QT5 and TC6: the request leaves out what the earlier dialogue or the known facts say.

`short_term`: values and choices told earlier, before the last exchange; or an earlier adjustment that is undone.
`long_term`: of several known preferences, those for the cue count, and the others are distractors.

Invariant: an utterance never names both the device and the value that it asks for, unless it undoes something.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homerl.envs.homeenv.language.meaning import SpokenCommand, Target
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import (
    DeviceAction,
    actions,
    earlier_values_condition,
    home_after_calls,
    make_action,
    propose_action,
)
from homerl.envs.homeenv.tasks.blueprint import Call
from homerl.envs.homeenv.tasks.intents import Ask, Draft, PastTurn, Propose, draft_of_actions
from homerl.envs.homeenv.tasks.intents.device_choice import device_kind
from homerl.envs.homeenv.tasks.intents.earlier_dialogue import (
    DEPENDENT,
    SEVERAL,
    PhrasedRequest,
    actions_on_same_part,
    draft_undo_and_act,
    past_actions,
    past_request,
    plan_undo,
    repeat_on_others,
)

# Occasions, and the kinds of devices about which people have preferences then.
CUES: dict[str, tuple[str, ...]] = {
    "sleep": ("light", "fan", "ceiling_fan", "air_conditioner", "curtain", "heater", "thermostat", "humidifier", "speaker",
              "air_purifier", "smart_screen", "lock", "ac_gateway", "tv"),
    "read": ("light", "ceiling_fan", "speaker", "curtain", "fan", "air_conditioner", "heater"),
    "film": ("tv", "light", "curtain", "speaker", "air_conditioner", "ceiling_fan"),
    "cook": ("range_hood", "oven", "light", "air_purifier", "speaker", "smart_screen"),
    "work": ("light", "air_conditioner", "heater", "fan", "curtain", "speaker", "thermostat", "humidifier", "air_purifier"),
    "wake": ("curtain", "light", "speaker", "heater", "kettle", "smart_screen", "bath_heater", "thermostat", "ac_gateway"),
    "leave": ("lock", "vacuum", "plug", "camera", "light", "thermostat", "heater", "wall_switch", "garage_door", "curtain"),
    "return": ("light", "air_conditioner", "heater", "air_purifier", "speaker", "tv", "water_heater", "ac_gateway"),
    "guests": ("light", "speaker", "tv", "air_conditioner", "air_purifier", "doorbell", "thermostat"),
    "exercise": ("fan", "ceiling_fan", "air_conditioner", "speaker", "tv", "dehumidifier", "air_purifier"),
    "bath": ("bath_heater", "water_heater", "light", "heater"),
    "laundry": ("washer", "dehumidifier", "clothes_rack", "dishwasher"),
}  # fmt: skip
PLACES = {"cook": ("kitchen", "dining_room"), "bath": ("bathroom",)}  # the only types of rooms whose devices suit the cue
MOST_SETTINGS = 2  # most settings of one preference
FACTS = (3, 6)
NOTED = frame_meaning("memory.noted")

# short term


def _recall_value(home: Home, rng: random.Random, ask: Ask) -> Iterator[Draft | None]:
    """ "Set it to what I told you": a value named for later, with something else in between."""
    for action in past_actions(home, rng, ask):
        between = _draw_other_action(home, action, rng, ask)
        if action.value is None or isinstance(action.value, bool) or between is None:
            continue
        told = frame_meaning("memory.later", text=action.act())
        meaning = frame_meaning("memory.as_told", target=action.target)
        yield _draft_recall(action, meaning, between.plan, (PastTurn(told, NOTED), past_request(between)))


def _recall_device(home: Home, rng: random.Random, ask: Ask) -> Iterator[Draft | None]:
    """ "Turn on the one I spoke of": a device named for later, with another in between."""
    for action in past_actions(home, rng, ask):
        between = _draw_other_action(home, action, rng, ask)
        if between is not None:
            told = frame_meaning("memory.choice", target=action.target)
            meaning = PhrasedRequest(action.act(), frame_meaning("memory.chosen"), "multi_turn.now")
            yield _draft_recall(action, meaning, between.plan, (PastTurn(told, NOTED), past_request(between)))


def _repeat_first_setting(home: Home, rng: random.Random, ask: Ask) -> Iterator[Draft | None]:
    """ "Set B as I had A at first", after A has been changed."""
    for first in past_actions(home, rng, ask):
        now = home_after_calls(home, first.plan)
        second = propose_action(now, first.device, first.path, rng) if first.value is not None else None
        if second is None or second.value == first.value:
            continue
        later = home_after_calls(now, second.plan)
        for action in repeat_on_others(later, first, rng, ask):
            past = (past_request(first), past_request(second))
            meaning = frame_meaning("memory.as_first", target=action.target, other=first.target)
            yield _draft_recall(action, meaning, (*first.plan, *second.plan), past)


def _undo_earlier(home: Home, rng: random.Random, ask: Ask) -> Iterator[Draft | None]:
    """ "Leave A as it was after all, B instead", with something else in between."""
    for first in past_actions(home, rng, ask):
        if (between := _draw_other_action(home, first, rng, ask)) is None:
            continue
        now = home_after_calls(home, (*first.plan, *between.plan))
        undo = plan_undo(home, now, first.device)
        action = _draw_other_action(now, first, rng, ask, besides=(between.device.did,)) if undo else None
        if undo is None or action is None:
            continue
        meaning = frame_meaning("multi_turn.instead", wrong=first.target, text=action.act())
        draft = draft_undo_and_act(undo, first, action, meaning, (between,))
        yield replace(draft, subcategory="short_term")


def _draw_other_action(
    home: Home, action: DeviceAction, rng: random.Random, ask: Ask, besides: Sequence[str] = ()
) -> DeviceAction | None:
    """An action on another device, of the same kind if there is one."""
    taken = {action.device.did, *ask.taken, *besides}
    others = [device for device in home.plan.devices if device.did not in taken]
    alike = [device for device in others if device_kind(device) == device_kind(action.device)]
    for candidate in (*actions(home, rng, alike), *actions(home, rng, others)):
        if candidate.value != action.value or candidate.value is None:
            return candidate
    return None


def _draft_recall(action: DeviceAction, meaning: Any, before: tuple[Call, ...], past: tuple[PastTurn, ...]) -> Draft:
    draft = draft_of_actions("short_term", (action,), DEPENDENT, meaning)
    return replace(draft, plainly=SpokenCommand((action.act(),)), before=before, past=past)


# long term


@dataclass(frozen=True)
class DevicePreference:
    """What the user wants of a device: one or a few actions in order."""

    device: Device
    actions: tuple[DeviceAction, ...]

    @property
    def preference_calls(self) -> tuple[Call, ...]:
        """The calls of all actions, without repetitions."""
        return tuple(dict.fromkeys(call for action in self.actions for call in action.plan))

    @property
    def path_values(self) -> frozenset[tuple[str, Any]]:
        """The (path, value) pairs of the actions."""
        return frozenset((action.path, action.value) for action in self.actions)

    def say_actions(self, speaker: Speaker) -> str:
        """The actions as one clause."""
        return speaker.join_requests([speaker.act(action.act()) for action in self.actions])

    def met_condition(self, home: Home) -> str:
        """The condition that everything that the calls write is as they leave it."""
        parts = {call.service: call.service.rpartition(".")[0] for call in self.preference_calls}
        index = self.device.spec.service_index
        paths = [f"{parts[s]}.{a.name}".lstrip(".") for s in parts for _, a, _ in index[s].writes]
        return earlier_values_condition(home_after_calls(home, self.preference_calls), self.device, sorted(set(paths)))


@dataclass(frozen=True)
class PreferenceFact:
    """One fact about the user: a preference on some occasion, or always (`cue` None)."""

    cue: str | None
    preference: DevicePreference

    def words(self, speaker: Speaker) -> str:
        """The fact as a sentence."""
        if self.cue is None:
            return speaker.say("memory.always", text=self.preference.say_actions(speaker))
        when = speaker.say(f"memory.cue.{self.cue}.when")
        text = speaker.say("memory.fact", when=when, text=self.preference.say_actions(speaker))
        return text[0].upper() + text[1:]


def _recall_for_occasion(home: Home, rng: random.Random, ask: Ask) -> Iterator[Draft | None]:
    """ "Time to sleep": what the user wants then, of one device or of two."""
    for cue in rng.sample(list(CUES), len(CUES)):
        devices = [device for device in _devices_for_occasion(home, rng, cue) if device.did not in ask.taken]
        preferences = [preference for device in devices[:4] if (preference := _draw_preference(home, device, rng))]
        meant = tuple(PreferenceFact(cue, preference) for preference in preferences[: 1 + (rng.random() < 0.3)])
        if not meant:
            continue
        others = _draw_distractors(home, rng, meant)
        usual = frame_meaning("memory.usual", doing=frame_meaning(f"memory.cue.{cue}.doing"))
        meaning = frame_meaning(f"memory.cue.{cue}.say") if rng.random() < 0.6 else usual
        if others:
            yield _draft_preferences(home, meant, others, meaning, rng)


def _recall_for_device(home: Home, rng: random.Random, ask: Ask) -> Iterator[Draft | None]:
    """ "Set the lamp how I like it"."""
    for device in rng.sample(home.plan.devices, len(home.plan.devices)):
        preference = _draw_preference(home, device, rng) if device.did not in ask.taken else None
        if preference is None or all(action.value is None for action in preference.actions):
            continue
        meant = (PreferenceFact(None, preference),)
        others = [fact for fact in _draw_distractors(home, rng, meant) if fact.preference.device != device]
        if len(others) >= FACTS[0] - 1:
            yield _draft_preferences(
                home, meant, others, frame_meaning("memory.how_i_like", target=Target.of_device(device)), rng
            )


def _draft_preferences(
    home: Home, meant: Sequence[PreferenceFact], others: Sequence[PreferenceFact], meaning: Any, rng: random.Random
) -> Draft | None:
    """The draft of the facts `meant` among distractors; None if there are too few distractors."""
    count = rng.randint(*FACTS) - len(meant)
    memory = [*meant, *others[: max(count, FACTS[0] - len(meant))]]
    if len(memory) < FACTS[0]:
        return None
    rng.shuffle(memory)
    preferences = [fact.preference for fact in meant]
    return Draft(
        "long_term",
        meaning,
        SEVERAL if len(preferences) > 1 else DEPENDENT,
        conditions=tuple(preference.met_condition(home) for preference in preferences),
        devices=tuple(preference.device.did for preference in preferences),
        plan=tuple(call for preference in preferences for call in preference.preference_calls),
        plainly=SpokenCommand(tuple(action.act() for preference in preferences for action in preference.actions)),
        memory=tuple(memory),
    )


def _draw_distractors(home: Home, rng: random.Random, meant: Sequence[PreferenceFact]) -> list[PreferenceFact]:
    """Facts with other cues, those on the same devices (with other settings) first."""
    same = [fact.preference.device for fact in meant]
    facts: list[PreferenceFact] = []
    for cue in rng.sample(list(CUES), len(CUES)):
        devices = _devices_for_occasion(home, rng, cue)
        devices.sort(key=lambda device: device not in same)
        if cue in {fact.cue for fact in meant}:
            continue
        for device in devices[: 1 if rng.random() < 0.5 else 3]:
            preference = _draw_preference(home, device, rng)
            wanted = [fact.preference for fact in meant if fact.preference.device == device]
            if preference and not any(preference.path_values & other.path_values for other in wanted):
                facts.append(PreferenceFact(cue, preference))
                break
    return sorted(facts, key=lambda fact: fact.preference.device not in same)


def _devices_for_occasion(home: Home, rng: random.Random, cue: str) -> list[Device]:
    """Devices that suit an occasion, in random order."""
    fitting = [device for device in home.plan.devices if device.spec.category in CUES[cue]]
    fitting = [device for device in fitting if device.room.type in PLACES.get(cue, (device.room.type,))]
    return rng.sample(fitting, len(fitting))


def _draw_preference(home: Home, device: Device, rng: random.Random) -> DevicePreference | None:
    """A preference of one or two settings, with a value if the device has any."""
    options = list(actions(home, rng, (device,)))
    valued = [action for action in options if action.value is not None]
    first = next(iter(valued or options), None)
    if first is None:
        return None
    settings, now = [first], home_after_calls(home, first.plan)
    for action in actions_on_same_part(now, first, rng, valued=True):
        wanted = len(settings) < MOST_SETTINGS and action.path != first.path and rng.random() < 0.6
        if wanted and (fitting := make_action(now, device, action.path, action.value)):
            settings.append(fitting)
    preference = DevicePreference(device, tuple(settings))
    end = home_after_calls(home, preference.preference_calls)
    for action in settings:
        path = action.path.replace("set_", "")  # the attribute that it sets, if the service is named after it
        if path in device.spec.attribute_index and action.value not in (None, end.read_value(device.did, path)):
            return None  # a later setting has changed what this one set
    return preference


def _one_of_ways(*ways: Callable[[Home, random.Random, Ask], Iterator[Draft | None]]) -> Propose:
    """The ways in random order; an earlier dialogue and a memory belong to the first intent of a blueprint.

    What a way yields first counts, and no more is drawn.
    """

    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        drafts = (next(way(home, rng, ask), None) for way in rng.sample(ways, len(ways)))
        return next(filter(None, drafts), None) if ask.first else None

    return propose


SUBCATEGORIES: dict[str, Propose] = {
    "short_term": _one_of_ways(_recall_value, _recall_device, _repeat_first_setting, _undo_earlier),
    "long_term": _one_of_ways(_recall_for_occasion, _recall_for_device),
}
