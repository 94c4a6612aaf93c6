"""Draws how a user tells a wish: disclosed in parts, corrected, changed later, or with an answer beside the point.

How often each is drawn (`Behaviours`), and what an episode knows of a course (`Course`), is the same in all worlds.

Invariants:
- A pure function of (blueprint, behaviours).
- A blueprint in which no wish is changed is returned as it was.
- The changed blueprint passes the triple filter.
- Its Φ and its devices are those of what is asked last, so a device that a change of mind leaves must end as it was.
- Whoever carries out a first wish, and then all that a change of mind says, fulfils the Φ.
- An utterance belongs to the blueprint's split.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

from homerl.envs.homeenv.language.meaning import Act, Meaning, SpokenCommand, Target
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.language.utterances import add_self_correction, write_utterance
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import DeviceAction, home_after_calls, make_action, propose_action, spoken_call
from homerl.envs.homeenv.tasks.author import first_filter_failure
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, Intent, Part
from homerl.envs.homeenv.tasks.intents.ambiguous import (
    AnyDeviceRequest,
    UnvaluedRequest,
    can_leave_out_device,
    can_leave_out_value,
    open_kind_of,
    which_device_question,
)
from homerl.envs.homeenv.tasks.intents.device_choice import device_kind, members_of_kind
from homerl.envs.homeenv.tasks.intents.earlier_dialogue import calls_as_acts, plan_undo, repeat_action
from homerl.models.endpoint.endpoint_settings import Behaviours
from homerl.play.words.grammar import NoSentence, Voice

BY_NAME = (("atomic", None), ("compositional", "explicit"))  # (family, subcategory) of wishes that name every device
TRIES = 6  # other values that are drawn for a change of mind
CANDIDATES = 4  # ways to tell a wish that are put into words and checked


@dataclass(frozen=True)
class SelfCorrectedRequest:
    """A request in which a device or a value is named wrongly, and corrected at once."""

    acts: tuple[Act, ...]

    def words(self, speaker: Speaker) -> str:
        """The sentence. Raises `NoSentence` if nothing in it can be mistaken."""
        text = speaker.request(self.acts)
        if (said := add_self_correction(text, speaker)) == text:
            raise NoSentence
        return said


def draw_courses_of_wishes(blueprint: Blueprint, rates: Behaviours, recipe: Any) -> Blueprint:
    """The blueprint with courses for the wishes that are drawn by its seed and that allow them.

    `recipe` is the blueprint's (`BlueprintRecipe`); without one, people speak as they do by default.
    """
    voice = getattr(recipe, "user_voice", None) or Voice(blueprint.language)
    home = home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")
    for number in range(len(blueprint.intents)):
        teller = _Teller(blueprint, number, home, voice)
        for candidate in islice(teller.candidate_blueprints(rates), CANDIDATES):
            if first_filter_failure(candidate) is None:
                blueprint = candidate
                break
        if teller.rng_aside.random() < rates.beside_the_point and (
            aside := _Teller(blueprint, number, home, voice).blueprint_with_aside()
        ):
            blueprint = aside
    return blueprint


class _Teller:
    """Tells one wish of a blueprint in other ways."""

    def __init__(self, blueprint: Blueprint, number: int, home: Home, voice: Voice) -> None:
        self.blueprint, self.number, self.home, self.voice = blueprint, number, home, voice
        self.intent: Intent = blueprint.intents[number]
        seed = f"{blueprint.id} {blueprint.seed} {self.intent.id}"
        self.rng, self.rng_aside = random.Random(f"behaviour {seed}"), random.Random(f"aside {seed}")

    def candidate_blueprints(self, rates: Behaviours) -> Iterator[Blueprint]:
        """The blueprint with the wish told in the drawn behaviour; nothing if it does not allow the behaviour."""
        drawn = self.rng.random() - rates.disclosure
        ways: Callable[[], Iterator[Intent]] = self.disclosed_intents
        if drawn >= 0:
            ways, drawn = self.self_corrected_intents, drawn - rates.self_correction
        if drawn >= 0:
            ways, drawn = self.changed_intents, drawn - rates.change_of_mind
        if drawn >= 0 or self.intent.clarify:
            return
        try:
            yield from map(self.with_intent, ways())
        except NoSentence:
            return

    def with_intent(self, intent: Intent) -> Blueprint:
        """The blueprint with this wish in place of its own."""
        intents = (*self.blueprint.intents[: self.number], intent, *self.blueprint.intents[self.number + 1 :])
        return self.blueprint.model_copy(update={"intents": intents})

    # disclosure

    def disclosed_intents(self) -> Iterator[Intent]:
        """The wish in parts: without its value, its device or its time, with one device after the other, or in two steps."""
        actions = self.named_actions()
        if len(actions) == 1:
            yield from self._leave_out_slot(actions[0])
        elif actions:
            meanings: list[Meaning] = [SpokenCommand((actions[0].act(),))]
            meanings += [frame_meaning("behaviours.more", text=action.act()) for action in actions[1:]]
            parts = zip(meanings, actions)
            yield self.with_course(*(self.make_part("disclosure", said, plan=action.plan) for said, action in parts))
        whole = Part(behaviour="disclosure", text=self.intent.queries[0])
        dids = {*self.intent.devices, *(did for did, _ in self.intent.reads)}
        if self.intent.family == "ambiguous" or self.intent.factors.dependency == "dependent":
            return  # the device that was meant is for the agent to find out
        if self.intent.automation:
            devices = self.home.plan.devices_by_did
            acts = [act for call in self.intent.automation.actions for act in calls_as_acts(devices[call.did], (call,))]
            opening = frame_meaning("behaviours.later", act=partial(_join_acts, acts))
            question = frame_meaning("behaviours.ask_when")
            yield self.with_course(self.make_part("disclosure", opening, question=question), whole)
        elif len(dids) == 1 and (device := self.home.plan.devices_by_did.get(min(dids))):  # none: the clock, for example
            target = Target.of_device(device)
            opening, question = (frame_meaning(f"behaviours.{key}", target=target) for key in ("about", "ask_about"))
            yield self.with_course(self.make_part("disclosure", opening, question=question), whole)

    def _leave_out_slot(self, action: DeviceAction) -> Iterator[Intent]:
        """The one action without its value, then without saying which device."""
        act, room = action.act(), action.device.room
        if can_leave_out_value(action):
            slot = frame_meaning("behaviours.slot.value", value=action.spoken_value)
            opening = self.make_part("disclosure", UnvaluedRequest(act), question=UnvaluedRequest(act, asked=True))
            yield self.with_course(opening, self.make_part("disclosure", slot))
        kind = open_kind_of(self.home, action)
        for within in (None, room):
            if kind and can_leave_out_device(self.home, action, kind, within):
                request, question = AnyDeviceRequest(act, kind, within), which_device_question(kind, within)
                opening = self.make_part("disclosure", request, question=question)
                slot = frame_meaning("behaviours.slot.device", target=action.target)
                yield self.with_course(opening, self.make_part("disclosure", slot))

    # self-correction

    def self_corrected_intents(self) -> Iterator[Intent]:
        """The wish with something wrong in it that is corrected at once."""
        if actions := self.named_actions():
            meaning = SelfCorrectedRequest(tuple(action.act() for action in actions))
            yield self.with_course(self.make_part("self_correction", meaning))

    # change of mind

    def changed_intents(self) -> Iterator[Intent]:
        """Another wish first, with another value or another device; then the wish in its place, said in full.

        All that the last part says may follow the first part: nothing that is said twice toggles or counts.
        """
        for wish in self._second_thoughts():
            conditions = [compile_condition(text, self.home.plan) for text in wish.conditions]
            with suppress(Refused):
                end = home_after_calls(self.home, (*wish.course[0].plan, *wish.plan))
                if all(condition.holds_in(end) for condition in conditions):
                    yield wish

    def _second_thoughts(self) -> Iterator[Intent]:
        actions = self.named_actions()
        acts = tuple(action.act() for action in actions)
        for number, action in enumerate(actions):
            for other in self._other_values(action):
                first = [*actions[:number], other, *actions[number + 1 :]]
                yield self._change_mind(first, action.plan, acts)
        if len(actions) == 1:
            yield from self._other_devices(actions[0])

    def _other_values(self, action: DeviceAction) -> Iterator[DeviceAction]:
        """The action with other values, such that the action itself still brings about all that is wanted after them."""
        for _ in range(TRIES if action.value is not None and not isinstance(action.value, bool) else 0):
            other = propose_action(self.home, action.device, action.path, self.rng)
            if other is None or other.value in (None, action.value):
                continue
            again = make_action(home_after_calls(self.home, other.plan), action.device, action.path, action.value)
            if again is not None and again.condition == action.condition:
                yield other

    def _other_devices(self, action: DeviceAction) -> Iterator[Intent]:
        """The action on other devices of the kind; the change of mind undoes it there in so many words."""
        kind = device_kind(action.device, action.part_name)
        others = [pair for pair in members_of_kind(self.home, kind) if pair[0].did not in self._taken_devices()]
        for device, part in self.rng.sample(others, len(others)):
            other = repeat_action(self.home, action, device, part)
            undo = plan_undo(self.home, home_after_calls(self.home, other.plan), device) if other else None
            if other is None or undo is None or len(undo.calls) > 1:
                continue
            plan, acts = (*undo.calls, *action.plan), (*undo.undo_acts, action.act())
            changed = self._change_mind([other], plan, acts)
            changes: dict[str, Any] = {"conditions": (f"{action.condition} and {undo.condition}",), "plan": plan}
            changes |= {"devices": (*self.intent.devices, device.did), "queries": (self.say_in_split(SpokenCommand(acts)),)}
            changes["clarification"] = self.say_in_split(SpokenCommand(acts))
            yield changed.model_copy(update=changes)

    def _change_mind(self, first: list[DeviceAction], plan: tuple[Call, ...], acts: tuple[Act, ...]) -> Intent:
        opening = SpokenCommand(tuple(one.act() for one in first))
        meaning = frame_meaning("behaviours.instead", text=partial(_join_acts, acts))
        return self.with_course(
            self.make_part("change_of_mind", opening, plan=tuple(call for one in first for call in one.plan)),
            self.make_part("change_of_mind", meaning, plan=plan),
        )

    def _taken_devices(self) -> set[str]:
        """Devices that some wish changes, reads or makes an automation of, and one device that nobody asks for."""
        intents = self.blueprint.intents
        taken = {did for intent in intents for did in (*intent.devices, *(did for did, _ in intent.reads))}
        rules = [intent.automation for intent in intents if intent.automation]
        text = " ".join(condition for rule in rules for condition in (*rule.conditions, *rule.effects))
        taken |= {call.did for rule in rules for call in rule.actions}
        devices = [device.did for device in self.home.plan.devices if device.spec.service_index]
        free = [did for did in devices if did not in taken and f'"{did}"' not in text]
        return {*devices} - {*free[1:]}

    # beside the point

    def blueprint_with_aside(self) -> Blueprint | None:
        """The blueprint with an answer beside the point, if the wish calls for a question."""
        asks = self.intent.clarify or self.intent.family == "ambiguous" or any(part.question for part in self.intent.course)
        if not asks:
            return None
        meaning, split = frame_meaning("behaviours.aside"), self.blueprint.split
        try:
            said = write_utterance(meaning, self.home, self.voice, "clear", split, self.rng_aside)
        except NoSentence:
            return None
        return self.with_intent(self.intent.model_copy(update={"aside": said}))

    # what all of them need

    def named_actions(self) -> list[DeviceAction]:
        """The wish as one action for each device that it names; empty for other wishes, or if others refer to it."""
        intent = self.intent
        named = any(intent.family == family and sub in (None, intent.subcategory) for family, sub in BY_NAME)
        if not named or any(other.factors.dependency == "dependent" for other in self.blueprint.intents):
            return []
        actions = []
        for call in {call.did: call for call in intent.plan}.values():  # the last call of each device
            device = self.home.plan.devices_by_did[call.did]
            path, value, _ = spoken_call(device, call)
            if action := make_action(self.home, device, path, value):
                actions.append(action)
        same = tuple(call for action in actions for call in action.plan) == intent.plan
        return actions if same and tuple(action.condition for action in actions) == intent.conditions else []

    def with_course(self, *parts: Part) -> Intent:
        """The wish with this course."""
        return self.intent.model_copy(update={"course": parts})

    def make_part(
        self, behaviour: str, meaning: Meaning, plan: tuple[Call, ...] = (), question: Meaning | None = None
    ) -> Part:
        """A part in words of the blueprint's split. Raises `NoSentence` if there are none."""
        agent = Speaker(self.home, replace(self.voice, by_alias=0.0, by_kind=0.0), "clear", self.rng)
        asked = question.words(agent) if question else None
        return Part(behaviour=behaviour, text=self.say_in_split(meaning), plan=plan, question=asked)

    def say_in_split(self, meaning: Meaning) -> str:
        """A sentence of the user. Raises `NoSentence` if none of the split can be found."""
        wording: Literal["clear", "colloquial"] = self.rng.choice(("clear", "colloquial"))
        return write_utterance(meaning, self.home, self.voice, wording, self.blueprint.split, self.rng)


def _join_acts(acts: Sequence[Act], speaker: Speaker) -> str:
    return speaker.join_requests([speaker.act(act) for act in acts])
