"""What an imported home is in the system that it came from.

Invariants: an origin refers to devices by did and to rooms by id, and says nothing that changes what happens in the home.
A name that is not given is the same there as here. `hidden` and `unfollowed` are for those who guard the real home; no agent
is told of them.

The docstrings of the models are descriptions in docs/schemas.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.values.types_and_ranges import time_zone_of

FORMAT = 1
AVAILABLE = "available"  # the attribute by which an imported device says that it is out of reach, where its state cannot


class Link(Model):
    """A device as the other system knows it: further names that people give it, and names there by names here."""

    name: str | None = Field(None, description="its whole name, where it differs")
    aliases: tuple[str, ...] = ()
    attributes: dict[str, str] = Field({}, description="its names of attributes, by ours, where they differ")
    services: dict[str, str] = Field({}, description="its names of services, by ours, where they differ")
    arguments: dict[str, str] = Field({}, description="its names of arguments, by ours, where they differ")


class Storey(Model):
    """A floor as the other system knows it. `rooms` are the ids of its rooms."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()


class Hidden(Model):
    """An automation there that agents are not told of, as the arguments of `make_rule`."""

    id: str
    conditions: tuple[str, ...]
    actions: tuple[dict[str, Any], ...]
    hold: int = 0
    given: tuple[str, ...] = Field((), exclude_if=lambda given: not given)  # records are older than this key, and the next
    runs: dict[str, Any] = Field({}, exclude_if=lambda runs: not runs, description="`of`, `most` and `restart` of the rule")


class Unfollowed(Model):
    """An automation there that cannot be played here. `reads` are the devices whose change makes it act."""

    id: str
    reads: tuple[str, ...]
    acts: tuple[str, ...] = Field(
        description="what it acts on there: entities, else a service, or a kind of them such as lock"
    )


class Origin(Model):
    """The system that a home was imported from. `devices` is by did; `rooms` gives further names of rooms by id."""

    format: int = FORMAT
    system: str
    version: str
    zone: str | None = Field(None, description="the time zone of the home's clock, such as `Europe/Berlin`; UTC if none")
    devices: dict[str, Link] = {}
    rooms: dict[str, tuple[str, ...]] = {}
    storeys: tuple[Storey, ...] = Field((), description="its floors; where there are none, those of the rooms' numbers")
    hidden: tuple[Hidden, ...] = Field((), description="automations that only a served twin plays")
    unfollowed: tuple[Unfollowed, ...] = ()

    def link_of_device(self, did: str) -> Link:
        """A device's names there."""
        return self.devices.get(did, SAME)

    @property
    def without_guarded_parts(self) -> Origin:
        """The origin without what is for guards alone."""
        return self.model_copy(update={"hidden": (), "unfollowed": ()})

    @property
    def json_text(self) -> str:
        """The origin as JSON, in which a part for guards stands only if there is one."""
        return self.model_dump_json(exclude={part for part in ("hidden", "unfollowed") if not getattr(self, part)})

    @property
    def time_zone(self) -> tzinfo:
        """The zone of the clock; UTC on a machine that does not know the zone."""
        return time_zone_of(self.zone)


SAME = Link()
