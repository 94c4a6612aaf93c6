"""What an imported home is in the system that it came from.

Invariants: an origin refers to devices by did and to rooms by id, and says nothing that changes what happens in the home.
A name that is not given is the same there as here.

The docstrings of the models are descriptions in docs/schemas.
"""

from __future__ import annotations

from pydantic import Field

from envs.model import Model

FORMAT = 1


class Link(Model):
    """A device as the other system knows it: further names that people give it, and names there by names here."""

    aliases: tuple[str, ...] = ()
    attributes: dict[str, str] = Field({}, description="its names of attributes, by ours, where they differ")
    services: dict[str, str] = Field({}, description="its names of services, by ours, where they differ")
    arguments: dict[str, str] = Field({}, description="its names of arguments, by ours, where they differ")


class Origin(Model):
    """The system that a home was imported from. `devices` is by did; `rooms` gives further names of rooms by id."""

    format: int = FORMAT
    system: str
    version: str
    devices: dict[str, Link] = {}
    rooms: dict[str, tuple[str, ...]] = {}
