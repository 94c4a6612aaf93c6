"""Between a home and the Home Assistant that it was imported from: calls, states, durations, the clock.

Invariants:
- Nothing here reads or changes anything but its arguments: a home is never changed, a new one is given.
- A text that is no duration is None, and never guessed.
- `from_homeassistant` of what `to_homeassistant` gives is the same call.
- What a state shows of a device, `values_from_state`, are canonical values of the device's attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from homerl.envs.assistant.listing.entity_capabilities import all_service_fields, shipped_service_forms
from homerl.envs.assistant.listing.home_listing import COLOURED, entity_domain, is_number, read_moment
from homerl.envs.assistant.privacy import hide_secret_values
from homerl.envs.homeenv.sim.assist.entities_of_home import DEAD
from homerl.envs.homeenv.sim.assist.value_translation import translation_table
from homerl.envs.homeenv.sim.automation import arm_rule
from homerl.envs.homeenv.sim.devices.attributes_and_services import Argument, Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import AVAILABLE, SAME, Link
from homerl.envs.homeenv.sim.home_state import replace_rooms_by_ids
from homerl.envs.homeenv.sim.rules import HomeRule
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import attributes_in, parse_expression
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, canonical_moment

NUMBER = re.compile(r"-?\d+(\.\d+)?")
DURATION = re.compile(r"(-?)(?:(\d+) days?, )?(\d+):(\d\d)(?::(\d\d)(?:\.\d+)?)?")


def parse_clock_duration(text: str) -> int | None:
    """The seconds of a duration, such as `0:45:00` or `-00:02:00`."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups()[1:])
    total = days * 86400 + hours * 3600 + minutes * 60 + rest
    return -total if match[1] else total


def local_clock(moment: datetime, zone: tzinfo) -> int:
    """A moment as the clock of a home in this zone shows it: local time, in seconds since 1970. `moment` has a zone."""
    return int(moment.astimezone(zone).replace(tzinfo=UTC).timestamp())


STRICT = ("todo",)  # domains whose services refuse what an entity does not have; others ignore it
OPEN = "needs_action"  # the attribute with the open items of a list
COLOURS = ("color_name", *(f"{mode}_color" for mode in COLOURED))  # arguments that are a colour
SWITCHED = {"on": True, "off": False}  # states of an automation; in any other it stays as it was


class ServiceCall(NamedTuple):
    """A call of a service in Home Assistant."""

    domain: str
    service: str
    data: dict[str, Any]
    target: dict[str, Any]


def device_link(home: Home, did: str) -> Link:
    """The names of a device there."""
    return home.plan.origin.link_of_device(did) if home.plan.origin else SAME


def home_zone(home: Home) -> tzinfo:
    """The time zone of a home's clock: that in which it is there."""
    return home.plan.origin.time_zone if home.plan.origin else UTC


def _find_device(home: Home, did: str) -> Device:
    """A device of the home. Raises `Refused` if there is none."""
    if (device := home.plan.devices_by_did.get(did)) is None:
        raise Refused("unknown_device", f"there is no device '{did}'")
    return device


def to_homeassistant(home: Home, did: str, service: str, arguments: Mapping[str, Any]) -> ServiceCall:
    """The call there that a call here stands for. Arguments that are None are not sent. Raises `Refused` as a call would."""
    device = _find_device(home, did)
    if service not in device.spec.service_index:
        raise Refused("unknown_service", f"{device.name} {did} has no service '{service}'")
    link = device_link(home, did)
    domain, _, name = link.services.get(service, f"{entity_domain(did)}.{service}").partition(".")
    named = replace_rooms_by_ids(home.plan, device.spec.service_index[service].service, dict(arguments))
    data = {link.arguments.get(key, key): _as_plain_data(value) for key, value in named.items() if value is not None}
    return ServiceCall(domain, name, data, {"entity_id": did})


