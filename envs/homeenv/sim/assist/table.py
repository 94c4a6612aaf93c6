"""The translation between our devices and Home Assistant's domains and intents, as data: `table.yaml`.

Invariant: each tool of the dump that acts on devices has a row under `tools`, or a function in `tools.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from homerl.envs.core.documents import read_yaml, validate_document
from homerl.envs.core.model import Model

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

    `before` is what a value needs first, such as the mode of a lamp that has its colour in one of two.
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

    def is_clamped(self, what: str) -> bool:
        """Whether a value that is set is taken as the nearest one in its range."""
        return any(way.partition(":")[2] in self.clamps for way in self.sets[what])


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
    """The whole file."""

    kinds: dict[str, tuple[EntityKind, ...]]
    domains: dict[str, DomainRules]
    shown: tuple[str, ...]
    readings: dict[str, str]
    units: dict[str, str]
    tools: dict[str, IntentRules]


@lru_cache
def translation_table() -> TranslationTable:
    """The translation."""
    return validate_document(TranslationTable, read_yaml(HERE / "table.yaml"))


def domain_rules(domain: str) -> DomainRules:
    """What entities of a domain do; those of an unlisted one are as switches."""
    return translation_table().domains.get(domain, translation_table().domains["switch"])


@lru_cache
def colour_codes() -> Mapping[str, str]:
    """Six hexadecimal digits for each name of a colour."""
    return {name: str(digits) for name, digits in read_yaml(HERE / "colours.yaml").data.items()}
