"""What all questions share: the draft of a question, the typed answer, and the sentence that answers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from homerl.envs.homeenv.language.clear import refuse_shared_device
from homerl.envs.homeenv.language.meaning import Meaning
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.language.state import join_clauses
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents.draft import Draft
from homerl.envs.homeenv.tasks.intents.ways import names_with_numbers, ways_of_device
from homerl.envs.homeenv.tasks.traits import Read
from homerl.play.words.answers import Answer

MOST_READS = 25
SEVERAL = Factors(scope="multi_device")


def make_question_draft(meaning: Meaning, answer: Answer, reads: Sequence[Read], reply: Meaning) -> Draft | None:
    """The draft of a question, or None if its answer needs more than `MOST_READS` reads."""
    if len(reads) > MOST_READS:
        return None
    factors = SEVERAL if len({did for did, _ in reads}) > 1 else Factors()
    return Draft("", meaning, factors, answer=answer, reads=tuple(reads), reply=CapitalisedReply(reply))


@dataclass(frozen=True)
class YesNoReply:
    """Yes or no, and the state of things as a reason."""

    value: bool
    rest: Meaning | None = None

    def words(self, speaker: Speaker) -> str:
        """The answer as a sentence."""
        if self.rest is None:
            return speaker.say("query.reply.alone", text=speaker.say("query.some" if self.value else "query.none"))
        word = speaker.say("query.yes" if self.value else "query.no")
        return speaker.say("query.reply.yes_no", word=word, text=self.rest.words(speaker))


@dataclass(frozen=True)
class StatementReply:
    """A meaning as a sentence of its own."""

    of: Meaning

    def words(self, speaker: Speaker) -> str:
        """The meaning in the frame of a reply."""
        return speaker.say("query.reply.alone", text=self.of.words(speaker))


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
        if not self.counted:
            return speaker.say("query.reply.alone", text=join_clauses(speaker, names))
        count = str(len(names))
        if len(names) > 4:
            return speaker.say("query.reply.alone", text=count)
        return speaker.say("query.reply.count", count=count, names=join_clauses(speaker, names))


def number_answer(value: float, unit: str | None, tolerance: float = 0.0, names: Sequence[Device] = ()) -> Answer:
    """A numeric answer.

    `tolerance` is in `unit`. Digits in the names of the devices `names` do not count as an answer.
    """
    whole = int(value) if float(value).is_integer() else round(value, 2)
    return Answer(type="number", value=whole, tolerance=tolerance, unit=unit, distractors=names_with_numbers(names))


def names_answer(met: Sequence[Device], candidates: Sequence[Device]) -> Answer:
    """An answer that lists the devices `met`; the names of the other candidates are wrong answers."""
    others = [device for device in candidates if device not in met]
    return Answer(
        type="names",
        value=tuple(f"{device.room.name} {device.name}" for device in met),
        accepted=tuple(ways_of_device(device) for device in met),
        distractors=tuple(dict.fromkeys(way for device in others for way in ways_of_device(device))),
    )


@dataclass(frozen=True)
class RoomList:
    """A list of rooms with their number, or that there are none."""

    rooms: tuple[Room, ...]

    def words(self, speaker: Speaker) -> str:
        """The list as a sentence."""
        if not self.rooms:
            return speaker.say("query.reply.none")
        names = join_clauses(speaker, [speaker.room(room) for room in self.rooms])
        return speaker.say("query.reply.count", count=str(len(self.rooms)), names=names)
