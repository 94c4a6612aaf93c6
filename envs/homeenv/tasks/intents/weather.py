"""Questions about the weather, of a home with a device of the category `weather`: how it is, and how warm it is outdoors.

Invariant: the answer is what the device shows; it has no forecast of later hours.
"""

from __future__ import annotations

import random

from homerl.envs.homeenv.language import home_grammar, list_home_languages
from homerl.envs.homeenv.language.meaning import SpokenValue
from homerl.envs.homeenv.language.speaker import frame_meaning
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.intents import Ask, Draft
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft, number_answer
from homerl.play.words.answer_rules import Answer

CLOSE = 0.5  # degrees by which an answer may be rounded


def _weather_device(home: Home, attribute: str) -> Device | None:
    """The home's only weather device, if it has the attribute."""
    devices = [device for device in home.find_devices(category="weather") if attribute in device.spec.attribute_index]
    return devices[0] if len(devices) == 1 else None


def _weather_words(state: str) -> tuple[str, ...]:
    """What the weather is called, in all languages."""
    known = [home_grammar(language) for language in list_home_languages()]
    ways = [way for one in known if f"weather.{state}" in one for way in one.plain_texts(f"weather.{state}")]
    return tuple(dict.fromkeys((state, *ways)))


def propose_sky(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "What is the weather like?" """
    device = _weather_device(home, "state")
    state = home.read_value(device.did, "state") if device else None
    if device is None or state is None or f"weather.{state}" not in home_grammar("en"):
        return None
    options = [str(option) for option in device.spec.attribute_index["state"][1].options or () if option != state]
    others = dict.fromkeys(way for option in options for way in _weather_words(option))
    answer = Answer(type="text", value=state, accepted=(_weather_words(state),), distractors=tuple(others))
    reply = frame_meaning("weather.reply.sky", value=frame_meaning(f"weather.{state}"))
    return make_question_draft(frame_meaning("weather.ask.sky"), answer, ((device.did, "state"),), reply, "sky")


def propose_outdoors(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "How warm is it outside?" """
    device = _weather_device(home, "temperature")
    value = home.read_value(device.did, "temperature") if device else None
    if device is None or not isinstance(value, (int, float)):
        return None
    kind = device.spec.attribute_index["temperature"][1]
    reply = frame_meaning("weather.reply.outdoors", value=SpokenValue(value, kind))
    answer, reads = number_answer(value, kind.unit, CLOSE), ((device.did, "temperature"),)
    return make_question_draft(frame_meaning("weather.ask.outdoors"), answer, reads, reply, "outdoors")


SUBCATEGORIES = {"sky": propose_sky, "outdoors": propose_outdoors}
