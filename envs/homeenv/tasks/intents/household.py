"""Errands: timers, lists, media, scenes and scripts by name, cleaning, mowing.

A device can do an errand if it has the errand's services; its category decides only where two kinds share a service name.
If a single device of the home can do it, people do not name it ("skip this song").

Invariants: the wanted state is what the service does to the device's attributes, so a service that is called twice is
wrong where that shows (two tracks on); errands that change nothing are not proposed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from homerl.envs.homeenv.language import home_grammar, list_home_languages
from homerl.envs.homeenv.language.meaning import Target, refuse_shared_device
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.language.times_and_states import join_clauses
from homerl.envs.homeenv.sim.devices.attributes_and_services import CompiledService
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Call, Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft, number_answer
from homerl.play.words.answer_rules import Answer

SLACK = 5  # seconds by which an answer about a running timer may be off
RUNNING = (12, 15, 20, 25, 30, 40, 45, 50, 60, 75, 80, 90, 100, 120)  # minutes of a timer that was set before the episode
CUT = 75  # minutes by which it was then shortened, for one to be lengthened
MINUTES = (1, 2, 3, 4, 5, 8, 10, 12, 15, 20, 25, 30, 40, 45, 60)
PER = {"second": 60, "minute": 1}  # units of a duration: how many make a minute


@dataclass(frozen=True)
class ErrandThing:
    """What an errand is about: the arguments of the call, and how it is said.

    `key` is a grammar key of which the `index`-th frame says it; or `text` says it.
    """

    args: tuple[Any, ...] = ()
    key: str = ""
    index: int = 0
    text: str = ""

    def say_thing(self, speaker: Speaker) -> str:
        """The words, in the speaker's language."""
        if not self.key:
            return self.text
        if self.key.startswith("unit."):
            return speaker.say(self.key, value=self.text)
        return speaker.grammar.plain_texts(self.key)[self.index]


@dataclass(frozen=True)
class ErrandContext:
    """What the thing of an errand is drawn for: a service of a device, and the user's language."""

    home: Home
    device: Device
    compiled: CompiledService
    rng: random.Random
    language: str


Things = Callable[[ErrandContext], ErrandThing | None]


@dataclass(frozen=True)
class Errand:
    """A service that people ask for, by the categories that mean it so (none: any), and what it is asked about."""

    service: str
    categories: tuple[str, ...] = ()
    things: Things | None = None
    by_name: bool = False  # the device's name is what is asked for: a scene, a script
    judged: tuple[str, ...] = ()  # the attributes that count, if not all that the call changes
    prepared: str = ""  # what happened before the episode: "written", "started" or "shortened", see `_calls_before`


def _check_arguments(compiled: CompiledService, *values: Any) -> tuple[Any, ...] | None:
    """The values as canonical arguments of a service; None if they do not fit."""
    kinds = compiled.service.arguments
    if len(kinds) < len(values) or any(kind.required for kind in kinds[len(values) :]):
        return None
    try:
        return tuple(kind.check_value(value) for kind, value in zip(kinds, values))
    except Refused:
        return None


def _draw_duration(of: ErrandContext) -> ErrandThing | None:
    """A number of minutes, in the form that the service takes: a number with a unit, or "00:05:00"."""
    minutes, kind = of.rng.choice(MINUTES), next(iter(of.compiled.service.arguments), None)
    if kind is None:
        return None
    value: Any = f"{minutes // 60:02d}:{minutes % 60:02d}:00"
    if kind.type in ("int", "float"):
        value = minutes * PER.get(kind.unit or "second", 60)
    args = _check_arguments(of.compiled, value)
    return None if args is None else ErrandThing(args, "unit.minute", text=str(minutes))


def _draw_words(key: str, *more: str) -> Things:
    """A thing of the grammar: its words are the argument, as the user says them."""

    def draw_thing(of: ErrandContext) -> ErrandThing | None:
        known = home_grammar(of.language).plain_texts(key)
        index = of.rng.randrange(len(known))
        args = _check_arguments(of.compiled, known[index], *more)
        return None if args is None else ErrandThing(args, key, index)

    return draw_thing


def language_of_user(home: Home, ask: Ask) -> str:
    """The user's language, else that of the home's names: the first whose script they have."""
    if ask.language is not None:
        return ask.language
    chinese = any("\u4e00" <= letter <= "\u9fff" for room in home.plan.rooms for letter in room.name)
    return "zh" if chinese and "zh" in list_home_languages() else "en"


