"""The person of a HomeEnv blueprint, as an LLM user plays it: who it is and what it perceives.

Invariant: the person knows how rooms feel and which lamps are lit. It never sees an id, a condition or a measured value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.spelling import value_means_word
from homerl.envs.homeenv.tasks import faults
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.play.episode import Episode
from homerl.play.words.manner import Manner, WordScale


@dataclass(frozen=True)
class HomePersona:
    """Implements `worlds.contract.Persona`."""

    episode: Episode

    def role(self, words: Manner) -> str:
        """The scene, and the person's name, age, health and habits."""
        blueprint = home_situation_of(self.episode).blueprint
        profile = blueprint.profile
        return words.role.format(
            scene=blueprint.scene,
            name=profile.name,
            age=profile.age,
            health=profile.health,
            habits=words.comma.join(profile.habits),
        )

    def notices(self, words: Manner) -> str:
        """The air and the lit lamps in the rooms of the person's devices."""
        return describe_surroundings(home_situation_of(self.episode).home, home_situation_of(self.episode).blueprint, words)

    def overhears(self, text: str) -> str:
        """The agent's text without ids, see `faults.overheard`."""
        return faults.replace_device_ids(text, home_situation_of(self.episode).home)

    def fault(self, text: str, intents: Sequence[Intent]) -> tuple[str, str] | None:
        """See `faults.utterance_fault`."""
        return faults.find_utterance_fault(text, self.episode, intents)

    def meant(self, text: str, intents: Sequence[Intent]) -> Intent | None:
        """See `faults.about`."""
        return faults.intent_of_text(text, home_situation_of(self.episode).home, intents)

    def on_topic(self, text: str, intent: Intent) -> bool | None:
        """See `faults.on_topic`."""
        return faults.is_on_topic(text, self.episode, intent)


def describe_surroundings(home: Home, blueprint: Blueprint, words: Manner) -> str:
    """What the person notices in the rooms of the blueprint's devices: how the air feels, and which lamps are lit."""
    rooms = {
        home.plan.devices_by_did[did].room.id: home.plan.devices_by_did[did].room
        for did in sorted(blueprint.changeable_devices)
    }
    return "\n".join(_room(home, room, words) for room in rooms.values()) or words.unremarkable


def _room(home: Home, room: Room, words: Manner) -> str:
    felt = [
        _word(getattr(words.feels, path), home.read_value(room.id, path))
        for path in ("temperature", "humidity", "brightness")
    ]
    lit = [device.name for device in home.find_devices(room.id) if is_lit(home, device)]
    lamps = words.lamps.format(names=words.comma.join(lit)) if lit else ""
    return words.room.format(room=room.name, air=words.comma.join(filter(None, felt)), lamps=lamps)


def is_lit(home: Home, device: Device) -> bool:
    """Whether a lamp, or the lamp that is part of another device, is on."""
    path = "state" if device.spec.category == "light" else "light.state"
    return value_means_word(home.state_of(device.did).get(path), "on")


def _word(scale: WordScale, value: float) -> str:
    return next((word for mark, word in scale if value < mark), scale[-1][1])
