"""Homes as JSON, without loss.

Invariants: `home_from_json(home_to_json(home))` has the same plan digest, values, clock and state key;
a device of the shipped catalogue is stored by spid and digest, any other specification is stored whole;
a file that does not make a coherent home is refused as one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from envs.documents import Document, InputError, read_json, validate, write_atomic
from envs.homeenv.audit import Refused
from envs.homeenv.automation import Rule, checked_action
from envs.homeenv.conditions import compile_condition
from envs.homeenv.home import OUTDOORS, Device, Home, Room
from envs.homeenv.physics import Air, Moment, Outdoors
from envs.homeenv.spec import Catalogue, DeviceSpec, spec_from_json
from envs.homeenv.types import Model

FORMAT = 1


class AirRecord(Model):
    """A room's air: from when on, its temperature and humidity then, and where they tend to (with the light)."""

    since: int
    start: tuple[float, float]
    goal: tuple[float, float, float]


class RoomRecord(Model):
    """A room; `bias` is what its temperature and humidity have over the steady state, `air` is there once time passed."""

    name: str
    kind: str
    parent: str | None = None
    floor: int = 0
    state: dict[str, Any]
    bias: tuple[float, float] | None = None
    air: AirRecord | None = None


class DeviceRecord(Model):
    did: str
    name: str
    room: str
    spid: str
    state: dict[str, Any]


class ActionRecord(Model):
    did: str
    locator: str
    arguments: dict[str, Any] = {}


class RuleRecord(Model):
    """An automation and how far it has come (`automation.Rule`)."""

    id: str
    title: str = ""
    cron: str | None = None
    at: int | None = None
    when: str | None = None
    hold: int = 0
    enabled: bool = True
    actions: tuple[ActionRecord, ...]
    held: bool = False
    since: int | None = None
    due: int | None = None
    fired: int | None = None


class HomeRecord(Model):
    """A home file. `specs` maps spid to the digest of a catalogue product, or to a whole specification; `forecast`
    lists the weather to come as clock, celsius, percent, lux.
    """

    format: int
    clock: int
    outdoors: dict[str, Any]
    forecast: tuple[tuple[int, float, float, float], ...] = ()
    rules: tuple[RuleRecord, ...] = ()
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
        "rooms": [_room_record(home, index) for index in range(len(home.plan.rooms))],
        "devices": [
            {"did": d.did, "name": d.name, "room": d.room, "spid": d.spec.spid, "state": _plain(home.state_of(d.did))}
            for d in home.plan.devices
        ],
        "specs": dict(sorted(specs.items())),
        **({"entrance": home.plan.entrance} if home.plan.entrance is not None else {}),
        **({"forecast": [[m.clock, *m.outdoors] for m in home.plan.forecast]} if home.plan.forecast else {}),
        **({"rules": [_rule_record(rule) for rule in home.rules]} if home.rules else {}),
    }


def _room_record(home: Home, index: int) -> dict[str, Any]:
    room = home.plan.rooms[index]
    record = {"name": room.name, "kind": room.kind, "parent": room.parent, "floor": room.floor}
    record |= {"state": _plain(home.state_of(room.name)), "bias": list(home.plan.bias[index])}
    if home.air is not None:
        air = home.air[index]
        record["air"] = {"since": air.since, "start": [air.temperature, air.humidity], "goal": list(air.goal)}
    return record


def _rule_record(rule: Rule) -> dict[str, Any]:
    record = {f.name: getattr(rule, f.name) for f in fields(rule) if f.name not in ("actions", "condition")}
    return {key: value for key, value in record.items() if value not in (None, "")} | {
        "actions": [_plain(action.describe()) for action in rule.actions]
    }


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
    rooms = [Room(r.name, r.kind, r.parent, r.floor) for r in record.rooms]
    devices = [Device(d.did, d.name, d.room, specs[d.spid]) for d in record.devices]
    forecast = [Moment(clock, Outdoors(*weather)) for clock, *weather in record.forecast]
    bias = [r.bias for r in record.rooms]
    try:
        home = Home.build(rooms, devices, state, record.clock, record.entrance, forecast, None if None in bias else bias)
        _resume(home, record)
    except (ValueError, Refused) as error:
        raise InputError(str(error), where=source, remedy="correct the home file, or make it again") from None
    return home


def _resume(home: Home, record: HomeRecord) -> None:
    """What was under way when the home was saved: its rules, and its air if time had passed."""
    for rule in record.rules:
        data = rule.model_dump(exclude={"actions"})
        actions = tuple(checked_action(home.plan, action.model_dump()) for action in rule.actions)
        condition = compile_condition(rule.when, home.plan) if rule.when else None
        home.rules = (*home.rules, Rule(**data, actions=actions, condition=condition))
    airs = [room.air for room in record.rooms]
    if airs and None not in airs:
        home.air = [
            Air(a.since, *a.start, Outdoors(*a.goal), room.inputs(home.values), bias, room.shell)
            for a, room, bias in zip(airs, home.plan.wiring.rooms, home.plan.bias)
        ]
        home.stirred = True  # calls made since the clock last moved


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
