"""The translation between our devices and Home Assistant's domains, intents and values. `table.yaml` holds it as data.

Invariants:
- Each recorded tool that acts on devices has a row under `tools`, or a function in `assist_tools.py`.
- `to_service_value(what, to_slot_value(what, value, kind), kind) == value` wherever `to_slot_value` gives something.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import ValueType

HERE = Path(__file__).parent
Way = str | tuple[str, bool | int | float | str]  # a service, or a service and its only argument


class EntityKind(Model):
    """The entity that a part of some kind is, if the part has one of the services in `needs`.

    `class` is its device class, `classes` gives another for some subcategories. `mode` names the attributes whose value is
    the state while the part is on; without them, that state is `running`.
    """

    domain: str
    needs: tuple[str, ...]
    device_class: str | None = Field(None, alias="class")
    classes: dict[str, str] = {}
    mode: tuple[str, ...] = ()
    running: str | None = None


class DomainRules(Model):
    """What entities of a domain do and show, see `table.yaml`. `while_on` names what shows nothing while they are off.

    `before` is what a value needs first, such as the mode of a lamp that has its colour in one of two. `clamps` names
    arguments for which a value outside of the range is taken as the nearest one inside.
    """

    acts: dict[str, tuple[Way, ...]] = {}
    sets: dict[str, tuple[str, ...]] = {}
    clamps: tuple[str, ...] = ()
    instead: dict[str, str] = {}
    wakes: tuple[str, ...] = ()
    before: dict[str, Way] = {}
    state: dict[str, dict[Any, str]]
    shows: dict[str, tuple[str, ...]] = {}
    hidden: tuple[str, ...] = ()
    while_on: tuple[str, ...] = ()
    units: dict[str, str] = {}


class IntentRules(Model):
    """What a tool does, see `table.yaml`. `says` is the service that Home Assistant names if every call failed."""

    act: str | None = None
    sets: dict[str, str] = {}
    steps: dict[str, str] = {}
    domains: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    needs: str | None = None
    feature: int | None = None
    one: bool = False
    by: tuple[str, ...] = ("name", "area", "floor", "domain", "device_class")
    answer: Literal["all", "entity", "nothing"] = "all"
    speech: dict[str, str] = {}
    says: str = ""
    offered: tuple[str, ...] = ()

    @property
    def value_slots(self) -> dict[str, str]:
        """The slots that hold values, with what they set."""
        return self.sets | self.steps


class TranslationTable(Model):
    """The whole of `table.yaml`."""

    kinds: dict[str, tuple[EntityKind, ...]]
    domains: dict[str, DomainRules]
    shown: tuple[str, ...]
    readings: dict[str, str]
    units: dict[str, str]
    tools: dict[str, IntentRules]


@lru_cache
def translation_table() -> TranslationTable:
    """The translation, which is read once per process."""
    return validate_document(TranslationTable, read_yaml(HERE / "table.yaml"))


def domain_rules(domain: str) -> DomainRules:
    """What entities of a domain do. Those of an unlisted domain are like switches."""
    return translation_table().domains.get(domain, translation_table().domains["switch"])


@lru_cache
def colour_codes() -> Mapping[str, str]:
    """Six hexadecimal digits for each name of a colour."""
    return {name: str(digits) for name, digits in read_yaml(HERE / "colours.yaml").data.items()}


USUAL_COLOURS = ("red", "orange", "yellow", "green", "turquoise", "blue", "purple", "pink")  # what people say
SHARES = {"brightness", "position", "percentage", "humidity", "volume"}  # numbers from 0 to 100 there


def to_service_value(what: str, value: Any, kind: ValueType) -> Any:
    """A value of a slot as a service takes it. Raises `Refused` if it takes no such value."""
    if what in SHARES:
        return kind.check_value(_value_at_share(value, kind))
    if what == "color":
        return kind.check_value(_value_of_colour(value, kind))
    if kind.type == "int" and isinstance(value, float) and value.is_integer():
        value = int(value)
    return kind.check_value(value)


def to_slot_value(what: str, value: Any, kind: ValueType) -> Any:
    """The value of a slot that stands for a service's argument, or None if there is none."""
    if what in SHARES:
        return value_as_share(value, kind)
    if what == "color":
        # a hue has several names, such as red and darkred, since darkness is no part of it
        for name in sorted(colour_codes(), key=lambda name: (name not in USUAL_COLOURS, name)):
            with suppress(Refused):
                if kind.check_value(_value_of_colour(name, kind)) == value:
                    return name
        return None
    return value


@lru_cache(maxsize=4096)
def rgb_of_colour(name: str) -> tuple[int, int, int] | None:
    """The colour of a name, whose case and spaces do not matter; None if there is no such colour."""
    digits = colour_codes().get(name.replace(" ", "").lower())
    return None if digits is None else (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16))


def _value_at_share(share: int, kind: ValueType) -> Any:
    """The value that stands at a share of its range. The items of an ordered list stand at equal parts of 100."""
    if kind.options and kind.type in ("enum", "str", "int"):
        return kind.options[max(math.ceil(share * len(kind.options) / 100), 1) - 1]
    low, high = kind.range or (0, 100)
    # Some products count from 0 to 1, others to 100 or to 255.
    if kind.type == "float" and high <= 1:
        return round(share / 100, 4)
    if high == 100 or kind.unit == "percentage":
        return float(share) if kind.type == "float" else share
    return round(share * high / 100) if low == 0 or high == 255 else max(math.ceil(share * high / 100), int(low))


def value_as_share(value: Any, kind: ValueType) -> int | None:
    """The largest share (0 to 100) that gives this value, or None if no share does: the first of two levels is 50."""
    if value is None:
        return None
    for share in range(100, -1, -1):
        with suppress(Refused):
            if kind.check_value(_value_at_share(share, kind)) == value:
                return share
    return None


def _value_of_colour(name: Any, kind: ValueType) -> Any:
    rgb = rgb_of_colour(name) if isinstance(name, str) else None
    if rgb is None:
        raise Refused("out_of_range", "there is no such colour")
    if kind.type == "hex":
        return "#{:02x}{:02x}{:02x}".format(*rgb)
    if len(kind.items or ()) == 3:
        return rgb
    hue, saturation, _ = colorsys.rgb_to_hsv(*(part / 255 for part in rgb))
    # Hue in degrees, saturation in percent.
    return round(hue * 360, 3), round(saturation * 100, 3)
