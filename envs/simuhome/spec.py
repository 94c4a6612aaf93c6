"""The catalogue: clusters, enumerations and the 17 device types, as immutable data read from YAML.

Invariants: a flat key is `<endpoint>.<Cluster>.<Attribute>`; one whose last part begins with `#` is hidden state that no
tool shows; a device type's keys have fixed offsets, so that a device is a base in the home's list of values.
Structures and lists are never changed in place: homes share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

from envs.documents import read_yaml

CATALOGUE = Path(__file__).parent / "catalogue"
REQUIRED = "required"


class Struct(dict[str, Any]):
    """A structure that was built, not loaded from JSON: it knows its Matter type."""

    def __init__(self, kind: str, members: Mapping[str, Any]) -> None:
        super().__init__(members)
        self.kind = kind

    def __repr__(self) -> str:
        return f"{self.kind}({dict.__repr__(self)})"

    def __reduce__(self) -> tuple[type[Struct], tuple[str, dict[str, Any]]]:
        return type(self), (self.kind, dict(self))


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster of the vocabulary: initial attributes and commands with their parameters."""

    name: str
    attributes: Mapping[str, Any]
    writable: frozenset[str] = frozenset()
    enums: Mapping[str, str] = field(default_factory=dict)  # attribute, or attribute.member of its entries
    structs: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, Any] = field(default_factory=dict)
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def typed_default(self, attribute: str, value: Any) -> Any:
        """A built-in default: numbers become members of their enumeration, objects become structures."""
        if kind := self.structs.get(attribute):
            return [Struct(kind, one) for one in value] if isinstance(value, list) else Struct(kind, value)
        if inner := {key.split(".")[1]: kind for key, kind in self.enums.items() if key.startswith(attribute + ".")}:
            return [
                {key: enum_member(inner[key], part) if key in inner else part for key, part in one.items()} for one in value
            ]
        return enum_member(self.enums[attribute], value) if attribute in self.enums else value


@dataclass(frozen=True)
class PowerRules:
    """What a device type refuses while its OnOff is not true. `at` None is any endpoint, which is then ignored."""

    commands: frozenset[str] = frozenset()
    at: int | None = None
    without: frozenset[str] = frozenset()
    writes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    writes_at: int | None = None


@dataclass(frozen=True)
class Cycle:
    """An appliance's programme: what chooses it, its seconds, and the shares of its phases."""

    by: tuple[str, str]
    seconds: Mapping[float, int]
    otherwise: int
    shares: tuple[int, ...]
    whole_seconds: bool

    def duration(self, choice: Any) -> int:
        """The seconds that the programme takes for a mode or level."""
        return self.seconds.get(choice, self.otherwise) if isinstance(choice, (int, float)) else self.otherwise

    def phase(self, elapsed: float, total: float) -> int:
        """The index of the phase that `elapsed` of `total` seconds have reached."""
        parts, reached = sum(self.shares), 0.0
        for index, share in enumerate(self.shares):
            reached += int(total * (share / parts)) if self.whole_seconds else share
            if (elapsed if self.whole_seconds else elapsed * parts / total) <= reached:
                return index
        return len(self.shares) - 1


@dataclass(frozen=True, eq=False)
class DeviceType:
    """One of the 17: identity, clusters by endpoint, what needs power, the programme if it has one."""

    name: str
    endpoints: Mapping[int, Mapping[str, Cluster]]
    initial: Mapping[str, Any]  # flat key -> built-in value, hidden ones too
    guarded: bool
    power: PowerRules
    cycle: Cycle | None
    dims: bool
    rows: Mapping[str, Mapping[str, list[int]]]

    @cached_property
    def offsets(self) -> dict[str, int]:
        """The offset of each flat key within a device's values."""
        return {key: offset for offset, key in enumerate(self.initial)}

    @cached_property
    def places(self) -> tuple[tuple[int, Cluster], ...]:
        """All (endpoint, cluster) pairs."""
        return tuple((endpoint, cluster) for endpoint, clusters in self.endpoints.items() for cluster in clusters.values())

    @cached_property
    def endpoint_of(self) -> dict[str, int]:
        """The first endpoint of each cluster."""
        return {cluster.name: endpoint for endpoint, cluster in reversed(self.places)}

    def read_only(self, endpoint: int, cluster: Cluster, attribute: Any) -> bool:
        """Attributes that only a loaded home has may be written."""
        return f"{endpoint}.{cluster.name}.{attribute}" in self.initial and attribute not in cluster.writable


def enum_member(kind: str, value: Any) -> Any:
    """A number, or a list of them, as members of an enumeration; what is none stays as it is."""
    if isinstance(value, list):
        return [enum_member(kind, one) for one in value]
    known = enumerations()[kind]
    return known(value) if isinstance(value, int) and value in known._value2member_map_ else value


@lru_cache(maxsize=1)
def enumerations() -> dict[str, type[IntEnum]]:
    """The catalogue's enumerations by name."""
    data = read_yaml(CATALOGUE / "enums.yaml").data
    return {name: cast(type[IntEnum], IntEnum(name, members, module=__name__)) for name, members in data.items()}


@lru_cache(maxsize=1)
def clusters() -> dict[str, Cluster]:
    """The catalogue's clusters by name."""
    data = read_yaml(CATALOGUE / "clusters.yaml").data
    return {
        name: Cluster(name, **(given | {"writable": frozenset(given.get("writable", ()))})) for name, given in data.items()
    }


@lru_cache(maxsize=1)
def device_types() -> dict[str, DeviceType]:
    """The 17 device types by name."""
    return {name: _device_type(name, given) for name, given in read_yaml(CATALOGUE / "devices.yaml").data.items()}


def _device_type(name: str, given: Mapping[str, Any]) -> DeviceType:
    known = clusters()
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
    flags = given.get("guarded", False), _power(given), _cycle(given), given.get("dims", False), given.get("rows", {})
    return DeviceType(name, endpoints, initial, *flags)


def _power(given: Mapping[str, Any]) -> PowerRules:
    power = given.get("power", {})
    at = power.get("at")
    return PowerRules(
        frozenset(power.get("commands", ())),
        None if at == "any" else at,
        frozenset(power.get("except", ())),
        {cluster: frozenset(names) for cluster, names in power.get("writes", {}).items()},
        power.get("writes_at"),
    )


def _cycle(given: Mapping[str, Any]) -> Cycle | None:
    if "cycle" not in given:
        return None
    cycle = given["cycle"]
    cluster, attribute = cycle["by"].split(".")
    return Cycle((cluster, attribute), cycle["seconds"], cycle["otherwise"], tuple(cycle["shares"]), cycle["whole_seconds"])
