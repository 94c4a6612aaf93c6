"""Homes as JSON without loss, in the terms of SMH-Bench's tables 4 to 7, 9 and 11.

A home file holds `rooms` and `devices`. The rest of a simulation's state (clock, weather, air, automations) has keys of its
own, which may be missing. A device is written in one of two forms. The `whole` form gives its attributes with their values,
and its services. The other form refers to its product by `spid`. The product is then listed under `specs`: by its digest if
it is in the shipped catalogue, and with its whole specification otherwise.

Invariants:
- In both forms, `home_from_json(home_to_json(home))` has the same plan digest, values, clock and state key.
- A file that does not make a coherent home is refused as a whole, with `InputError`.

The docstrings of the models are descriptions in docs/schemas, so models that had none get a comment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from homerl.envs.core.documents import Document, InputError, read_json, refuse_unwritable, validate_document, write_atomic
from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.automation import make_hidden_rules, restore_rule
from homerl.envs.homeenv.sim.devices.air_physics import Outdoors, WeatherChange, restore_air
from homerl.envs.homeenv.sim.devices.attributes_and_services import Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Component, Device, DeviceSpec, UserData, spec_from_json
from homerl.envs.homeenv.sim.devices.rooms import HOME, OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import ANY_DEVICE, ORIGIN_FORMAT, Origin
from homerl.envs.homeenv.sim.rules import HomeRule
from homerl.envs.homeenv.sim.values.auditor import Refused

FORMAT = 2
NO_DEFAULTS: dict[str, Any] = {"mode": "json", "exclude_defaults": True}  # how files write a model
REPORT = ".import.json"  # ends the name of the report beside an imported home: what was not understood
MILD = {"temperature": 21.0, "humidity": 50.0, "brightness": 100.0}  # the air where a file gives none


class RoomRecord(Model):
    """A room (Table 5)."""

    id: str
    type: str
    name: str
    floor: int = 0
    parent: str | None = None


class AttributeRecord(Attribute):
    """An attribute and its value (Table 9)."""

    value: Any


# A component whose attributes have values.
class ComponentRecord(Component):
    attributes: tuple[AttributeRecord, ...] = ()


class UserDataRecord(UserData):
    """Which device of which product it is, and where (Table 7). `product` is the specification's name."""

    did: str
    room: str | None
    product: str | None = None


class DeviceRecord(DeviceSpec):
    """A device, whole (Table 6). `name` is what people call it."""

    attributes: tuple[AttributeRecord, ...] = ()
    components: tuple[ComponentRecord, ...] = ()
    userdata: UserDataRecord

    @property
    def did(self) -> str:
        """The id of the device in the home."""
        return self.userdata.did

    @property
    def room(self) -> str | None:
        """The id of the room that the device is in; None for a device in no room."""
        return self.userdata.room

    @property
    def state(self) -> dict[str, Any]:
        """The values of the device's attributes by dotted path."""
        parts = [("", self.attributes), *((f"{component.name}.", component.attributes) for component in self.components)]
        return {prefix + attribute.name: attribute.value for prefix, attributes in parts for attribute in attributes}

    def product_spec(self) -> DeviceSpec:
        """The specification of the product: the record without values, did and room.

        If the catalogue has an equal specification, it is that object. Raises `ValueError` if the record is invalid.
        """
        data = self.model_dump(**NO_DEFAULTS)
        known = data["userdata"]
        for part in (data, *data.get("components", ())):
            for attribute in part.get("attributes", ()):
                attribute.pop("value", None)
        del known["did"], known["room"]
        named = known.pop("product", None)
        data["name"] = (self.userdata.subcategory or self.category) if named is None else named
        spec = spec_from_json(data)
        shipped = Catalogue.load_shipped().get(spec.spid)
        return shipped if shipped is not None and shipped.content_digest == spec.content_digest else spec


class PlacedRecord(Model):
    """A device by its product: `spid` is a key of the file's `specs`."""

    did: str
    name: str
    room: str | None
    spid: str
    state: dict[str, Any]


# One service call of an automation.
class ActionRecord(Model):
    did: str
    locator: str
    arguments: dict[str, Any] = {}


