"""What a model says, without the ids of devices and the names of tools, which mean nothing to a person.

- The id of a device or a room of the home is told by what a person calls it.
- A sentence with the name of a tool, or with the id of anything that the home does not have, is not heard.

An id or a name counts where it has a form that no word has: a sign or a capital within it, or the marks of code around it.
So a tool called `answer` forbids no word.

Invariants: all functions are pure; a name that its owner gave to something stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from homerl.envs.assistant.listing.home_listing import entity_domain
from homerl.envs.assistant.listing.room_and_device_names import full_device_names, room_names, spoken_device_name
from homerl.envs.homeenv.sim.devices.rooms import HOME
from homerl.envs.homeenv.sim.home import Home

PART = re.compile(r"\s*(?:.+?(?:[.!?…][\"'”’)]*(?=\s|$)|[。！？]|(?=\n)|$))", re.DOTALL)  # a sentence, and what is before it
NO_WORD = re.compile(r"\w[_.]\w|[a-z][A-Z]")  # within what is no word
# ids are of Latin letters, so they begin and end beside those of other scripts
IDENTIFIER = re.compile(r"`?(?<![\w.@/-])([^\W\d]\w*(?:\.\w+)?)(\(\)|(?![\w@/-]))`?", re.ASCII)


@dataclass(frozen=True)
class SpokenIds:
    """The ids and the tools that a person is not to hear of. `tools` are the names of those that the model was offered."""

    home: Home
    tools: tuple[str, ...]

    def remove_ids(self, text: str) -> str:
        """A text with names in place of the home's ids, without the sentences that have other ids or name a tool."""
        if not any(self._is_id(found) for found in IDENTIFIER.finditer(text)):
            return text
        named = IDENTIFIER.sub(self._name_of_id, text)
        kept = [part for part in PART.findall(named) if not any(map(self._is_id, IDENTIFIER.finditer(part)))]
        return "".join(kept).strip()

    def _is_id(self, found: re.Match[str]) -> bool:
        """Whether a part of a text is an id or the name of a tool."""
        word = found[1]
        if word.casefold() in self._given_names:
            return False
        if word in self._names_by_id or word in self._tool_names:
            return NO_WORD.search(word) is not None or found[0] != word
        return "." in word and word.islower() and entity_domain(word) in self._domains

    def _name_of_id(self, found: re.Match[str]) -> str:
        """What a person calls what an id means; the id itself, as it stands, if that is nothing of the home."""
        name = self._names_by_id.get(found[1])
        return name if name and self._is_id(found) else found[0]

    @cached_property
    def _names_by_id(self) -> Mapping[str, str]:
        plan = self.home.plan
        rooms = {room.id: room.name for room in plan.rooms if room.id != HOME}
        objects = {did.partition(".")[2]: did for did in plan.devices_by_did if "." in did}
        own = {did: spoken_device_name(plan, did) for did in plan.devices_by_did}
        return {**{id: own[did] for id, did in objects.items()}, **rooms, **own}

    @cached_property
    def _tool_names(self) -> frozenset[str]:
        """The tools' names, whole and without what Home Assistant puts before them."""
        short = [name.rpartition("__")[2] for name in self.tools]
        return frozenset([*self.tools, *short, *(name.removeprefix("Hass") for name in short)])

    @cached_property
    def _domains(self) -> frozenset[str]:
        return frozenset(entity_domain(did) for did in self.home.plan.devices_by_did if "." in did)

    @cached_property
    def _given_names(self) -> frozenset[str]:
        """The words of all that owners have named."""
        return frozenset(word for text in self._texts() for word in text.casefold().split())

    def _texts(self) -> Iterable[str]:
        for device in self.home.plan.devices:
            yield from (*full_device_names(self.home, device), *room_names(self.home, device))


def tool_names(tools: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """The names in the schemas of tools."""
    return tuple(str(one["function"]["name"]) for one in tools if isinstance(one.get("function"), dict))  # type: ignore[index]
