"""Wishes of blueprints in sentences of Home Assistant's users.

A wish is said by the templates of the intents that make its plan, or that ask its question. Each sentence is checked: Home
Assistant's matcher says what it means, and the home what that does. It is used only if it meets the goals of the wish and
changes no other device; of a question, if it is about the same devices and has the same answer.

A wish whose point lies in how it is said (it leaves something open, goes back to what was said before, or only hints) is not
put into such words, since these name what they want.

Invariants: a sentence is a pure function of (draft, home, voice, random generator); it belongs to its split, and its
template to the voice's pool.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from homerl.envs.homeenv.language.meaning import SpokenCommand, spoken_name_of
from homerl.envs.homeenv.language.speaker import Speaker, SpokenPiece
from homerl.envs.homeenv.language.utterances import disturb_sentence
from homerl.envs.homeenv.sim.assist.assist_writer import AssistWriter
from homerl.envs.homeenv.sim.assist.entities_of_home import AssistEntity, entities_of_plan, floors_of_plan
from homerl.envs.homeenv.sim.assist.intents import IntentFailed, match_intent_targets, read_intent_slots
from homerl.envs.homeenv.sim.assist.value_translation import translation_table
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import parse_turn_tool_calls
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Call
from homerl.envs.homeenv.tasks.intents import Draft
from homerl.envs.homeenv.tasks.intents.adjust import AdjustmentRequest
from homerl.envs.homeenv.tasks.sentences.matching import calls_of_sentence, question_of_sentence
from homerl.envs.homeenv.tasks.sentences.templates import (
    CannotBeFilled,
    FilledSlots,
    SentenceTemplate,
    templates_of_intent,
)
from homerl.play.spoken_words import asks_about_state
from homerl.play.words.answer_rules import Answer, judge_answer_by_rules
from homerl.play.words.grammar import NoSentence, Split, Voice, split_of

DRAWN = 60  # texts of a wish before it is given up
CHECKED = 5  # of these, how many are given to the matcher, which takes some 40 ms each
BY_NAME = frozenset(("scene", "script"))  # of these the name alone is asked for; of others it asks for nothing
BOUNDS = ("most", "least")  # ways to change something up to the bound of its range
ASKS = {  # by the type of an answer: the responses of Home Assistant whose questions have such an answer
    "boolean": ("one_yesno", "any", "all"),
    "text": ("one", "default"),
    "number": ("one", "how_many", "default"),
    "names": ("which",),
    "time": ("default",),
    "date": ("default",),
}


@dataclass(frozen=True)
class IntentWish:
    """One intent that a sentence may name: its domains, and the texts and values of its slots.

    A template must say each of `needed`. `here` says whether the place is where the person speaks, which need not be said.
    With `asks`, the template is of a question with one of these responses.
    """

    intent: str
    domains: frozenset[str]
    entities: tuple[AssistEntity, ...]
    names: Mapping[str, str]
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    here: bool = False
    asks: tuple[str, ...] = ()

    def fits(self, template: SentenceTemplate) -> bool:
        """Whether the template's block is about such entities, in such a place."""
        domains, fixed = template.required_values("domain"), template.block.slots.get("domain")
        if (domains is not None and not domains & self.domains) or (fixed is not None and {fixed} != self.domains):
            return False
        if self.asks and template.block.response not in self.asks:
            return False
        if template.names_alone and not self.domains <= BY_NAME:
            return False
        return self.here or not template.is_about_here

    def is_said_in(self, slots: FilledSlots, template: SentenceTemplate) -> bool:
        """Whether a filled template says all that is needed."""
        here = {"area"} if template.is_about_here else set()
        return self.needed <= slots.said.keys() | template.block.slots.keys() | here