class RuleRecord(Model):
    """An automation and how far it has come (`automation.Rule`). One without `held` begins with the file."""

    id: str
    title: str = ""
    cron: str | None = None
    at: int | None = None
    when: str | None = None
    hold: int = 0
    enabled: bool = True
    actions: tuple[ActionRecord, ...] = ()
    held: bool | None = None
    since: int | None = None
    due: int | None = None
    fired: int | None = None
    given: str | None = None
    watch: str | None = None
    before: str | None = None
    last: tuple[Any, ...] | None = None
    steps: tuple[dict[str, Any], ...] | None = None
    most: int | None = None
    restart: bool = False
    of: str | None = None
    becomes: str | None = None
    run: int | None = None
    start: int = 0


class AirRecord(Model):
    """A room's air: its state now; what its temperature and humidity have over the steady state (`bias`); and, once
    time has passed, from when on, what they were then and what they tend to (with the light)."""

    state: dict[str, Any]
    bias: tuple[float, float] | None = None
    since: int | None = None
    start: tuple[float, float] | None = None
    goal: tuple[float, float, float] | None = None

    @model_validator(mode="after")
    def _check_completeness(self) -> AirRecord:
        if len({part is None for part in (self.since, self.start, self.goal)}) > 1:
            raise ValueError("`since`, `start` and `goal` go together: give all three or none")
        return self


def _name_device_form(data: Any) -> str:
    """The name of the model for the form in which a device is written."""
    whole = "userdata" in data if isinstance(data, Mapping) else isinstance(data, DeviceRecord)
    return "DeviceRecord" if whole else "PlacedRecord"


Whole = Annotated[DeviceRecord, Tag("DeviceRecord")]
Placed = Annotated[PlacedRecord, Tag("PlacedRecord")]
AnyDevice = Annotated[Whole | Placed, Discriminator(_name_device_form)]


class HomeRecord(Model):
    """A home file (Table 4). `specs` maps spid to the digest of a catalogue product, or to a whole specification;
    `air` is by room id; `forecast` lists the weather to come as clock, celsius, percent, lux.
    """

    format: int = FORMAT
    clock: int = 0
    outdoors: dict[str, Any] = Field(default_factory=lambda: dict(MILD))
    forecast: tuple[tuple[int, float, float, float], ...] = ()
    rooms: tuple[RoomRecord, ...]
    devices: tuple[AnyDevice, ...]
    specs: dict[str, str | dict[str, Any]] = {}
    air: dict[str, AirRecord] = {}
    rules: tuple[RuleRecord, ...] = ()
    entrance: str | None = None
    origin: Origin | None = None


def home_to_json(home: Home, whole: bool = False) -> dict[str, Any]:
    """The home as plain JSON data. `whole` writes each device in full; otherwise devices refer to their products."""
    origin = home.plan.origin
    return {
        "format": FORMAT,
        "clock": home.clock,
        "outdoors": _json_value(home.state_of(OUTDOORS)),
        **({"forecast": [[m.clock, *m.outdoors] for m in home.plan.forecast]} if home.plan.forecast else {}),
        "rooms": [vars(room) for room in home.plan.rooms],
        "devices": [(_whole_record if whole else _placed_record)(home, device) for device in home.plan.devices],
        **({} if whole else {"specs": _product_specs(home)}),
        "air": {room.id: _air_record(home, index) for index, room in enumerate(home.plan.rooms)},
        **({"rules": [_rule_record(rule) for rule in home.rules]} if home.rules else {}),
        **({"entrance": home.plan.entrance} if home.plan.entrance is not None else {}),
        **({} if origin is None else {"origin": {"format": origin.format} | origin.model_dump(**NO_DEFAULTS)}),
    }


def _placed_record(home: Home, device: Device) -> dict[str, Any]:
    state = _json_value(home.state_of(device.did))
    return {"did": device.did, "name": device.name, "room": device.room.id, "spid": device.spec.spid, "state": state}


