"""A baseline in actual use: Home Assistant's sentence matcher.

`hassil` matches the request against the sentences of `home-assistant-intents`. The recognised intent becomes service calls
on the devices that fit its slots, as in Home Assistant's intent handlers. Like them, it has no dialogue, memory or
conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hassil import Intents, recognize_best
from hassil.intents import TextSlotList

from envs.documents import InputError
from envs.homeenv.devices import Device
from envs.homeenv.home import Home
from envs.messages import Message
from homerl.play.episode import Episode
from homerl.worlds.homeenv.agents.baselines import Baseline
from homerl.worlds.homeenv.agents.writers import writer_of
from homerl.worlds.homeenv.blueprints.blueprint import Call

# Kind of a component -> domain in Home Assistant.
DOMAINS = {
    "light": "light", "fan": "fan", "ceiling_fan": "fan", "air_conditioner": "climate", "ac_gateway": "climate",
    "heater": "climate", "thermostat": "climate", "curtain": "cover", "garage_door": "cover", "opener": "cover",
    "plug": "switch", "wall_switch": "switch", "lock": "lock", "speaker": "media_player", "tv": "media_player",
    "smart_screen": "media_player", "vacuum": "vacuum", "humidifier": "humidifier", "dehumidifier": "humidifier",
    "range_hood": "fan", "air_purifier": "fan", "water_heater": "water_heater", "bath_heater": "climate",
}  # fmt: skip
# Intent -> (service, slot of its value); the first service that a device has is called.
SERVICES: dict[str, tuple[tuple[str, str | None], ...]] = {
    "HassTurnOn": (("turn_on", None), ("open", None), ("lock", None), ("start", None)),
    "HassTurnOff": (("turn_off", None), ("close", None), ("unlock", None), ("stop", None)),
    "HassLightSet": (("set_brightness", "brightness"), ("set_color_temperature", "temperature"), ("set_color", "color")),
    "HassSetPosition": (("set_position", "position"),),
    "HassClimateSetTemperature": (("set_target_temperature", "temperature"), ("set_temperature", "temperature")),
    "HassClimateSetFanMode": (("set_fan_speed", "fan_mode"),),
    "HassFanSetSpeed": (("set_speed", "percentage"), ("set_speed_level", "percentage")),
    "HassSetVolume": (("set_volume", "volume_level"), ("set_volume_level", "volume_level")),
    "HassMediaPause": (("pause", None),),
    "HassMediaUnpause": (("play", None), ("resume", None)),
    "HassMediaPlayerMute": (("mute", None),),
    "HassVacuumStart": (("start", None),),
    "HassVacuumReturnToBase": (("return_to_base", None),),
}


@dataclass(frozen=True)
class HassEntity:
    """A component of a device as an entity of Home Assistant. `prefix` is the path before its services, such as "light."."""

    device: Device
    prefix: str
    domain: str

    @property
    def names(self) -> list[str]:
        """The names that the entity answers to: with its room, and without."""
        part = f" {self.prefix[:-1].replace('_', ' ')}" if self.prefix else ""
        return [f"{self.device.room.name} {self.device.name}{part}", f"{self.device.name}{part}"]


class HomeAssistant(Baseline):
    """Recognises one sentence and makes the calls that it means."""

    name = "hassil"

    def answer(self, episode: Episode, said: str) -> Message:
        """The calls that the sentence means, or an apology if it was not recognised."""
        calls = list(self._calls(episode.situation.home, said, episode.blueprint.language))
        return writer_of(episode).act(calls) if calls else writer_of(episode).say("Sorry, I could not understand that.")

    def _calls(self, home: Home, said: str, language: str) -> Iterator[Call]:
        entities = list(entities_of(home))
        intents, defaults = sentences(language)
        result = recognize_best(said, intents, slot_lists={**defaults, **slots(home, entities)}, best_slot_name="name")
        if result is None:
            return
        given = {name: entity.value for name, entity in result.entities.items()}
        for entity in fitting(entities, given):
            yield from service_calls(result.intent.name, entity, given)


def entities_of(home: Home) -> Iterator[HassEntity]:
    """Every component that has a service."""
    for device in home.plan.devices:
        for prefix, kind in device.spec.kinds:
            if any(path.startswith(prefix) for path in device.spec.service_index):
                yield HassEntity(device, prefix, DOMAINS.get(kind, kind))


def slots(home: Home, entities: Sequence[HassEntity]) -> dict[str, TextSlotList]:
    """The home's names for hassil. A name that two entities share stands for both."""
    named = [(name, name, {"domain": e.domain}) for e in entities for name in e.names]
    return {
        "name": TextSlotList.from_tuples(named, name="name"),
        "area": TextSlotList.from_tuples([(room.name, room.id) for room in home.plan.rooms], name="area"),
        "floor": TextSlotList.from_tuples([("ground floor", "0"), ("upstairs", "1")], name="floor"),
    }


def fitting(entities: Sequence[HassEntity], given: Mapping[str, Any]) -> list[HassEntity]:
    """The entities that match the recognised slots; empty if no slot restricts the entities."""
    if not given.keys() & {"name", "area", "floor", "domain"}:
        return []
    domains = given.get("domain")
    wanted = {domains} if isinstance(domains, str) else set(domains or ())
    return [
        e for e in entities
        if given.get("name") in (None, *e.names)
        and given.get("area") in (None, e.device.room.id)
        and given.get("floor") in (None, str(e.device.room.floor))
        and (not wanted or e.domain in wanted)
    ]  # fmt: skip


def service_calls(intent: str, entity: HassEntity, given: Mapping[str, Any]) -> Iterator[Call]:
    """The calls of an intent on one entity. A setting turns the entity on first, as Home Assistant does."""
    index = entity.device.spec.service_index
    for service, slot in SERVICES.get(intent, ()):
        path = entity.prefix + service
        if path not in index or (slot is not None and slot not in given):
            continue
        if slot is not None and entity.prefix + "turn_on" in index:
            yield Call(did=entity.device.did, service=entity.prefix + "turn_on")
        yield Call(did=entity.device.did, service=path, args=(given[slot],) if slot else ())
        return


@lru_cache
def sentences(language: str) -> tuple[Intents, dict[str, Any]]:
    """Home Assistant's sentences in a language, and their slot lists.

    Raises `InputError` if the package `home-assistant-intents` is not installed.
    """
    try:
        from home_assistant_intents import get_intents
    except ModuleNotFoundError:
        remedy = "pip install 'homerl[bench]'"
        raise InputError("home-assistant-intents is not installed", "--model hassil", remedy) from None
    data = get_intents({"zh": "zh-cn"}.get(language, language))
    intents = Intents.from_dict(data)
    return intents, dict(intents.slot_lists)