@dataclass(frozen=True)
class PeopleSpeaker:
    """Says wishes in a home, as Home Assistant's users would.

    `placed` says whether the agent knows where the person speaks, and `language` what they speak, if it is not the voice's:
    then only a single command is said.
    """

    home: Home
    voice: Voice
    split: Split
    placed: bool
    language: str | None = None

    @property
    def spoken(self) -> str:
        """The language of the sentences."""
        return self.language or self.voice.language

    def say_wish(self, draft: Draft, rng: random.Random) -> str:
        """A sentence for a wish; one of several acts is joined of their sentences. Raises `NoSentence` if none is found."""
        if not is_said_outright(draft):
            raise NoSentence
        parts, own = self._parts_of(draft), self.spoken == self.voice.language
        if not own and (len(parts) > 1 or draft.answer is not None):
            raise NoSentence
        ways = [self._ways_to_say(part) for part in parts]
        checked = 0
        for _ in range(DRAWN if all(ways) else 0):
            drawn = [self._draw_sentence(among, rng) for among in ways]
            texts = [text for text, _ in filter(None, drawn)]
            if len(texts) < len(parts):
                continue
            speaker = Speaker(self.home, self.voice, "clear", rng)
            speaker.pieces = [piece for _, pieces in filter(None, drawn) for piece in pieces]
            said = speaker.join_requests(texts)
            sloppy = self.voice.writing.sloppy if own else 0.0
            said = disturb_sentence(said, speaker, sloppy=True) if sloppy and rng.random() < sloppy else said
            if split_of(said) != self.split or (draft.answer and not self._is_heard_as_question(said, draft.answer)):
                continue
            if self._means_wish(texts, draft):
                return said
            checked += 1
            if checked == CHECKED:
                break
        raise NoSentence

    def _is_heard_as_question(self, said: str, answer: Answer) -> bool:
        """Whether a person would not take it for a command: to the matcher, "all fans off" may ask whether they are."""
        return answer.type != "boolean" or self.spoken not in ("en", "zh") or asks_about_state(said)

    def _parts_of(self, draft: Draft) -> list[Draft]:
        """The wish, or the acts of one that names several things, each with its part of the plan."""
        acts = draft.meaning.acts if isinstance(draft.meaning, SpokenCommand) else ()
        if len(acts) < 2:
            return [draft]
        plans = ([call for call in draft.plan if call.did == device.did] for act in acts for device in act.target.devices)
        return [replace(draft, plan=tuple(plan)) for plan in plans]

    def _ways_to_say(self, draft: Draft) -> list[tuple[IntentWish, SentenceTemplate]]:
        return [
            (wish, template)
            for wish in (self._questions_of(draft) if draft.answer else self._commands_of(draft))
            for template in templates_of_intent(self.spoken, wish.intent, self.voice.frames)
            if wish.fits(template)
        ]

    def _draw_sentence(
        self, ways: Sequence[tuple[IntentWish, SentenceTemplate]], rng: random.Random
    ) -> tuple[str, list[SpokenPiece]] | None:
        """A text of one of these templates, and its names and values; None if it cannot say all that is needed."""
        wish, template = rng.choice(ways)
        slots = FilledSlots(self.spoken, rng, self.voice.temperature, wish.names, wish.values, frozenset({"state"}))
        try:
            text = slots.write(template)
        except CannotBeFilled:
            return None
        device = wish.entities[0].device if len(wish.entities) == 1 else None
        pieces = [SpokenPiece(said, device=device) for slot, (said, _) in slots.said.items() if slot == "name"]
        pieces += [SpokenPiece(said, value=value) for slot, (said, value) in slots.said.items() if slot in wish.values]
        return (text, pieces) if wish.is_said_in(slots, template) else None

    # What can be said

    def _commands_of(self, draft: Draft) -> Iterator[IntentWish]:
        """The intents that make the plan in one call, by name and by place.

        Of the plans that depend on what the home shows now, only "louder", "louder by 10" and "as loud as can be" are said.
        """
        request = draft.meaning
        if draft.reads and not isinstance(request, AdjustmentRequest):
            return
        writer = AssistWriter(self.home.fork())
        try:
            written = [writer.write_calls(draft.plan)]
            written += [writer.write_calls_on_all(draft.plan, placed) for placed in (True, False)]
        except Refused:
            return
        seen: list[tuple[str, Any]] = []
        for message in written:
            calls = list(parse_turn_tool_calls([message]))
            if len(calls) == 1 and calls[0] not in seen:
                seen += calls
                wish = self._command_of_call(*calls[0])
                if wish is not None and isinstance(request, AdjustmentRequest) and request.way not in BOUNDS:
                    yield from self._steps_of(wish, request)
                elif wish is not None:
                    yield wish

    def _command_of_call(self, tool: str, slots: Mapping[str, Any]) -> IntentWish | None:
        if tool not in translation_table().tools:  # a tool with rules of its own, as that which cleans a room
            return None
        try:
            entities = match_intent_targets(self.home, tool, read_intent_slots(tool, slots)).entities
        except IntentFailed:
            return None
        values = {slot: (slots[slot],) for slot in translation_table().tools[tool].value_slots if slot in slots}
        wish = self._wish_about(tool.rpartition("__")[2], entities, named="name" in slots, placed="area" in slots)
        return replace(wish, values={**wish.values, **values}, needed=wish.needed | values.keys())

    def _wish_about(self, intent: str, entities: tuple[AssistEntity, ...], named: bool, placed: bool) -> IntentWish:
        """An intent about entities. One that is `named` may be placed as well; others may be `placed` in their area."""
        areas = {entity.area for entity in entities}
        area = next(iter(areas)) if len(areas) == 1 and (named or placed) else None
        names = {"name": self._name_of(entities[0])} if named and entities else {}
        if area is not None:
            names["area"] = spoken_name_of(area.room, self.home, self.voice.by_alias)
        if area is not None and named:
            floors = [floor for floor in floors_of_plan(self.home.plan) if area.room.id in floor.rooms]
            names |= {"floor": floors[0].name} if floors else {}
        classes = tuple({entity.shape.device_class for entity in entities if entity.shape.device_class})
        values = {"device_class": classes} if len(classes) == 1 else {}
        here = self.placed and area is not None and area.room == self.home.plan.entrance_room
        domains = frozenset(entity.domain for entity in entities)
        needed = frozenset(list(names)[:1])  # the name, or else the area
        return IntentWish(intent, domains, entities, names, values, needed, here)

    def _name_of(self, entity: AssistEntity) -> str:
        """What the person calls an entity: one that has its device's name may be called by an alias."""
        whole = entity.name == entity.device.name
        return spoken_name_of(entity.device, self.home, self.voice.by_alias) if whole else entity.name

    def _steps_of(self, wish: IntentWish, request: AdjustmentRequest) -> Iterator[IntentWish]:
        """The intents that change by a step, or by the amount that is said, what this one sets."""
        rules = translation_table().tools
        sets = next(of.sets for name, of in rules.items() if name.rpartition("__")[2] == wish.intent)
        sign = 1 if request.way.startswith("up") else -1
        for other, stepping in rules.items():
            for slot, what in stepping.steps.items():
                if what in sets.values():
                    values = {slot: (request.way,) if request.by is None else (sign * int(request.by),)}
                    needed = (wish.needed - sets.keys()) | {slot}
                    yield replace(wish, intent=other.rpartition("__")[2], values=values, needed=needed)

    def _questions_of(self, draft: Draft) -> Iterator[IntentWish]:
        """The intents that ask about the states that must be read; about nothing, if none must."""
        assert draft.answer is not None
        asks = ASKS.get(draft.answer.type, ())
        if not draft.reads and asks:
            for intent in ("HassGetCurrentTime", "HassGetCurrentDate"):
                yield replace(self._wish_about(intent, (), named=False, placed=False), asks=asks)
        shown = [entity for entity in entities_of_plan(self.home.plan) if shows_any(entity, draft.reads)]
        for domain in dict.fromkeys(entity.domain for entity in shown) if asks else ():
            found = tuple(entity for entity in shown if entity.domain == domain)
            state = replace(self._wish_about("HassGetState", found, named=len(found) == 1, placed=True), asks=asks)
            yield state
            if domain == "weather":
                yield replace(state, intent="HassGetWeather", needed=frozenset())
            if draft.answer.unit == "celsius":
                yield replace(state, intent="HassClimateGetTemperature")
                yield replace(self._wish_about("HassClimateGetTemperature", found, named=False, placed=True), asks=asks)

    # What it means

    def _means_wish(self, said: Sequence[str], draft: Draft) -> bool:
        """Whether the matcher reads the sentences, one after the other, as the wish."""
        if draft.answer is not None:
            heard = question_of_sentence(self.home, said[0], self.spoken, self.placed)
            if heard is None or heard.devices != {did for did, _ in draft.reads}:
                return False
            return judge_answer_by_rules(draft.answer, heard.answer) == "right"
        calls = [calls_of_sentence(self.home, one, self.spoken, self.placed) for one in said]
        return all(calls) and self._meets_goals([call for part in calls for call in part], draft)

    def _meets_goals(self, calls: Sequence[Call], draft: Draft) -> bool:
        """Whether the calls meet the conditions of the wish, and change no other device."""
        try:
            after = home_after_calls(self.home, calls)
        except Refused:
            return False
        slots = self.home.plan.slots
        if {slots[change.slot].owner for change in self.home.diff(after)} - {*draft.devices}:
            return False
        wanted = (*draft.conditions, *draft.keeps)
        return all(compile_condition(text, self.home.plan).holds_in(after) for text in wanted)


def is_said_outright(draft: Draft) -> bool:
    """Whether a wish names what it wants, in one sentence and now."""
    points = (draft.clarify, draft.automation, draft.plainly, draft.past, draft.memory, draft.then)
    return not any(points) and bool(draft.answer or draft.plan)


def shows_any(entity: AssistEntity, reads: Sequence[tuple[str, str]]) -> bool:
    """Whether an entity shows one of these attributes."""
    paths = (entity.shape.state, *entity.shape.shows.values())
    return any(did == entity.device.did and path in paths for did, path in reads)
