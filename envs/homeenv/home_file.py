"""Homes as JSON, without loss.

Invariants: `home_from_json(home_to_json(home))` has the same plan digest, values, clock and state key;
a device of the shipped catalogue is stored by spid and digest, any other specification is stored whole;
a file that does not make a coherent home is refused as one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.documents import Document, InputError, read_json, validate, write_atomic
from envs.homeenv.home import OUTDOORS, Device, Home, Room
from envs.homeenv.spec import Catalogue, DeviceSpec, spec_from_json
from envs.homeenv.types import Model

FORMAT = 1


class RoomRecord(Model):
    name: str
    kind: str
    parent: str | None = None
    floor: int = 0
    state: dict[str, Any]


class DeviceRecord(Model):
    did: str
    name: str
    room: str
    spid: str
    state: dict[str, Any]


class HomeRecord(Model):
    """A home file. `specs` maps spid to the digest of a catalogue product, or to a whole specification."""

    format: int
    clock: int
    outdoors: dict[str, Any]
    rooms: tuple[RoomRecord, ...]
    devices: tuple[DeviceRecord, ...]
    specs: dict[str, str | dict[str, Any]]
    entrance: str | None = None


def home_to_json(home: Home) -> dict[str, Any]:
    """The home as plain data."""
    shipped = Catalogue.shipped()
    specs: dict[str, str | dict] = {}
    for device in home.plan.devices:
        known = shipped.get(device.spec.spid)
        is_shipped = known is not None and known.digest == device.spec.digest
        specs[device.spec.spid] = (
            device.spec.digest if is_shipped else device.spec.model_dump(mode="json", exclude_defaults=True)
        )
    return {
        "format": FORMAT,
        "clock": home.clock,
        "outdoors": _plain(home.state_of(OUTDOORS)),
        "rooms": [
            {"name": r.name, "kind": r.kind, "parent": r.parent, "floor": r.floor, "state": _plain(home.state_of(r.name))}
            for r in home.plan.rooms
        ],
        "devices": [
            {"did": d.did, "name": d.name, "room": d.room, "spid": d.spec.spid, "state": _plain(home.state_of(d.did))}
            for d in home.plan.devices
        ],
        "specs": dict(sorted(specs.items())),
    } | ({"entrance": home.plan.entrance} if home.plan.entrance is not None else {})


def home_from_json(data: Mapping[str, Any], source: str = "home") -> Home:
    """The home that `data` describes, or `InputError` naming `source` and the place."""
    return _build(validate(HomeRecord, Document(source, data, {})), source)


def load_home(path: str | Path) -> Home:
    """Read a home file; refuse it whole with file and line if anything is wrong."""
    return _build(validate(HomeRecord, read_json(path)), str(path))


def save_home(home: Home, path: str | Path) -> None:
    """Write a home file, atomically."""
    write_atomic(path, json.dumps(home_to_json(home), indent=1) + "\n")


def _plain(value: Any) -> Any:
    """As JSON gives it back: lists for tuples."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _build(record: HomeRecord, source: str) -> Home:
    if record.format != FORMAT:
        raise InputError(f"home format {record.format} is not known", where=source, remedy=f"this version reads {FORMAT}")
    specs = {spid: _resolve(spid, spec, source) for spid, spec in record.specs.items()}
    if missing := [d for d in record.devices if d.spid not in specs]:
        raise InputError(
            f"device {missing[0].did} has the spid {missing[0].spid}, which is not among the file's specs",
            where=source, remedy="add the specification under 'specs'",
        )  # fmt: skip
    state = {OUTDOORS: record.outdoors} | {r.name: r.state for r in record.rooms} | {d.did: d.state for d in record.devices}
    try:
        return Home.build(
            [Room(r.name, r.kind, r.parent, r.floor) for r in record.rooms],
            [Device(d.did, d.name, d.room, specs[d.spid]) for d in record.devices],
            state,
            record.clock,
            record.entrance,
        )
    except ValueError as error:
        raise InputError(str(error), where=source, remedy="correct the home file, or make it again") from None


def _resolve(spid: str, spec: str | dict[str, Any], source: str) -> DeviceSpec:
    if isinstance(spec, dict):
        try:
            return spec_from_json(spec)
        except ValueError as error:
            raise InputError(str(error), where=source, remedy="correct the specification") from None
    known = Catalogue.shipped().get(spid)
    if known is None or known.digest != spec:
        raise InputError(
            f"the catalogue has no product {spid} with digest {spec}",
            where=source, remedy="the home was made with another version of the catalogue; make it again",
        )  # fmt: skip
    return known