def _draw_listed_item(of: ErrandContext) -> ErrandThing | None:
    """Something that is on the device's list."""
    state = of.home.readable_state_of(of.device.did)
    items = [item for items in state.values() if isinstance(items, (list, tuple)) for item in items]
    texts = [item if isinstance(item, str) else dict(item).get("summary") for item in items if item]
    found = [text for text in texts if isinstance(text, str) and text]
    if not found:
        return None
    text = of.rng.choice(found)
    args = _check_arguments(of.compiled, text)
    return None if args is None else ErrandThing(args, text=text)


def _draw_done_item(of: ErrandContext) -> ErrandThing | None:
    """Something that is on the device's list, and is done."""
    known = [argument.name for argument in of.compiled.service.arguments]
    thing = _draw_listed_item(of)
    if thing is None or "status" not in known:
        return None
    return replace(thing, args=(*thing.args, *[None] * (known.index("status") - 1), "completed"))


def _draw_area(of: ErrandContext) -> ErrandThing | None:
    """A room to clean, by the name that people say and agents read."""
    rooms = [room for room in of.home.plan.rooms if room.type != "home"]  # that is where things are that are in no room
    if not rooms:
        return None
    room = of.rng.choice(rooms)
    args = _check_arguments(of.compiled, (room.name,)) or _check_arguments(of.compiled, room.name)
    return None if args is None else ErrandThing(args, text=room.name)


ERRANDS: Mapping[str, tuple[Errand, ...]] = {
    "timer": (
        Errand("start", ("timer",), _draw_duration),
        Errand("pause", ("timer",), prepared="started"),
        Errand("cancel", ("timer",), prepared="started"),
        Errand("change", ("timer",), _draw_duration, prepared="shortened"),
    ),
    "list": (
        Errand("add_item", (), _draw_words("household.item")),
        Errand("remove_item", (), _draw_listed_item, prepared="written"),
        Errand("update_item", (), _draw_done_item, judged=("needs_action", "completed"), prepared="written"),
    ),
    "skip": (Errand("media_next_track"), Errand("media_previous_track")),
    "artist": (Errand("play_media", (), _draw_words("household.artist", "artist"), judged=("media_content_id", "state")),),
    "named": (Errand("turn_on", ("scene", "script"), by_name=True), Errand("press", ("button",), by_name=True)),
    "clean": (
        Errand("clean_area", (), _draw_area),
        Errand("start", ("vacuum",)),
        Errand("return_to_base", ("vacuum",)),
        Errand("return_to_dock", ("vacuum",)),
    ),
    "mow": (Errand("start_mowing"), Errand("dock", ("lawn_mower",))),
}


@dataclass(frozen=True)
class ErrandRequest:
    """An errand of a device, as a sentence; a device that alone can do it is not named."""

    errand: Errand
    device: Device
    part: str
    thing: ErrandThing
    sole: bool

    def words(self, speaker: Speaker) -> str:
        """A request in the frames of the service: for a sole device, a scene's name, or one device among several."""
        kind = "named" if self.errand.by_name else "sole" if self.sole else "of"
        slots = {"thing": self.thing.say_thing(speaker)}
        if self.errand.by_name:
            refuse_shared_device(self.device, speaker.home)
            slots["thing"] = speaker.say_thing_name(self.device)
        elif not self.sole:
            slots["target"] = speaker.say_target(Target.of_device(self.device, self.part))
        group = self.device.spec.category if self.errand.by_name else self.errand.service
        group = "start_timer" if group == "start" and self.thing.args else group
        said = speaker.say(f"household.{group}.{kind}", **slots)
        return speaker.say("request", act=said) if speaker.style == "clear" else said


def _condition_after_call(home: Home, call: Call, device: Device, errand: Errand) -> str | None:
    """The condition that the attributes that the call changes are as it leaves them; None if it is refused or idle.

    A text that the person said may be written with capitals.
    """
    try:
        later = home_after_calls(home, (call,))
    except Refused:
        return None
    earlier, state = home.readable_state_of(device.did), later.readable_state_of(device.did)
    counted = [path for path in state if state[path] != earlier[path]]
    if errand.judged:
        counted = [path for path in counted if path.rpartition(".")[2] in errand.judged]
    said = [arg for arg in call.args if isinstance(arg, str)]
    clauses = []
    for path in counted:
        value = state[path]
        ways = (value, value.capitalize(), value.title()) if isinstance(value, str) and value in said else ()
        either = tuple(dict.fromkeys(ways))
        comparison = f"in {either!r}" if len(either) > 1 else f"== {code_literal(value)}"
        clauses.append(f'device("{device.did}").{path} {comparison}')
    return " and ".join(clauses) or None


