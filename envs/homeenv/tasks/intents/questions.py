"""What all questions share: the draft, the typed answer, the sentence that answers, and the phrases that count as an answer.

Phrases count in all languages that have a grammar.

Invariant: a phrase that already occurs in the question does not count (`phrases_not_in_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from homerl.envs.homeenv.language import home_grammar, list_home_languages
from homerl.envs.homeenv.language.meaning import Meaning, refuse_shared_device
from homerl.envs.homeenv.language.speaker import Speaker, frame_meaning
from homerl.envs.homeenv.language.times_and_states import join_clauses
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.tasks.blueprint import Call, Factors
from homerl.envs.homeenv.tasks.intents import Draft
from homerl.envs.homeenv.tasks.intents.device_choice import Read
from homerl.play.words.answer_rules import Answer
from homerl.play.words.grammar import Grammar
from homerl.play.words.numbers_and_times import find_numbers

Ways = tuple[str, ...]


@lru_cache
def _grammars_of_all_languages() -> tuple[Grammar, ...]:
    return tuple(map(home_grammar, list_home_languages()))


def _frames_of(keys: Sequence[str]) -> Iterator[str]:
    """The frames of these keys in all languages, without those that leave something open."""
    for key, known in product(keys, _grammars_of_all_languages()):
        if key in known:
            yield from (text for text in known.plain_texts(key) if not set(text) & set("[(|<"))


@lru_cache(maxsize=4096)
def _ways_of_device(room: str, name: str) -> Ways:
    """Phrases for a device: its room and name, and its name alone (which another device may share)."""
    texts = [frame.replace("{room}", room).replace("{device}", name) for frame in _frames_of(("query.way",))]
    return tuple(dict.fromkeys(texts))


def ways_of_option(option: str, path: str) -> Ways:
    """Phrases for an option of an attribute: its name and its words."""
    keys = (f"option.{path.rpartition('.')[2]}.{option}", f"option.{option}", f"query.option.{option}")
    return tuple(dict.fromkeys([option.replace("_", " "), *_frames_of(keys)]))


def phrases_not_in_text(ways: Ways, taken: str) -> Ways:
    """The phrases that do not occur in the text `taken`."""
    return tuple(way for way in ways if not re.search(rf"(?<![a-z]){re.escape(way)}(?![a-z])", taken))


def ways_of_trait(name: str) -> Ways:
    """Phrases that say that a trait holds."""
    return tuple(dict.fromkeys(_frames_of((f"query.trait.{name}",))))


MOST_READS = 25


def make_question_draft(
    meaning: Meaning,
    answer: Answer,
    reads: Sequence[Read],
    reply: Meaning,
    subcategory: str = "",
    before: tuple[Call, ...] = (),
) -> Draft | None:
    """The draft of a question, or None if its answer needs more than `MOST_READS` reads."""
    if len(reads) > MOST_READS:
        return None
    factors = Factors(scope="multi_device") if len({did for did, _ in reads}) > 1 else Factors()
    reply = CapitalisedReply(reply)
    return Draft(subcategory, meaning, factors, answer=answer, reads=tuple(reads), reply=reply, before=before)


def yes_no_reply(value: bool, rest: Meaning | None = None) -> Meaning:
    """Yes or no, and the state of things as a reason."""
    if rest is None:
        return frame_meaning("query.reply.alone", text=frame_meaning("query.some" if value else "query.none"))
    word = frame_meaning("query.yes" if value else "query.no")
    return frame_meaning("query.reply.yes_no", word=word, text=rest)


def statement_reply(of: Meaning) -> Meaning:
    """A meaning as a sentence of its own."""
    return frame_meaning("query.reply.alone", text=of)


def place_meaning(room: Room | None, home_frame: str) -> Meaning:
    """ "In the study", or the frame `home_frame` for the whole home."""
    return frame_meaning("query.place.room", room=room) if room else frame_meaning(home_frame)


@dataclass(frozen=True)
class CapitalisedReply:
    """A meaning that begins with a capital letter."""

    of: Meaning

    def words(self, speaker: Speaker) -> str:
        """The meaning with a capital letter."""
        text = self.of.words(speaker)
        return text[0].upper() + text[1:]


@dataclass(frozen=True)
class DeviceList:
    """A list of devices by name, or that there are none; with `counted`, their number first."""

    devices: tuple[Device, ...]
    counted: bool = False

    def words(self, speaker: Speaker) -> str:
        """The list as a sentence; a count of more than four devices leaves the names out."""
        for device in self.devices:
            refuse_shared_device(device, speaker.home)
        names = [speaker.say("query.device", room=device.room.name, device=device.name) for device in self.devices]
        if not names:
            return speaker.say("query.reply.none")
        count = str(len(names))
        if self.counted and len(names) > 4:
            return speaker.say("query.reply.alone", text=count)
        joined = join_clauses(speaker, names)
        if not self.counted:
            return speaker.say("query.reply.alone", text=joined)
        return speaker.say("query.reply.count", count=count, names=joined)


def number_answer(value: float, unit: str | None, tolerance: float = 0.0, names: Sequence[Device] = ()) -> Answer:
    """A numeric answer.

    `tolerance` is in `unit`. Digits in the names of the devices `names` do not count as an answer.
    """
    whole = int(value) if float(value).is_integer() else round(value, 2)
    texts = dict.fromkeys(name for device in names for name in (device.name, device.room.name))
    # A reader of numbers must ignore those in names ("two-door oven").
    distractors = tuple(name for name in texts if re.search(r"\d", name) or find_numbers(name))
    return Answer(type="number", value=whole, tolerance=tolerance, unit=unit, distractors=distractors)


def names_answer(met: Sequence[Device], candidates: Sequence[Device]) -> Answer:
    """An answer that lists the devices `met`; the names of the other candidates are wrong answers."""
    others = [device for device in candidates if device not in met]
    return Answer(
        type="names",
        value=tuple(f"{device.room.name} {device.name}" for device in met),
        accepted=tuple(_ways_of_device(device.room.name, device.name) for device in met),
        distractors=tuple(dict.fromkeys(way for one in others for way in _ways_of_device(one.room.name, one.name))),
    )
