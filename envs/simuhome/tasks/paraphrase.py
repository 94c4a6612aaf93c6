"""Paraphrases of requests by an LLM. A paraphrase is used only if it certainly means the same as the request.

It must name the same rooms, kinds of devices, numbers and times as the request, belong to the same split, and be
neither a copy nor garbled. A complaint (QT2) does not name what it wants. There a second request sees only the
paraphrase, and must recover which room variables should change in which direction.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from homerl.envs.core.model import Model
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.envs.simuhome.sim.generate.furnish import FIXED_ROOMS, OTHER_ROOMS
from homerl.envs.simuhome.tasks.answer_checks import all_wordings
from homerl.envs.simuhome.tasks.blueprint import SimuHomeBlueprint, SimuHomeIntent
from homerl.worlds.paraphraser import Paraphraser, ParaphraseRejected, refuse_bad_paraphrase

NUMBER = re.compile(r"\d+(?::\d{2})?")
RECOVER = """You are told what a person says to a smart home. Answer with one JSON object: {"wants": [{"room_id": "...",
"room_state": "...", "direction": "increase" or "decrease"}]}, which room variables (temperature, humidity, illuminance,
pm10) the person would like to go which way, by room."""


# The endpoint is sent these two models as a JSON Schema. So their names and docstrings are a part of the request.


class Wish(Model):
    """A variable of a room that is to go one way."""

    room_id: str
    room_state: Literal["temperature", "humidity", "illuminance", "pm10"]
    direction: Literal["increase", "decrease"]


class Wishes(Model):
    """The second answer."""

    wants: tuple[Wish, ...]


class SimuHomeParaphraser(Paraphraser):
    """Rewords the requests of SimuHome's blueprints."""

    async def paraphrased(self, query: str, intent: SimuHomeIntent, blueprint: SimuHomeBlueprint, home: None) -> str:
        """A paraphrase with the same meaning. Raises `ParaphraseRejected` with the rule that it breaks."""
        paraphrase = await self.asked(query, blueprint)
        refuse_bad_paraphrase(query, paraphrase, blueprint.split)
        if _count_names(query.lower()) != _count_names(paraphrase.lower()):
            raise ParaphraseRejected("other names")
        if Counter(NUMBER.findall(query.lower())) != Counter(NUMBER.findall(paraphrase.lower())):
            raise ParaphraseRejected("other values")
        if intent.family == "qt2":
            told = f"Rooms: {', '.join(sorted(blueprint.home['rooms']))}\n\nThe person says: {paraphrase}"
            recovered = await self.client.ask(RECOVER, told, Wishes, blueprint.seed, temperature=0.0)
            wishes = {(wish.room_id, wish.room_state, wish.direction) for wish in recovered.wants}
            goals = blueprint.task["eval"]["goals"]
            if wishes != {(goal["room_id"], goal["room_state"], goal["direction"]) for goal in goals}:
                raise ParaphraseRejected("another meaning")
        return paraphrase


def _count_names(text: str) -> Counter[str]:
    """How often a text names each room and each kind of device.

    Longer names are counted first and removed, so that a `dimmer light` does not count as a `light`.
    """
    owners = {way.lower(): f"room.{room}" for room in (*FIXED_ROOMS, *OTHER_ROOMS) for way in all_wordings(f"room.{room}")}
    owners |= {way.lower(): f"kind.{kind}" for kind in device_types() for way in all_wordings(f"kind.{kind}")}
    counts: Counter[str] = Counter()
    for way in sorted(owners, key=len, reverse=True):
        pattern = re.compile(rf"(?<![a-z]){re.escape(way)}s?(?![a-z])" if way.isascii() else re.escape(way))
        counts[owners[way]] += len(pattern.findall(text))
        text = pattern.sub(" \x00 ", text)
    return +counts
