"""Relative changes: `step` ("louder"), `amount` ("raise the brightness by 20 percent"), `limit` ("to the maximum").

Invariants: the wanted value follows from the state before, and the expert reads that state first. An amount is added to the
value in the attribute's own unit (a brightness of 40, increased by 20 percent, is 60) and ends at the bound of the range.
A step without an amount is met by any change in its direction of at most a quarter of the range, or one step if that is
more. A limit is the bound of the range.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from homerl.envs.homeenv.language.meaning import Target, spoken_step
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.sim.devices.attributes_and_services import Service
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import code_literal
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType
from homerl.envs.homeenv.tasks.actions import NAMED, DeviceAction, make_action, spoken_argument
from homerl.envs.homeenv.tasks.blueprint import Factors
from homerl.envs.homeenv.tasks.intents import Ask, Draft, draft_of_actions

# Attributes that people change by feel, and the word group that speaks of them.
FELT = {
    "brightness": "light", "screen_brightness": "light", "volume": "sound", "volume_level": "sound",
    "target_temperature": "warmth", "target_water_temperature": "warmth", "fridge_temperature": "plain",
    "speed": "speed", "fan_speed": "speed", "speed_level": "speed", "percentage": "speed",
    "position": "opening", "target_humidity": "plain", "color_temperature": "plain", "fan_power": "plain",
    "mist_level": "plain", "tilt": "plain", "height": "plain", "temperature": "warmth",
}  # fmt: skip
AMOUNTS = (1, 2, 3, 4, 5)  # multiples of the step that people say
SETTING = ("set_temperature", "volume_set", *NAMED)  # services of Home Assistant that set what is felt
BIT = 4  # a step without an amount changes at most this fraction of the range
CLOSE = 0.05  # two floats this near are the same
TENTH = 0.1  # the step of a share, such as a volume from 0 to 1
DEGREES = 2  # a bit, for a climate entity: its range is that of all homes


@dataclass(frozen=True)
class Dial:
    """A numeric attribute that a value of a service sets, with its present value, in the unit of that value.

    `scale` is what one such unit is in the attribute's own: a brightness of 100 percent is 255.
    """

    device: Device
    path: str
    service: str
    type: ValueType
    now: float
    scale: float = 1.0

    @property
    def attribute_name(self) -> str:
        """The attribute's name within its component."""
        return self.path.rpartition(".")[2]

    @property
    def value_range(self) -> tuple[float, float]:
        """The bounds of the value. Every dial has them."""
        assert self.type.range is not None
        return self.type.range

    @property
    def smallest_step(self) -> float:
        """The smallest change that people name."""
        low, high = self.value_range
        if self.device.spec.category == "climate":
            return 1
        return spoken_step(low, high) if high - low > 1 else TENTH

    @property
    def state_expression(self) -> str:
        """The attribute as conditions write it."""
        return f'device("{self.device.did}").{self.path}'

    def value_after_change(self, by: float) -> int | float:
        """The value after a change, at most the bound of the range."""
        low, high = self.value_range
        value = min(high, max(low, self.now + by))
        moved: int | float = self.type.check_value(round(value, 6) if self.type.type == "float" else int(value))
        return moved


@dataclass(frozen=True)
class AdjustmentRequest:
    """A wish for more or less of an attribute; `by` is the amount, if it is said."""

    dial: Dial
    way: str
    by: float | None = None

    def words(self, speaker: Speaker) -> str:
        """A request in the words of the attribute's group, if it has some for this way."""
        group = FELT[self.dial.attribute_name]
        group = "plain" if group == "speed" and self.dial.device.spec.category == "light" else group  # no air moves
        key = speaker.first_known_key(f"adjust.{self.way}.{group}", f"adjust.{self.way}.plain")
        part = self.dial.path.rpartition(".")[0]
        slots = {"target": speaker.say_target(Target.of_device(self.dial.device, part))}
        slots["name"] = speaker.name(self.dial.attribute_name, self.dial.device)
        if self.by is not None:
            # A name such as `speed` has words for a level ("speed 3"), not for a change.
            slots["value"] = speaker.value(self.by, self.dial.type.model_copy(update={"name": None}))
        said = speaker.say(key, **slots)
        return speaker.say("request", act=said) if speaker.style == "clear" else said  # many colloquial frames are no clause


def find_dials(home: Home, rng: random.Random, taken: frozenset[str]) -> Iterator[Dial]:
    """The attributes that people change by feel on free devices, in random order, those of one group together."""
    found = []
    for device in home.plan.devices:
        for path, compiled in device.spec.service_index.items() if device.did not in taken else ():
            service = compiled.service
            dial = _dial_of_setter(home, device, path, service) or _dial_of_entity(home, device, path, service)
            found += [dial] if dial else []
    groups = list(dict.fromkeys(FELT.values()))
    order = rng.sample(groups, len(groups))  # else curtains, which have no "off", would be most of what is adjusted
    yield from sorted(rng.sample(found, len(found)), key=lambda dial: order.index(FELT[dial.attribute_name]))


