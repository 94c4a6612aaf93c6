"""The catalogue: Matter clusters, enumerations and the 17 device types, read from YAML as immutable data.

Invariants:
- A flat key is `<endpoint>.<Cluster>.<Attribute>`, such as `1.OnOff.OnOff`. If its last part starts with `#`, it is
  hidden state that no tool shows.
- The keys of a device type have fixed offsets. So a device needs only the slot at which its values start.
- Structures and lists are never changed in place, because homes share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast

from homerl.envs.core.documents import read_yaml
from homerl.envs.core.state_encoding import state_text, written_by

CATALOGUE = Path(__file__).parent / "catalogue"
REQUIRED = "required"


@written_by(lambda struct: f"{struct.kind}({state_text(dict(struct))})")
class Struct(dict[str, Any]):
    """A Matter structure that the catalogue built, with its Matter type. A structure loaded from JSON is a plain dict."""

    def __init__(self, kind: str, members: Mapping[str, Any]) -> None:
        super().__init__(members)
        self.kind = kind

    def __repr__(self) -> str:
        return f"{self.kind}({dict.__repr__(self)})"

    def __reduce__(self) -> tuple[type[Struct], tuple[str, dict[str, Any]]]:
        return type(self), (self.kind, dict(self))


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster of the catalogue: initial attributes, hidden state, and commands with their parameters.

    A parameter's value is its default, or `REQUIRED`. Attributes outside `writable` are read-only.
    """

    name: str
    attributes: Mapping[str, Any]
    writable: frozenset[str] = frozenset()
    enums: Mapping[str, str] = field(default_factory=dict)  # `attribute`, or `attribute.member` in a list of objects
    structs: Mapping[str, str] = field(default_factory=dict)  # attribute -> Matter type of its structures
    hidden: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def typed_default(self, attribute: str, value: Any) -> Any:
        """An attribute's initial value with its types: numbers become enumeration members, objects become structures."""
        if kind := self.structs.get(attribute):
            return [Struct(kind, one) for one in value] if isinstance(value, list) else Struct(kind, value)
        if inner := {key.split(".")[1]: kind for key, kind in self.enums.items() if key.startswith(attribute + ".")}:
            return [
                {key: enum_member(inner[key], part) if key in inner else part for key, part in one.items()} for one in value
            ]
        return enum_member(self.enums[attribute], value) if attribute in self.enums else value


@dataclass(frozen=True)
class PowerRules:
    """What a device refuses while it is switched off.

    - `commands` are the clusters whose commands need power, except the commands in `without`.
    - `at` is the endpoint to which this applies. None means that it applies to every endpoint, and that the command
      then runs at endpoint 1.
    - `writes` are the attributes whose writes need power, by cluster. `writes_at` limits them to one endpoint.
    """

    commands: frozenset[str] = frozenset()
    at: int | None = None
    without: frozenset[str] = frozenset()
    writes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    writes_at: int | None = None

    def covers_command(self, endpoint: Any, cluster: str, command: Any) -> bool:
        """Whether a command needs power. A workflow's step may give a list as the command, which cannot be hashed."""
        return cluster in self.commands and self.at in (None, endpoint) and command not in tuple(self.without)


@dataclass(frozen=True)
class Cycle:
    """The programme of an appliance.

    `by` names the cluster and attribute that choose it. `seconds` is its length for each choice, `otherwise` for any
    other. `shares` are the relative lengths of its phases. `whole_seconds` says that phases end at whole seconds.
    """

    by: tuple[str, str]
    seconds: Mapping[float, int]
    otherwise: int
    shares: tuple[int, ...]
    whole_seconds: bool

    def duration_seconds(self, choice: Any) -> int:
        """The length of the programme in seconds, for a mode or level."""
        return self.seconds.get(choice, self.otherwise) if isinstance(choice, (int, float)) else self.otherwise

    def phase_index(self, elapsed: float, total: float) -> int:
        """The index of the phase after `elapsed` of `total` seconds."""
        parts, reached = sum(self.shares), 0.0
        for index, share in enumerate(self.shares):
            reached += int(total * (share / parts)) if self.whole_seconds else share
            if (elapsed if self.whole_seconds else elapsed * parts / total) <= reached:
                return index
        return len(self.shares) - 1


# Views look attributes up by these tables, because making a flat key at each access would cost more.
Tables = Mapping[tuple[int, str], Mapping[str, int]]  # (endpoint, cluster) -> attribute -> offset


