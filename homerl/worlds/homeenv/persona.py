"""The person of a HomeEnv blueprint, as an LLM user plays it: who it is and what it perceives.

Invariant: what a person is told is how rooms feel and which lamps are lit, never an id, a condition or a reading that only
a device has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.homeenv.rooms import Room
from homerl.play.episode import Episode
from homerl.users.manner import Manner, Scale
from homerl.worlds.homeenv import faults
from homerl.worlds.homeenv.blueprints.blueprint import Blueprint, Intent


@dataclass(frozen=True)
class HomePersona:
    """See `worlds.contract.Persona`."""

    episode: Episode

    def role(self, words: Manner) -> str:
        blueprint = self.episode.blueprint
        profile = blueprint.profile
        return words.role.format(
            scene=blueprint.scene, name=profile.name, age=profile.age, health=profile.health,
            habits=words.comma.join(profile.habits),
        )  # fmt: skip

    def notices(self, words: Manner) -> str:
        return around(self.episode.situation.home, self.episode.blueprint, words)

    def overhears(self, text: str) -> str:
        return faults.overheard(text, self.episode.situation.home)

    def fault(self, text: str, intents: Sequence[Intent]) -> tuple[str, str] | None:
        return faults.utterance_fault(text, self.episode, intents)

    def meant(self, text: str, intents: Sequence[Intent]) -> Intent | None:
        return faults.about(text, self.episode.situation.home, intents)

    def on_topic(self, text: str, intent: Intent) -> bool | None:
        return faults.on_topic(text, self.episode, intent)


def around(home: Home, blueprint: Blueprint, words: Manner) -> str:
    """What the person notices in the rooms that the wishes are about: the air, and which lamps are lit."""
    rooms = {home.plan.by_did[did].room.id: home.plan.by_did[did].room for did in sorted(blueprint.devices)}
    return "\n".join(_room(home, room, words) for room in rooms.values()) or words.unremarkable


def _room(home: Home, room: Room, words: Manner) -> str:
    felt = [_word(getattr(words.feels, path), home.get(room.id, path)) for path in ("temperature", "humidity", "brightness")]
    lit = [device.name for device in home.devices(room.id) if is_lit(home, device)]
    lamps = words.lamps.format(names=words.comma.join(lit)) if lit else ""
    return words.room.format(room=room.name, air=words.comma.join(filter(None, felt)), lamps=lamps)


def is_lit(home: Home, device: Device) -> bool:
    """Whether a lamp, or the lamp in some other device, is on."""
    path = "state" if device.spec.category == "light" else "light.state"
    return home.state_of(device.did).get(path) == "on"


def _word(scale: Scale, value: float) -> str:
    return next((word for mark, word in scale if value < mark), scale[-1][1])
