"""Plain colours by name: "make the kitchen lamp blue".

Invariants: a colour is a region, not a point: a range of hues with at least half of full saturation (pink: a fifth). A light
that takes hue and saturation must be anywhere in the region; one that takes a code must have one of the region's codes in
`CODES`, which have the channel levels of the usual named colours. A light that is off, or shows white, is switched first.
"""

from __future__ import annotations

import colorsys
import random
from collections.abc import Mapping
from itertools import product

from homerl.envs.homeenv.language.meaning import Target
from homerl.envs.homeenv.language.speaker import frame_meaning
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import STATE
from homerl.envs.homeenv.tasks.blueprint import Call, Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft

HUES: Mapping[str, tuple[tuple[float, float], ...]] = {  # degrees; the first range holds the usual hue
    "red": ((0, 15), (345, 360)),
    "orange": ((20, 45),),
    "yellow": ((50, 70),),
    "green": ((90, 150),),
    "turquoise": ((165, 195),),
    "blue": ((210, 260),),
    "purple": ((265, 310),),
    "pink": ((311, 352),),
}
USUAL = {"red": 0, "orange": 39, "yellow": 60, "green": 120, "turquoise": 174, "blue": 240, "purple": 280, "pink": 330}
SATURATED = {"pink": 20}  # percent of full saturation that a colour needs, if it is not `DEEP`
DEEP = 50
NAMED = {"pink": ("#ffc0cb", "#ff69b4"), "turquoise": ("#40e0d0",), "purple": ("#a020f0",)}  # further codes of CSS and X11
LEVELS = (0x00, 0x33, 0x66, 0x80, 0x99, 0xA5, 0xCC, 0xFF)  # of the channels of a code
BRIGHT = 0.5  # the share of full value that a code needs: a dark orange is brown


def _is_code_of_colour(code: tuple[int, ...], colour: str) -> bool:
    """Whether a code, as its three channels, lies in the region of a colour."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in code))
    deep = value >= BRIGHT and 100 * saturation >= SATURATED.get(colour, DEEP)
    return deep and any(low <= 360 * hue <= high for low, high in HUES[colour])


CODES: dict[str, tuple[str, ...]] = {}
for _colour in HUES:
    _codes = ["#{:02x}{:02x}{:02x}".format(*c) for c in product(LEVELS, repeat=3) if _is_code_of_colour(c, _colour)]
    CODES[_colour] = tuple(dict.fromkeys((*_codes, *NAMED.get(_colour, ()))))


def colour_code_of(colour: str) -> str:
    """The code of the colour's usual hue."""
    red, green, blue = colorsys.hsv_to_rgb(USUAL[colour] / 360, 1, 1)
    wanted = tuple(round(255 * channel) for channel in (red, green, blue))
    codes = ((tuple(int(code[at : at + 2], 16) for at in (1, 3, 5)), code) for code in CODES[colour])
    return min(codes, key=lambda pair: sum((a - b) ** 2 for a, b in zip(pair[0], wanted)))[1]


def hue_condition(colour: str, state: str) -> str:
    """The condition that a (hue, saturation) pair lies in the region.

    Pairs are compared by their hue first. The saturation is the larger of the two beside a small hue, else the smaller.
    """
    parts = []
    for low, high in HUES[colour]:
        least = SATURATED.get(colour, DEEP)
        saturated = f"{'max' if high < least else 'min'}({state}) >= {least}"
        parts.append(f"({low}, 0) <= {state} <= ({high}, 100) and {saturated}")
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)


def _plan_colour(home: Home, device: Device, prefix: str, path: str, value: object) -> tuple[Call, ...] | None:
    """The calls that show a colour: switched on and to coloured light first, if that changes something."""
    switch = device.spec.switch_services.get(f"{prefix}turn_on")
    on = (switch[0], (switch[1],)) if switch else (f"{prefix}turn_on", ())
    calls = [on, (f"{prefix}set_mode", ("color",)), (path, (value,))]
    after, made = home.fork(), []
    for service, args in calls:
        if service not in device.spec.service_index:
            continue
        key = after.state_key()
        try:
            after.call(device.did, service, args)
        except Refused:
            return None
        made += [Call(did=device.did, service=service, args=args)] if after.state_key() != key else []
    return tuple(made)


def propose_named_colour(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """A light that does not show the colour yet."""
    free = [device for device in home.plan.devices if device.did not in ask.taken]
    paths = [(device, path) for device in free for path in device.spec.service_index]
    lights = [(device, path) for device, path in paths if path.rpartition(".")[2] in ("set_hs_color", "set_color")]
    for device, path in rng.sample(lights, len(lights)):
        part, dot, name = path.rpartition(".")
        prefix, colour = part + dot, rng.choice(list(HUES))
        attribute = prefix + name.removeprefix("set_")
        state = f'device("{device.did}").{attribute}'
        pair = attribute.endswith("hs_color")
        value = (float(USUAL[colour]), 100.0) if pair else colour_code_of(colour)
        if not (plan := _plan_colour(home, device, prefix, path, value)):
            continue
        shown = hue_condition(colour, state) if pair else f"{state} in {CODES[colour]!r}"
        _, switched = device.spec.attribute_index.get(prefix + STATE, (None, None))
        on = [f'device("{device.did}").{prefix}{STATE} == {code_literal(switched.value_of_word("on"))}'] if switched else []
        mode = [f'device("{device.did}").{prefix}mode == "color"'] if any("set_mode" in c.service for c in plan) else []
        condition = " and ".join([*on, *mode, f"({shown})"])
        if not compile_condition(condition, home.plan).holds_in(home):
            target, named = Target.of_device(device, part), frame_meaning(f"colour.{colour}")
            meaning = frame_meaning("request", act=frame_meaning("colour.named", target=target, colour=named))
            return Draft("named", meaning, Factors(), conditions=(condition,), devices=(device.did,), plan=plan)
    return None


SUBCATEGORIES = {"named": propose_named_colour}