def _product_specs(home: Home) -> dict[str, str | dict[str, Any]]:
    """The file's `specs` by spid: the digest of a shipped product, or the whole specification of any other."""
    shipped = Catalogue.load_shipped()
    specs: dict[str, str | dict[str, Any]] = {}
    for spec in (device.spec for device in home.plan.devices):
        known = spec.spid in shipped and shipped[spec.spid].content_digest == spec.content_digest
        specs[spec.spid] = spec.content_digest if known else spec.model_dump(**NO_DEFAULTS)
    return dict(sorted(specs.items()))


def _whole_record(home: Home, device: Device) -> dict[str, Any]:
    state, spec = home.state_of(device.did), device.spec
    parts = [_part_record(prefix, part, state) for prefix, part in spec.parts_by_prefix()]
    known = spec.userdata.model_dump(**NO_DEFAULTS)
    userdata = {"did": device.did, "tags": [], **known, "room": device.room.id, "product": spec.name}
    reachable = {} if spec.available is None else {"available": spec.available}
    return parts[0] | reachable | {"name": device.name, "components": parts[1:], "userdata": userdata}


def _part_record(prefix: str, part: Component, state: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with their values, and the services of a device itself or of a component."""
    dumped = part.model_dump(**NO_DEFAULTS, include={*Component.model_fields})
    attributes = [a | {"value": _json_value(state[prefix + a["name"]])} for a in dumped.get("attributes", ())]
    return dumped | {"attributes": attributes, "services": dumped.get("services", [])}


def _air_record(home: Home, index: int) -> dict[str, Any]:
    record = {"state": _json_value(home.state_of(home.plan.rooms[index].id)), "bias": list(home.plan.bias[index])}
    if home.air is not None:
        air = home.air[index]
        record |= {"since": air.since, "start": [air.temperature, air.humidity], "goal": list(air.goal)}
    return record


def _rule_record(rule: HomeRule) -> dict[str, Any]:
    """A rule as a `RuleRecord`, without the fields that have their defaults, but for two that files have always had."""
    says, record = rule.definition, {}
    for name, field in RuleRecord.model_fields.items():
        if name not in ("actions", "steps"):
            value = getattr(says if hasattr(says, name) else rule.progress, name)
            if value != field.default or name in ("hold", "enabled"):
                record[name] = _json_value(value)
    if says.steps is not None:
        return record | {"steps": json.loads(says.steps)}
    return record | {"actions": [_json_value(action.describe_action()) for action in says.actions]}


def home_from_json(data: Mapping[str, Any], source: str = "home") -> Home:
    """The home that `data` describes. Raises `InputError`, which names `source` and the place, if it is invalid."""
    refuse_unwritable(data, source)
    return _build_from_record(validate_document(HomeRecord, Document(source, data, {})), source)


def load_home(path: str | Path) -> Home:
    """Read a home file. Raises `InputError` with file and line if anything in it is wrong."""
    return _build_from_record(validate_document(HomeRecord, read_json(path)), str(path))


def save_home(home: Home, path: str | Path) -> None:
    """Write a home file atomically, with each device in full."""
    write_atomic(path, json.dumps(home_to_json(home, whole=True), indent=1, ensure_ascii=False) + "\n")


def _json_value(value: Any) -> Any:
    """The value as JSON returns it, with lists in place of tuples."""
    if isinstance(value, dict):
        return {key: _json_value(part) for key, part in value.items()}
    return [_json_value(part) for part in value] if isinstance(value, tuple) else value


def _build_from_record(record: HomeRecord, source: str) -> Home:
    if record.format != FORMAT:
        raise InputError(f"home format {record.format} is not known", where=source, remedy=f"this version reads {FORMAT}")
    if record.origin is not None and record.origin.format != ORIGIN_FORMAT:
        raise InputError(f"origin format {record.origin.format} is not known", source, f"this version reads {ORIGIN_FORMAT}")
    specs = {spid: _resolve_spec(spid, spec, source) for spid, spec in record.specs.items()}
    rooms = [Room(r.id, r.type, r.name, r.floor, r.parent) for r in record.rooms]
    if any(d.room is None for d in record.devices) and all(room.id != HOME for room in rooms):
        rooms.append(Room(HOME, HOME, HOME))
    by_id = {room.id: room for room in rooms}
    try:
        devices = [_make_device(d, by_id, specs) for d in record.devices]
        if unknown := record.air.keys() - by_id:
            raise ValueError(f"air is given for room '{min(unknown)}', which does not exist")
        state = {OUTDOORS: record.outdoors} | {d.did: d.state for d in record.devices}
        state |= {id: record.air[id].state if id in record.air else MILD for id in by_id}
        biases = [bias for id in by_id if id in record.air and (bias := record.air[id].bias) is not None]
        forecast = [WeatherChange(clock, Outdoors(*weather)) for clock, *weather in record.forecast]
        known = biases if len(biases) == len(by_id) else None
        home = Home.build_home(rooms, devices, state, record.clock, record.entrance, forecast, known, record.origin)
        _resume_rules_and_air(home, record)
    except (ValueError, Refused) as error:
        raise InputError(str(error), where=source, remedy="correct the home file, or make it again") from None
    return home


def _make_device(record: DeviceRecord | PlacedRecord, rooms: Mapping[str, Room], specs: Mapping[str, DeviceSpec]) -> Device:
    room = rooms.get(HOME if record.room is None else record.room)
    if room is None:
        raise ValueError(f"device {record.did} is in room '{record.room}', which does not exist")
    if isinstance(record, DeviceRecord):
        return Device(record.did, record.name, room, record.product_spec())
    if record.spid not in specs:
        raise ValueError(f"device {record.did} has the spid {record.spid}, which is not among the file's specs")
    return Device(record.did, record.name, room, specs[record.spid])


def _resume_rules_and_air(home: Home, record: HomeRecord) -> None:
    """Restore the rules that the home had when it was saved, and its air if time had passed."""
    for rule in record.rules:
        actions = [action.model_dump() for action in rule.actions]
        steps = rule.steps and json.dumps(rule.steps, ensure_ascii=False)
        home.rules = (*home.rules, restore_rule(home, rule.model_dump(exclude={"actions"}) | {"steps": steps}, actions))
    # Hidden rules are made here only to be checked; whoever serves the home adds them.
    ids = [rule.id for rule in (*home.rules, *make_hidden_rules(home))]
    if len(set(ids)) < len(ids):
        raise ValueError("two automations have the same id")
    origin = home.plan.origin
    may_change = origin.change_test(home.plan.devices_by_did) if origin else bool
    for one in origin.unfollowed if origin else ():
        if one.reads != ANY_DEVICE and (unknown := {read for read in one.reads if not may_change(read)}):
            raise ValueError(f"automation {one.id} reads device '{min(unknown)}', which does not exist")
    airs = [record.air[room.id] for room in home.plan.rooms if room.id in record.air]
    moving = [
        (air.since, air.start, air.goal)
        for air in airs
        if air.since is not None and air.start is not None and air.goal is not None
    ]
    if moving and len(moving) < len(home.plan.rooms):
        raise ValueError("`since`, `start` and `goal` of the air are given for some rooms, but not for all")
    changed = max((moment.clock for moment in home.plan.forecast if moment.clock <= home.clock), default=0)
    if moving and min(since for since, _, _ in moving) < changed:
        raise ValueError(f"the weather changed at {changed}, but `since` of some room's air is earlier")
    if moving:
        home.air = [
            restore_air(since, start, goal, bias, room.shell, home.clock)
            for (since, start, goal), room, bias in zip(moving, home.plan.time_wiring.rooms, home.plan.bias)
        ]
        home.air_stale = True  # a device may have changed since; the air's goals will show it


def _resolve_spec(spid: str, spec: str | dict[str, Any], source: str) -> DeviceSpec:
    if isinstance(spec, dict):
        try:
            return spec_from_json(spec)
        except ValueError as error:
            raise InputError(str(error), where=source, remedy="correct the specification") from None
    known = Catalogue.load_shipped().get(spid)
    if known is None or known.content_digest != spec:
        raise InputError(
            f"the catalogue has no product {spid} with digest {spec}",
            where=source,
            remedy="the home was made with another version of the catalogue; make it again",
        )
    return known