def from_homeassistant(home: Home, entity: str, service: str, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The service of ours and its arguments that a call there (`light.turn_on`) stands for. Raises `Refused`.

    `homeassistant.turn_on` is the `turn_on` of the entity's domain. Arguments that Home Assistant would ignore for this
    entity are left out.
    """
    device, ours = _find_service(home, entity, service)
    link = device_link(home, entity)
    mine = {there: here for here, there in link.arguments.items()}
    known = {argument.name: argument for argument in device.spec.service_index[ours].service.arguments}
    ignored = ignored_arguments(home, entity, service)
    given: dict[str, Any] = {}
    for key, value in _with_whole_moment(home, device, data).items():
        # a group that the device does not know as a whole counts by its parts: `media` holds an id and a type
        parts = value if isinstance(value, Mapping) and key not in known else {key: value}
        given |= {mine.get(name, name): part for name, part in parts.items()}
    if "color_temp_kelvin" in known and (colour := next((key for key in given if key in COLOURS and key in ignored), None)):
        raise Refused("unknown_argument", f"{device.name} {entity}: what {colour} does to its white is not known here")
    taken = {key: value for key, value in given.items() if key not in ignored}
    return ours, {key: _as_argument(known.get(key), value, entity_domain(entity)) for key, value in taken.items()}


def _find_service(home: Home, entity: str, service: str) -> tuple[Device, str]:
    """The device that a call there is for, and its service here. Raises `Refused`."""
    device, (domain, _, name) = _find_device(home, entity), service.partition(".")
    full = f"{entity_domain(entity)}.{name}" if domain == "homeassistant" else service
    ours = next((mine for mine, there in device_link(home, entity).services.items() if there == full), name)
    if ours not in device.spec.service_index or entity_domain(full) != entity_domain(entity):
        raise Refused("unknown_service", f"{device.name} {entity} has no service '{service}'")
    return device, ours


def ignored_arguments(home: Home, entity: str, service: str) -> set[str]:
    """The arguments of a service that Home Assistant ignores for an entity, such as `transition`. Raises `Refused`."""
    device, ours = _find_service(home, entity, service)
    domain, _, name = service.partition(".")
    form = {} if domain in STRICT else shipped_service_forms().get(entity_domain(entity), {}).get(name, {})
    known = {argument.name for argument in device.spec.service_index[ours].service.arguments}
    return {field for field, _ in all_service_fields(form)} - known


def _with_whole_moment(home: Home, device: Device, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a helper with a date, a time or both is set to, in the one argument that it takes. Raises `Refused` for none."""
    _, state = device.spec.attribute_index.get("state", (0, None))
    if entity_domain(device.did) != "input_datetime" or state is None or state.format is None or not data:
        return data
    told = {key: str(value) for key, value in data.items()}
    if "timestamp" in told:
        try:
            told["datetime"] = str(datetime.fromtimestamp(float(told["timestamp"]), home_zone(home)))
        except (ValueError, OverflowError, OSError):
            told["datetime"] = ""
    time = canonical_moment("time", told.get("time", ""))
    whole = canonical_moment("datetime", told.get("datetime") or f"{told.get('date')} {time}")
    day, _, clock = (whole or " ").partition(" ")
    parts = {"date": day or told.get("date"), "time": clock or time, "datetime": whole}
    if (value := parts[state.format]) is None:
        raise Refused("missing_argument", f"{device.name} {device.did} shows a {state.format}, and {dict(data)} tells none")
    return {state.format: value}


def _as_argument(argument: Argument | None, value: Any, domain: str) -> Any:
    """The value as the argument has it. Raises `Refused` for a text that is no such time."""
    if argument is None:
        return value
    if argument.type == "str" and is_number(value):
        return str(value)  # Home Assistant makes texts of numbers, and a list of one
    if argument.type == "list" and isinstance(value, str):
        return [value]
    if argument.unit == "second" and isinstance(value, str):
        if NUMBER.fullmatch(value):
            return int(value) if value.isdecimal() else float(value)
        if (duration := parse_clock_duration(value)) is None:
            raise Refused("out_of_range", f"{argument.name} = '{value}' is no duration")
        return duration
    if argument.format and isinstance(value, str):
        return argument.check_value(value, argument.name)
    if argument.type in NUMBERS and isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        value = float(value) if argument.type == "float" or "." in value else int(value)
    rules = translation_table().domains.get(domain)
    clamped = rules and argument.name in rules.clamps and argument.type in NUMBERS
    return argument.nearest_in_range(value) if clamped else value


class AttributeReading(NamedTuple):
    """What a state there shows of an attribute, the value here, and whether that is what is shown."""

    shown: Any
    value: Any
    exact: bool


def values_from_state(device: Device, state: str, attributes: Mapping[str, Any], link: Link = SAME) -> dict[str, Any]:
    """The values of the device's attributes that a state there shows.

    For what is shown but cannot be a value here, null or `unknown` stands, where the attribute may be that. Anything else is
    left out.
    """
    return {path: reading.value for path, reading in readings_from_state(device, state, attributes, link).items()}


def readings_from_state(
    device: Device, state: str, attributes: Mapping[str, Any], link: Link = SAME
) -> dict[str, AttributeReading]:
    """What a state there shows of the device's attributes, by path."""
    found: dict[str, AttributeReading] = {}
    for path, (_, attribute) in device.spec.attribute_index.items():
        if attribute.internal or path == OPEN:  # a list does not say which items are open
            continue
        theirs = link.attributes.get(path, path)
        if path == "state":
            shown: Any = state
        elif path == AVAILABLE and attribute.starts:  # it is no attribute there
            shown = state != "unavailable"
        elif theirs in attributes:
            shown = attributes[theirs]
        elif attribute.nullable:
            shown = None
        else:
            continue
        try:
            found[path] = AttributeReading(shown, attribute.check_value(_as_type(attribute, shown), path), exact=True)
        except Refused:
            # a state without a value stands for what is none here, or null, if the attribute may be that
            dead = next((one for one in (shown, *reversed(DEAD)) if one in (attribute.options or ())), None)
            if dead is not None or attribute.nullable:
                found[path] = AttributeReading(shown, dead, exact=shown in DEAD)
    return found


def seconds_in_state(row: Mapping[str, Any], now: datetime | None) -> int | None:
    """The seconds for which an entity has been in its state, or at least, by its row in a list of states; None if untold."""
    moment = read_moment(row.get("last_changed") or row.get("last_updated"))
    return None if moment is None or now is None else max(0, int((now - datetime.fromisoformat(moment)).total_seconds()))


def refresh_home(home: Home, states: Iterable[Mapping[str, Any]], now: datetime | None = None) -> Home:
    """The home with what these states show: it follows the real one. Entities that it does not have are passed over.

    What an import leaves out is left out here too. `now` (with a zone) is the moment that the clock shows then; without it
    the clock stays. What already holds triggers no automation. An automation is enabled if its own state is `on`.
    """
    fresh = home.fork()
    if now is not None:
        fresh.clock = local_clock(now, home_zone(home))
        fresh.air = None  # it begins anew with the rooms as they are
    enabled: dict[str, bool] = {}
    for row in states:
        if row["state"] in SWITCHED and entity_domain(row["entity_id"]) == "automation":
            enabled[row["entity_id"]] = SWITCHED[row["state"]]
        device = home.plan.devices_by_did.get(row["entity_id"])
        if device is None:
            continue
        state, attributes = hide_secret_values(row["entity_id"], row["state"], row["attributes"])
        shown = values_from_state(device, state, attributes, device_link(home, device.did))
        complete = device.spec.complete_values(_values_to_go_on_with(device, home.state_of(device.did), shown))
        for path, value in complete.items():
            fresh.write_slot(fresh.plan.slot_of(device.did, path), value)
        _write_held_seconds(fresh, device, seconds_in_state(row, now))
    switched = [enabled.get(automation_of_rule(rule), rule.progress.enabled) for rule in fresh.rules]
    fresh.rules = tuple(arm_rule(rule.with_progress(enabled=on), fresh) for rule, on in zip(fresh.rules, switched))
    return fresh


def _write_held_seconds(home: Home, device: Device, since: int | None) -> None:
    """Let the counters of a device show for how long it has been in its state, if that is told."""
    for path, (_, attribute) in device.spec.attribute_index.items():
        if since is not None and attribute.counts and attribute.internal:
            slot = home.plan.slot_of(device.did, path)
            home.write_slot(slot, min(since, attribute.range[1] if attribute.range else since))
            home.write_slot(slot, home.plan.time_wiring.counter_of[slot].value_after(home.values, 0))


def automation_of_rule(rule: HomeRule) -> str:
    """The automation that a rule is of. One with several triggers has several rules: `automation.hall.2` is the second."""
    return ".".join(rule.id.split(".")[:2])


def _values_to_go_on_with(device: Device, old: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """The values from which a device goes on: what is shown, and of its own memory what that does not contradict.

    A memory that starts from what is shown follows it, but a null only if it may be null itself: a light that is off keeps
    its brightness. Any other memory starts anew if the device is not as it was.
    """
    index = device.spec.attribute_index
    differs = any(old[path] != value for path, value in shown.items() if not index[path][1].read_only)
    kept = dict(old)
    for path, (_, attribute) in index.items():
        reads = attributes_in(parse_expression(attribute.starts)) if attribute.internal and attribute.starts else []
        told = [read for read in reads if read in shown]
        if attribute.internal and (
            any((shown[read] is not None or attribute.nullable) and shown[read] != old[read] for read in told)
            if told
            else differs and attribute.starts
        ):
            del kept[path]
    return _with_items(device, kept | dict(shown), shown.get("state"))


def values_to_start_from(device: Device, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The values with which a device begins, from what is shown."""
    fresh = {OPEN: ()} if OPEN in device.spec.attribute_index and OPEN not in shown else {}
    return _with_items(device, fresh | dict(shown), shown.get("state"))


def _with_items(device: Device, values: dict[str, Any], count: Any) -> dict[str, Any]:
    """The values with as many open items as a list says that it has, or with null; it does not say which."""
    if entity_domain(device.did) != "todo" or OPEN not in values:
        return values
    items = values[OPEN] or ()
    if not isinstance(count, int):
        return values | {OPEN: None}
    unknown = tuple(f"item {number}" for number in range(1, count + 1) if f"item {number}" not in items)
    return values | {OPEN: (*items, *unknown)[:count]}


def _as_plain_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_plain_data(part) for key, part in value.items()}
    return [_as_plain_data(part) for part in value] if isinstance(value, tuple) else value


def _as_type(attribute: Attribute, shown: Any) -> Any:
    """What a state shows, as the attribute's type writes it: states of numbers are texts there."""
    kind = attribute.type
    if attribute.name == "color_mode" and shown in COLOURED and "hs" in (attribute.options or ()):
        return "hs"
    if kind in ("int", "float"):
        if attribute.unit == "second" and isinstance(shown, str) and (duration := parse_clock_duration(shown)) is not None:
            return duration
        if shown in DEAD and attribute.nullable:
            return None
        try:
            number = float(shown) if isinstance(shown, str) else shown
        except ValueError:
            return shown
        return int(number) if kind == "int" and isinstance(number, float) and number.is_integer() else number
    if kind == "bool" and isinstance(shown, str):
        return {"on": True, "off": False, "true": True, "false": False}.get(shown.lower(), shown)
    if kind in ("str", "enum") and is_number(shown):
        return str(shown)
    return shown
