"""The state of devices in words: "the study lamp was off and its brightness was 40 percent"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from homerl.envs.homeenv.language.meaning import Target
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.spelling import STATE

Tense = Literal["is", "was"]
WHOLE = ("state", "work_state")  # attributes that describe the device as a whole


@dataclass(frozen=True)
class AttributeState:
    """The value of one attribute of a device; `path` is dotted."""

    device: Device
    path: str
    value: Any

    @classmethod
    def read_from_home(cls, home: Home, device: Device, path: str) -> AttributeState:
        """The attribute's value in this home."""
        return cls(device, path, home.read_value(device.did, path))

    @property
    def component_name(self) -> str:
        """The component of the attribute, or ""."""
        return self.path.rpartition(".")[0]

    @property
    def spoken_attribute(self) -> str:
        """The attribute's name within its component."""
        return self.path.rpartition(".")[2]

    def say_clause(self, speaker: Speaker, tense: Tense, it: bool = False) -> str:
        """A clause about the attribute. With `it`, the device was just named, so a pronoun may stand for it."""
        parts = {path.rpartition(".")[0] for path in self.device.spec.attribute_index}
        named = not it or len(parts) > 1
        target = speaker.say_target(Target.of_device(self.device, self.component_name)) if named else ""
        key = f"state.{tense}.{self._manner(speaker)}" + ("" if named else ".it")
        doing = f"state.doing.{self.spoken_attribute}"
        return speaker.say(
            key,
            target=target,
            name=speaker.name(self.spoken_attribute),
            value=self._value(speaker),
            doing=speaker.say(doing) if doing in speaker.grammar else "",
        )

    def _value(self, speaker: Speaker) -> str:
        kind = self.device.spec.attribute_index[self.path][1]
        if self.spoken_attribute == STATE and kind.state_words:
            return speaker.value(kind.word_of_value(self.value), kind)
        if isinstance(self.value, bool):
            return speaker.say("state.value.true" if self.value else "state.value.false")
        return speaker.value(self.value, kind)

    def _manner(self, speaker: Speaker) -> str:
        if self.spoken_attribute in WHOLE:
            return "whole"
        if isinstance(self.value, bool) and f"state.doing.{self.spoken_attribute}" in speaker.grammar:
            return "doing" if self.value else "idle"
        return "aspect"


@dataclass(frozen=True)
class AttributeStates:
    """The values of several attributes, grouped by device."""

    standings: tuple[AttributeState, ...]
    tense: Tense = "is"

    def words(self, speaker: Speaker) -> str:
        """The clauses, joined into one sentence."""
        clauses, last = [], None
        for standing in self.standings:
            clauses.append(standing.say_clause(speaker, self.tense, it=standing.device == last))
            last = standing.device
        return join_clauses(speaker, clauses)


def join_clauses(speaker: Speaker, clauses: Sequence[str]) -> str:
    """The clauses as a list: "a, b and c"."""
    *others, last = clauses
    text = others[0] if others else last
    for clause in others[1:]:
        text = speaker.say("state.comma", first=text, second=clause)
    return speaker.say("state.and", first=text, second=last) if others else text