def _calls_before(home: Home, device: Device, prepared: str, rng: random.Random, language: str) -> tuple[Call, ...]:
    """Calls before the episode after which an errand makes sense: a timer runs, something is on a list."""
    made: list[Call] = []
    if prepared == "written":
        items = home_grammar(language).plain_texts("household.item")
        made = [Call(did=device.did, service="add_item", args=(item,)) for item in rng.sample(items, rng.randint(1, 3))]
    elif prepared:
        shortened = prepared == "shortened"
        minutes = rng.choice([minutes for minutes in RUNNING if minutes > CUT or not shortened])
        made = [Call(did=device.did, service="start", args=(60 * minutes,))]
        made += [Call(did=device.did, service="change", args=(-60 * CUT,))] if shortened else []
    try:
        home_after_calls(home, made)
    except (Refused, KeyError):
        return ()
    return tuple(made)


def _draft_errand(subcategory: str, errand: Errand, original: Home, rng: random.Random, ask: Ask) -> Draft | None:
    devices = [one for one in original.plan.devices if not errand.categories or one.spec.category in errand.categories]
    doers = [(one, path) for one in devices for path in one.spec.service_index if path.rpartition(".")[2] == errand.service]
    language = language_of_user(original, ask)
    for device, path in rng.sample(doers, len(doers)):
        compiled = device.spec.service_index[path]
        before = _calls_before(original, device, errand.prepared, rng, language) if ask.first else ()
        home = home_after_calls(original, before)
        if errand.things:
            thing = errand.things(ErrandContext(home, device, compiled, rng, language))
        else:
            thing = None if _check_arguments(compiled) is None else ErrandThing()
        if thing is None or device.did in ask.taken:
            continue
        call = Call(did=device.did, service=path, args=thing.args)
        if condition := _condition_after_call(home, call, device, errand):
            meaning = ErrandRequest(errand, device, path.rpartition(".")[0], thing, len(doers) == 1)
            return Draft(subcategory, meaning, Factors(), (condition,), (device.did,), (call,), before=before)
    return None


def _propose_errand(subcategory: str) -> Propose:
    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """The first of the subcategory's errands, in random order, that some free device can do."""
        errands = ERRANDS[subcategory]
        drafts = (_draft_errand(subcategory, errand, home, rng, ask) for errand in rng.sample(errands, len(errands)))
        return next(filter(None, drafts), None)

    return propose


def _say_duration(seconds: int, speaker: Speaker) -> str:
    """A duration in minutes, or in seconds if it is not whole minutes, in the usual frame: others fit only some replies."""
    unit, value = ("second", seconds) if seconds % 60 else ("minute", seconds // 60)
    key = speaker.first_known_key(f"unit.{unit}.{value}", f"unit.{unit}")
    return speaker.grammar.draw_sentence(key, {"value": str(value)}, speaker.rng, "clear", "any", 0.0)


def propose_time_left(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "How long does the timer still run?", of the home's only timer, which was started before."""
    timers = [device for device in home.find_devices(category="timer") if "remaining" in device.spec.attribute_index]
    if len(timers) != 1:
        return None
    timer = timers[0]
    before = _calls_before(home, timer, "started", rng, language_of_user(home, ask)) if ask.first else ()
    state = home_after_calls(home, before).readable_state_of(timer.did)
    left = state.get("remaining")
    if state.get("state") != "active" or not isinstance(left, int) or not left:
        return None
    answer = number_answer(left, timer.spec.attribute_index["remaining"][1].unit, SLACK)
    reply = frame_meaning("household.reply.left", value=partial(_say_duration, left))
    meaning, reads = frame_meaning("household.left"), ((timer.did, "remaining"),)
    return make_question_draft(meaning, answer, reads, reply, "time_left", before)


def propose_list_contents(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "What is on my list?", of the home's only list, after some things were written on it."""
    lists = [device for device in home.find_devices(category="todo") if "needs_action" in device.spec.attribute_index]
    if len(lists) != 1:
        return None
    language, did = language_of_user(home, ask), lists[0].did
    before = _calls_before(home, lists[0], "written", rng, language) if ask.first else ()
    items = home_after_calls(home, before).read_value(did, "needs_action")
    if not items or not all(isinstance(item, str) for item in items):
        return None
    others = tuple(item for item in home_grammar(language).plain_texts("household.item") if item not in items)
    answer = Answer(type="names", value=tuple(items), accepted=tuple((i,) for i in items), distractors=others)
    reply = frame_meaning("household.reply.listed", items=lambda speaker: join_clauses(speaker, items))
    meaning, reads = frame_meaning("household.listed"), ((did, "needs_action"),)
    return make_question_draft(meaning, answer, reads, reply, "on_list", before)


SUBCATEGORIES: dict[str, Propose] = {name: _propose_errand(name) for name in ERRANDS} | {
    "time_left": propose_time_left,
    "on_list": propose_list_contents,
}
