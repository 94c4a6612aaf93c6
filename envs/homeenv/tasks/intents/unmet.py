"""Wishes that cannot be met: nobody here can do it, a device cannot, it should be done later, or there is no timer.

Invariants: no tool of the agent does what is asked for; nothing may change; the answer is that it cannot be done.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from homerl.envs.homeenv.language.meaning import Target
from homerl.envs.homeenv.language.speaker import Slot, Speaker, frame_meaning
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import actions
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft, statement_reply
from homerl.play.words.answer_rules import Answer

CANNOT = Answer(type="admission", value=())
ASKED = {  # by Home Assistant's domain: what people ask of some of its devices, and others lack
    "light": ("brightness", "color", "temperature"),
    "cover": ("position",),
    "fan": ("percentage",),
    "media_player": ("volume",),
}
COLOURS = ("red", "blue", "green", "purple")
TENS, MINUTES = range(10, 100, 10), (3, 5, 7, 10, 12, 15, 20, 30, 45)


def propose_unknown(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """Something that is no matter of a home: "order a pizza"."""
    wish = frame_meaning("request", act=frame_meaning("unmet.unknown"))
    return make_question_draft(wish, CANNOT, (), statement_reply(frame_meaning("unmet.reply.unknown")), "unknown")


def propose_asked(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """What other devices of the kind can do: the colour of a lamp that only switches."""
    lacking = list(_abilities_lacked(home))
    if not lacking:
        return None
    device, what = rng.choice(lacking)
    slots: dict[str, Slot] = {
        "target": Target.of_device(device),
        "number": str(rng.choice(TENS)),
        "colour": frame_meaning(f"colour.{rng.choice(COLOURS)}"),
    }
    reply = statement_reply(frame_meaning("unmet.reply.asked", target=Target.of_device(device)))
    wish = frame_meaning("request", act=frame_meaning(f"unmet.asked.{what}", **slots))
    return make_question_draft(wish, CANNOT, (), reply, "asked")


def _abilities_lacked(home: Home) -> Iterator[tuple[Device, str]]:
    """The devices that are one entity, with what they lack, and what nothing of them is called."""
    entities = entities_of_plan(home.plan)
    for device in home.plan.devices:
        own = [entity for entity in entities if entity.device == device and (entity.shape.acts or entity.shape.sets)]
        if len(own) == 1:
            known = " ".join((*device.spec.attribute_index, *device.spec.service_index))
            for what in ASKED.get(own[0].domain, ()):
                if what not in own[0].shape.sets and what not in known and what not in own[0].shape.acts:
                    yield device, what


def propose_later(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """Something that the home can do, later or again and again, where no tool waits."""
    if ask.later:
        return None
    action = next((one for one in actions(home, rng) if one.device.did not in ask.taken), None)
    if action is None:
        return None
    act = action.act()

    def say_act(speaker: Speaker) -> str:
        return speaker.act(act)

    wish = frame_meaning("unmet.later", act=say_act, moment=frame_meaning("unmet.moment"))
    return make_question_draft(wish, CANNOT, (), statement_reply(frame_meaning("unmet.reply.later")), "later")


def propose_timer(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A timer where there is none, and nothing else that waits."""
    if ask.later or any(home.find_devices(category="timer")):
        return None
    wish = frame_meaning("unmet.timer", number=str(rng.choice(MINUTES)))
    return make_question_draft(wish, CANNOT, (), statement_reply(frame_meaning("unmet.reply.timer")), "timer")


SUBCATEGORIES: dict[str, Propose] = {
    "unknown": propose_unknown,
    "asked": propose_asked,
    "later": propose_later,
    "timer": propose_timer,
}