@dataclass(frozen=True, eq=False)
class DeviceType:
    """One of the 17 device types: its clusters by endpoint, its power rules, and its programme if it has one.

    `initial` has the initial value of each flat key, hidden ones included. `guarded` says that writes are checked
    before the cluster is looked up. `dims` says that the level changes over time and follows OnOff. `rows` lists what
    each mode of a washer offers.
    """

    name: str
    endpoints: Mapping[int, Mapping[str, Cluster]]
    initial: Mapping[str, Any]
    guarded: bool
    power: PowerRules
    cycle: Cycle | None
    dims: bool
    rows: Mapping[str, Mapping[str, list[int]]]

    @cached_property
    def slot_offsets(self) -> dict[str, int]:
        """The offset of each flat key among a device's values."""
        return {key: offset for offset, key in enumerate(self.initial)}

    @cached_property
    def offset_tables(self) -> Tables:
        """The offset of each attribute, by endpoint and cluster."""
        return self.tables_for_offsets(self.slot_offsets)

    def tables_for_offsets(self, offsets: Mapping[str, int]) -> Tables:
        """Offsets by endpoint and cluster, of a device with other keys too."""
        tables: dict[tuple[int, str], dict[str, int]] = {(place, part.name): {} for place, part in self.cluster_places}
        places = {(str(endpoint), cluster): table for (endpoint, cluster), table in tables.items()}
        for key, offset in offsets.items():
            endpoint, cluster, attribute = (*key.split(".", 2), "", "")[:3]
            if (endpoint, cluster) in places:
                places[endpoint, cluster][attribute] = offset
        return tables

    @cached_property
    def cluster_places(self) -> tuple[tuple[int, Cluster], ...]:
        """All pairs of an endpoint and a cluster at it."""
        return tuple((endpoint, cluster) for endpoint, clusters in self.endpoints.items() for cluster in clusters.values())

    @cached_property
    def endpoint_of(self) -> dict[str, int]:
        """The first endpoint of each cluster, by the cluster's name."""
        return {cluster.name: endpoint for endpoint, cluster in reversed(self.cluster_places)}

    @cached_property
    def at_any_time(self) -> dict[tuple[int, str, str], Mapping[str, Any]]:
        """The parameters of the commands that the device takes on and off alike, by endpoint, cluster and command."""
        return {
            (endpoint, cluster.name, command): parameters
            for endpoint, cluster in self.cluster_places
            for command, parameters in cluster.commands.items()
            if not self.power.covers_command(endpoint, cluster.name, command)
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_device_type, (self.name,)  # every process reads the same catalogue

    def is_read_only(self, endpoint: int, cluster: Cluster, attribute: Any) -> bool:
        """Whether an attribute is read-only. Attributes that only the loaded configuration has can be written."""
        return f"{endpoint}.{cluster.name}.{attribute}" in self.initial and attribute not in cluster.writable


class Enumeration(IntEnum):
    """An enumeration of the catalogue. Its members are pickled by its name, since no module holds it."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return enum_member, (type(self).__name__, int(self))


def enum_member(kind: str, value: Any) -> Any:
    """A number, or a list of numbers, as members of an enumeration. Other values stay as they are."""
    if isinstance(value, list):
        return [enum_member(kind, one) for one in value]
    known = all_enumerations()[kind]
    return known(value) if isinstance(value, int) and value in known._value2member_map_ else value


@lru_cache(maxsize=1)
def all_enumerations() -> dict[str, type[IntEnum]]:
    """The enumerations of the catalogue by name."""
    data = read_yaml(CATALOGUE / "enums.yaml").data
    found = {name: cast(Any, Enumeration)(name, members, module=__name__) for name, members in data.items()}
    for name, kind in found.items():
        written_by(partial(_member_text, name))(kind)
    return found


def _member_text(kind: str, member: Enumeration) -> str:
    return f"<{kind}.{member.name}: {member.value}>"


@lru_cache(maxsize=1)
def all_clusters() -> dict[str, Cluster]:
    """The clusters of the catalogue by name."""
    data = read_yaml(CATALOGUE / "clusters.yaml").data
    return {
        name: Cluster(name, **given | {"writable": frozenset(given.get("writable", ()))}) for name, given in data.items()
    }


@lru_cache(maxsize=1)
def device_types() -> dict[str, DeviceType]:
    """The 17 device types by name."""
    return {name: _read_device_type(name, given) for name, given in read_yaml(CATALOGUE / "devices.yaml").data.items()}


def _restore_device_type(name: str) -> DeviceType:
    return device_types()[name]


def _read_device_type(name: str, given: Mapping[str, Any]) -> DeviceType:
    known = all_clusters()
    endpoints: dict[int, dict[str, Cluster]] = {}
    initial: dict[str, Any] = {}
    identity = {"VendorName": given["vendor"], "ProductName": given["product"], "ProductID": given["product_id"]}
    for endpoint, parts in {0: {"BasicInformation": identity}, **given["endpoints"]}.items():
        endpoints[endpoint] = {}
        for cluster_name, own in parts.items():
            cluster = endpoints[endpoint][cluster_name] = known[cluster_name]
            prefix = f"{endpoint}.{cluster_name}."
            for attribute, value in {**cluster.attributes, **own}.items():
                initial[prefix + attribute] = cluster.typed_default(attribute, value)
            initial |= {f"{prefix}#{key}": value for key, value in cluster.hidden.items()}
    written = given.get("power", {})
    power = PowerRules(
        commands=frozenset(written.get("commands", ())),
        at=None if written.get("at") == "any" else written.get("at"),
        without=frozenset(written.get("except", ())),
        writes={cluster: frozenset(names) for cluster, names in written.get("writes", {}).items()},
        writes_at=written.get("writes_at"),
    )
    cycle = None
    if parts := given.get("cycle"):
        cluster_name, attribute = parts["by"].split(".")
        cycle = Cycle(**parts | {"by": (cluster_name, attribute), "shares": tuple(parts["shares"])})
    guarded, dims, rows = given.get("guarded", False), given.get("dims", False), given.get("rows", {})
    return DeviceType(name, endpoints, initial, guarded, power, cycle, dims, rows)
