"""The state of an episode: a household, its home, what tools wrote down, and what the agent has seen.

Invariants:
- The household never changes. A fork shares it and is independent in everything else.
- `state_key` covers all that decides the future: household, home, records and what was seen. It is the same in every
  process.
- What a sensor measures stands in the home. What somebody wrote about a sensor stands in the records and hides it, so that
  nobody ends a leak by writing that there is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, Self

from homerl.envs.core.state_encoding import state_text, text_hash, written_as
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.home_world import name_state_changes as changes_of_home
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.household import Household, Member, Memory, Pet

DeviceKind = Literal["appliance", "sensor"]


def device_kind(device: Device) -> DeviceKind:
    """Whether a device is an appliance, or a sensor, which only measures."""
    return "sensor" if is_sensor(device.spec) else "appliance"


@written_as("Note", memory="memory", subjects="subjects", additional_information="additional_information", time="time")
@dataclass(frozen=True)
class Note:
    """A memory that a tool wrote. It has the texts of a `Memory`, and no typed fact."""

    memory: str
    subjects: tuple[str, ...]
    additional_information: str
    time: datetime


@written_as("Routine", name="name", functions="functions")
@dataclass(frozen=True)
class Routine:
    """A routine that a tool made. `functions` are (appliance, feature, arguments as JSON), in order."""

    name: str
    functions: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Records:
    """What is written down about a household, and tools may rewrite.

    `statuses` maps `sensor.attribute` to the value that was written for it. No field is ever changed in place.
    """

    members: tuple[Member, ...]
    pets: tuple[Pet, ...]
    memories: tuple[Memory | Note, ...]
    statuses: Mapping[str, Any] = field(default_factory=dict)
    routines: tuple[Routine, ...] = ()

    def rows_by_name(self) -> dict[str, Any]:
        """Every record by its name: `member.h1_2`, `pet.Milo`, `memory.17`, `status.hall_motion.motion`, `routine.1`."""
        rows: dict[str, Any] = {f"member.{member.member_id}": member for member in self.members}
        rows |= {f"pet.{pet.name}": pet for pet in self.pets}
        rows |= {f"memory.{at}": memory for at, memory in enumerate(self.memories)}
        rows |= {f"status.{name}": value for name, value in self.statuses.items()}
        return rows | {f"routine.{at}": routine for at, routine in enumerate(self.routines, 1)}

    def rows_changed_since(self, before: Records) -> dict[str, Any]:
        """The rows that `before` lacks or has otherwise. Nothing is ever erased, so these are all differences."""
        if all(getattr(self, one.name) is getattr(before, one.name) for one in fields(self)):
            return {}
        old = before.rows_by_name()
        return {name: row for name, row in self.rows_by_name().items() if name not in old or old[name] != row}


class HouseholdState:
    """A household in an episode. Raises `InputError` if its home cannot be built.

    `home` holds the appliances and sensors; each call puts another object in its place. `seen` are the ids of all that calls
    have shown (see `note_shown`), and `shown` are those that the last call showed, which decide nothing.
    """

    __slots__ = ("_digest", "_start", "home", "household", "records", "seen", "shown")

    def __init__(self, household: Household) -> None:
        self.household = household
        start, self._digest = _start_of(household.model_dump_json())
        self.home: Home = start.fork()
        self.records = self._start = Records(household.members, household.pets, household.memories)
        self.seen: frozenset[str] = frozenset()
        self.shown: tuple[str, ...] = ()

    @property
    def now(self) -> datetime:
        """The home's clock."""
        return datetime.fromtimestamp(self.home.clock, UTC).replace(tzinfo=None)

    def devices_of_kind(self, kind: DeviceKind) -> list[Device]:
        """The appliances, or the sensors, which only measure, in the order of the home."""
        return [device for device in self.home.plan.devices if device_kind(device) == kind]

    def device_values(self, name: str) -> dict[str, Any]:
        """The attributes of an appliance or a sensor by path. What was written about a sensor hides what it measures."""
        written = self.records.statuses
        return {path: written.get(f"{name}.{path}", value) for path, value in self.home.state_of(name).items()}

    def note_shown(self, *ids: str) -> None:
        """Note what the present call shows."""
        self.shown += tuple(one for one in ids if one not in self.shown)
        self.seen |= frozenset(ids)

    def fork(self) -> Self:
        """An independent copy. It copies the values of the home and shares everything that never changes."""
        # `__init__` would hash the household again.
        twin = type(self).__new__(type(self))
        twin.replace_with(self)
        twin.home = self.home.fork()
        return twin

    def replace_with(self, other: HouseholdState) -> None:
        """Become `other`, which is not used from then on."""
        for name in HouseholdState.__slots__:
            setattr(self, name, getattr(other, name))

    def state_key(self) -> str:
        """A 128-bit hash of everything that decides the future, in hex."""
        rows = self.records.rows_changed_since(self._start).items()
        written = state_text(sorted((name, state_text(row)) for name, row in rows))
        text = f"{self._digest} {self.home.state_key()} {written} {state_text(sorted(self.seen))}"
        return f"{text_hash(text):032x}"

    def changes_since(self, since: HouseholdState) -> tuple[str, ...]:
        """The names of what differs from an earlier state of the same episode, in a fixed order.

        An attribute is `oven.mode`, a record has its name in `Records.rows_by_name`, and what was newly seen is `seen.` and
        its id.
        """
        home = changes_of_home(since.home, self.home)
        written = tuple(self.records.rows_changed_since(since.records))
        return home + written + tuple(f"seen.{one}" for one in sorted(self.seen - since.seen))


@lru_cache(maxsize=64)  # an episode builds states of one household again and again
def _start_of(text: str) -> tuple[Home, int]:
    """The home of a household that is given as JSON, and the household's hash. Nobody changes this home."""
    household = json.loads(text)
    return home_from_json(household["home"], household["household_id"]), text_hash(text)