def _dial_of_setter(home: Home, device: Device, path: str, service: Service) -> Dial | None:
    """What a service of one argument sets, if it is called like its attribute."""
    prefix, dot, name = path.rpartition(".")
    attribute = name.removeprefix("set_")
    slot = prefix + dot + attribute
    if attribute not in FELT or len(service.arguments) != 1 or slot not in device.spec.attribute_index:
        return None
    kind, now = service.arguments[0], home.read_value(device.did, slot)
    numeric = kind.type in ("int", "float") and kind.range and not kind.options and now is not None
    return Dial(device, slot, path, kind, now) if numeric else None


def _dial_of_entity(home: Home, device: Device, path: str, service: Service) -> Dial | None:
    """What a service of Home Assistant sets by the value that people name, if the entity is on and shows it."""
    argument = spoken_argument(service) if service.name in SETTING else None
    attribute = argument.name.removesuffix("_pct") if argument else ""
    if argument is None or attribute not in FELT or attribute not in device.spec.attribute_index:
        return None
    now, shown = home.read_value(device.did, attribute), device.spec.attribute_index[attribute][1]
    if now is None or argument.range is None or shown.range is None or home.read_value(device.did, "state") == "off":
        return None
    scale = shown.range[1] / argument.range[1]
    return Dial(device, attribute, path, argument, now / scale, scale)


def _action_that_moves(home: Home, dial: Dial, by: float) -> DeviceAction | None:
    """The action that changes the attribute by so much; None if the device must be prepared for it or does not change."""
    try:
        action = make_action(home, dial.device, dial.service, dial.value_after_change(by))
    except Refused:
        return None
    return action if action is not None and len(action.plan) == 1 else None


def _draft_adjustment(
    subcategory: str, dial: Dial, action: DeviceAction, condition: str, meaning: AdjustmentRequest
) -> Draft:
    draft = draft_of_actions(subcategory, (replace(action, condition=condition),), Factors(), meaning)
    return replace(draft, reads=((dial.device.did, dial.path),))


def _value_condition(dial: Dial, value: float) -> str:
    """The condition that the attribute has this value."""
    if dial.type.type == "int":
        return f"{dial.state_expression} == {code_literal(value)}"
    return f"abs({dial.state_expression} - {code_literal(value)}) <= {CLOSE}"


def propose_step(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "Make the kitchen light brighter": more, by at most a quarter of the range."""
    drafts = (propose_step_of_dial(home, rng, dial) for dial in find_dials(home, rng, ask.taken))
    return next(filter(None, drafts), None)


def propose_step_of_dial(home: Home, rng: random.Random, dial: Dial) -> Draft | None:
    """The wish for a step of this attribute, in either direction; None if it cannot be changed now."""
    low, high = dial.value_range
    for way in rng.sample(("up", "down"), 2):
        sign, most = (1 if way == "up" else -1), (high - low) / BIT
        bit = max(dial.smallest_step, dial.smallest_step * round(most / 2 / dial.smallest_step))
        bit = min(bit, DEGREES) if dial.device.spec.category == "climate" else bit
        if (action := _action_that_moves(home, dial, sign * bit)) is None:
            continue
        bound = dial.value_after_change(sign * max(most, dial.smallest_step))
        ends = (dial.now, bound) if way == "up" else (bound, dial.now)
        first, last = ends if dial.scale == 1 else (round(end * dial.scale) for end in ends)
        below, above = ("<", "<=") if way == "up" else ("<=", "<")
        condition = f"{code_literal(first)} {below} {dial.state_expression} {above} {code_literal(last)}"
        return _draft_adjustment("step", dial, action, condition, AdjustmentRequest(dial, way))
    return None


def propose_amount(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "Increase the volume by 20 percent": the value before and the amount, within the range."""
    for dial in find_dials(home, rng, ask.taken):
        for way in rng.sample(("up", "down"), 2):
            if dial.scale != 1 or dial.value_range[1] <= 1:
                continue  # what people say is not what is shown
            wide = dial.value_range[1] - dial.value_range[0] > 5 * dial.smallest_step
            by = dial.smallest_step * rng.choice(AMOUNTS if wide else (1, 2))
            change = by if way == "up" else -by
            if action := _action_that_moves(home, dial, change):
                condition = _value_condition(dial, dial.value_after_change(change))
                return _draft_adjustment("amount", dial, action, condition, AdjustmentRequest(dial, f"{way}_by", by))
    return None


def propose_limit(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
    """ "Turn the volume all the way up": the bound of the range."""
    for dial in find_dials(home, rng, ask.taken):
        for way, bound in rng.sample((("most", dial.value_range[1]), ("least", dial.value_range[0])), 2):
            if dial.scale == 1 and (action := _action_that_moves(home, dial, bound - dial.now)):
                condition = _value_condition(dial, dial.value_after_change(bound - dial.now))
                return _draft_adjustment("limit", dial, action, condition, AdjustmentRequest(dial, way))
    return None


SUBCATEGORIES = {"step": propose_step, "amount": propose_amount, "limit": propose_limit}
