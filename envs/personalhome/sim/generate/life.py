"""What facts are made from: the people, pets, rooms and devices of a household, and its time.

Invariant: a life never changes, and everything in it belongs together.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.sim.appliances import is_sensor
from homerl.envs.personalhome.sim.household import Household, Member, Pet


@dataclass(frozen=True)
class Life:
    """People, pets, rooms and devices at a time. `devices` are appliances and sensors."""

    members: tuple[Member, ...]
    pets: tuple[Pet, ...]
    rooms: tuple[Room, ...]
    devices: tuple[Device, ...]
    now: datetime

    @cached_property
    def appliances(self) -> tuple[Device, ...]:
        """The devices that can be told something."""
        return tuple(device for device in self.devices if not is_sensor(device.spec))

    @cached_property
    def sensors(self) -> tuple[Device, ...]:
        """The devices that only measure."""
        return tuple(device for device in self.devices if is_sensor(device.spec))

    @cached_property
    def members_by_id(self) -> dict[str, Member]:
        """The members by id."""
        return {member.member_id: member for member in self.members}

    @cached_property
    def by_did(self) -> dict[str, Device]:
        """The devices by id."""
        return {device.did: device for device in self.devices}

    @cached_property
    def pets_by_name(self) -> dict[str, Pet]:
        """The pets by name."""
        return {pet.name: pet for pet in self.pets}

    def devices_of_kinds(self, wanted: Collection[str]) -> list[Device]:
        """The devices of some kinds."""
        return [device for device in self.devices if device.spec.category in wanted]

    def members_of_age(self, youngest: int, day: date, oldest: int = 200) -> list[Member]:
        """The members who have an age on a day."""
        return [member for member in self.members if youngest <= member.age(day) <= oldest]


def household_life(household: Household, home: Home) -> Life:
    """The life of a household in its home."""
    return Life(household.members, household.pets, home.plan.rooms, home.plan.devices, household.now)
