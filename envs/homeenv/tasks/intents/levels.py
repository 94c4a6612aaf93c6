"""Questions that compare a level of all devices of a kind: which has the most of it, and what is its average.

Invariant: all lamps that are compared are lit, if need be by calls before the episode: whether the brightness of one that is
off counts, people see in two ways.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.tasks.actions import call_for_path, home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Call
from homerl.envs.homeenv.tasks.intents.dialogue import frame_meaning, frame_text
from homerl.envs.homeenv.tasks.intents.draft import Draft
from homerl.envs.homeenv.tasks.intents.questions import DeviceList, make_question_draft, names_answer, number_answer
from homerl.envs.homeenv.tasks.intents.warmth import typed_value_text
from homerl.envs.homeenv.tasks.traits import LEVELS, OFF, above_trait, match_devices, possible_members


def propose_most(home: Home, rng: random.Random) -> Draft | None:
    """ "Which light has the highest brightness?" """
    for kind in rng.sample(list(LEVELS), len(LEVELS)):
        before, levels = _levels(home, kind)
        highest = rng.random() < 0.5
        values = sorted((value for _, _, value in levels), reverse=highest)
        if len(values) < 2 or values[0] == values[1]:
            continue
        device = next(device for device, _, value in levels if value == values[0])
        slots = {"one": frame_text(f"query.kind.{kind}.one"), "name": _level_name(kind)}
        meaning = frame_meaning(f"query.most.{'high' if highest else 'low'}", **slots)
        reads = tuple((device.did, path) for device, path, _ in levels)
        answer = names_answer((device,), possible_members(home, kind))
        return _prepared(before, make_question_draft(meaning, answer, reads, DeviceList((device,))))
    return None


def propose_average(home: Home, rng: random.Random) -> Draft | None:
    """ "What is the average set temperature of the heaters?", or the highest, or the lowest."""
    for kind in rng.sample(list(LEVELS), len(LEVELS)):
        before, levels = _levels(home, kind)
        if len(levels) < 2:
            continue
        name, of = rng.choice((("average", lambda vs: sum(vs) / len(vs)), ("highest", max), ("lowest", min)))
        value = of([value for _, _, value in levels])
        type = levels[0][0].spec.attribute_index[levels[0][1]][1]
        slots = {"many": frame_text(f"query.kind.{kind}.many"), "name": _level_name(kind)}
        reads = tuple((device.did, path) for device, path, _ in levels)
        shown = round(value, 1)
        shown = int(shown) if float(shown).is_integer() else shown
        answer = number_answer(value, type.unit, 0.3 if name == "average" else 0.0, home.plan.devices)
        reply = frame_meaning("query.reply.level", value=typed_value_text(shown, type))
        return _prepared(before, make_question_draft(frame_meaning(f"query.{name}", **slots), answer, reads, reply))
    return None


def _prepared(before: tuple[Call, ...], draft: Draft | None) -> Draft | None:
    return None if draft is None else replace(draft, before=before)


def _levels(home: Home, kind: str) -> tuple[tuple[Call, ...], list[tuple[Device, str, float]]]:
    """Calls before the episode that light all lamps, and then the (device, path, value) triples to compare.

    There are no triples if it is unclear which devices are meant.
    """
    everything = match_devices(home, kind, (above_trait(LEVELS[kind][0], -1000),))
    reads = everything.reads if everything is not None else ()
    unlit = [read for read in reads if kind == "light" and is_part_off(home, *read)]
    lighting = [
        call_for_path(home.plan.devices_by_did[did], f"{path.rpartition('.')[0]}.turn_on".lstrip(".")) for did, path in unlit
    ]
    if (before := tuple(call for call in lighting if call)) and len(before) < len(lighting):
        return (), []
    try:
        then = home_after_calls(home, before)
    except Refused:
        return (), []
    if any(then.read_value(*read) is None for read in reads):
        return (), []
    return before, [(home.plan.devices_by_did[did], path, then.read_value(did, path)) for did, path in reads]


def _level_name(kind: str) -> Callable[[Speaker], str]:
    return lambda speaker: speaker.name(LEVELS[kind][0])


def is_part_off(home: Home, did: str, path: str) -> bool:
    """Whether the part of a device that has this attribute is off."""
    state = OFF.attribute_path(home.plan.devices_by_did[did], path.rpartition(".")[0])
    return state is not None and OFF.is_met_by(home.read_value(did, state))
