"""The work behind `homerl import-ha`: a home from what a Home Assistant says of it, and a report of what was not understood.

Invariants:
- A listing gives one home, the same bytes each time.
- Each selected entity is a device of the home, or is noted with the reason why it is not.
- No secret is in the home, nor where a person is. The token is read from the environment, and is in no file.
- The report has every note; the table for the terminal counts what it does not show. What matters to a person comes first,
  and what is minor is folded.

What becomes what:
- An entity gets, of the products of `homeenv/sim/homeassistant/` that fit, the one that loses least, narrowed to what the
  entity has; else one that is made from its attributes and from the forms of its services. Its name is the entity's, without
  the name of its area. The type of a room is guessed from the area's name, in several languages.
- A device that is out of reach has the state `unavailable`, or `available: false` if its state is a number or a date. A
  missing value is `unknown` or null.
- What a lamp can do follows from its colour modes. A lamp that has whites only takes no colour, and the whites of RGBW lamps
  cannot be set. A brightness, colour temperature or transition beyond a lamp's range becomes the nearest value within it, as
  there. Any other number out of range is refused.
- A thermostat is switched on in the mode that Home Assistant would choose. An alarm panel asks for a code where the real one
  does, and here takes any. A helper with a date and a time is set as a whole.
- Units are those that the entity shows, else those of its home. If nothing tells the home's units, temperatures are in the
  unit of its thermometers if these agree, else in celsius; the report says so.
- An automation is left out if one of its keys is not understood or would mean something else here. Its conditions are
  checked when a trigger fires. A trigger by number whose bound or template reads another entity is judged when its own
  entity changes, as there.
- An update shows its versions as texts, and its state is the one that Home Assistant tells.
- `origin` of the file keeps what else Home Assistant's own agents are told (aliases, floors, the time zone) and, for the
  guard of a served agent alone, all automations. Tasks and prompts have nothing of these.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from homerl.envs.assistant.automations.automation_import import (
    ReadableTexts,
    add_automations,
    script_duration,
    with_automation_texts,
)
from homerl.envs.assistant.automations.held_states import count_held_states, find_held_states
from homerl.envs.assistant.entities_beside import strip_listing_for_guard
from homerl.envs.assistant.listing import listing_files as fixtures
from homerl.envs.assistant.listing.entity_capabilities import Forms
from homerl.envs.assistant.listing.entity_products import bare_product, product_of_entity
from homerl.envs.assistant.listing.home_listing import (
    AREAS,
    BESIDE,
    CONFIG,
    FORMS,
    SCRIPTS,
    STATES,
    ImportNote,
    ListedEntity,
    Listing,
    clean_listing,
    entity_domain,
    with_temperature_unit,
)
from homerl.envs.assistant.listing.home_setup import select_entities
from homerl.envs.assistant.listing.homeassistant_client import (
    HomeAssistantError,
    connect_client,
    read_token,
    with_state_history,
)
from homerl.envs.assistant.listing.homeassistant_mapping import (
    local_clock,
    readings_from_state,
    seconds_in_state,
    values_to_start_from,
)
from homerl.envs.assistant.listing.listing_files import PRIVATE
from homerl.envs.assistant.listing.product_narrowing import temperature_unit
from homerl.envs.assistant.listing.room_and_device_names import (
    name_devices,
    room_id_of_area,
    rooms_from_areas,
    storeys_from_floors,
)
from homerl.envs.core.documents import InputError, write_atomic
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import MILD, REPORT, save_home
from homerl.envs.homeenv.sim.home_plan import Beside, Link, Origin
from homerl.envs.homeenv.sim.values.auditor import Refused

SYSTEM = "homeassistant"
AIR = {"temperature": "temperature_entity_id", "humidity": "humidity_entity_id"}  # an area's own sensors
TRIED = 60  # seconds for which each device is tried
ELSEWHERE = 1767225600  # the clock of a home that tells no time: the beginning of 2026


@dataclass(frozen=True)
class ImportedHome:
    """A home, the listing that it was made from (without what is private), and what was not understood."""

    home: Home
    listing: Listing
    notes: tuple[ImportNote, ...]


def import_home(listing: Listing, everything: bool = False) -> ImportedHome:
    """The home of a listing: of the entities exposed to Assist, or of every one. Raises `InputError` if there are none."""
    listing, notes = clean_listing(listing)
    chosen = select_entities(listing, everything)
    if not chosen:
        remedy = "expose entities (Settings, Voice assistants, Expose), or import all with --all"
        raise InputError("no entity is exposed to Assist", where="Home Assistant", remedy=remedy)
    kept = [entity.entity_id for entity in chosen]
    listing = strip_listing_for_guard(listing, kept)
    measuring_in, unsaid = with_temperature_unit(listing)
    notes += unsaid
    entities = select_entities(measuring_in, everything=True)
    rooms = rooms_from_areas(listing)
    names = name_devices(entities, {area.area_id: area for area in listing.areas})
    air = {room_id_of_area(area["area_id"]): _measuring_entities(area, entities) for area in listing.sources[AREAS]}
    measuring = {one.entity_id for found in air.values() for one in found.values()}
    devices: list[Device] = []
    links: dict[str, Link] = {}
    state: dict[str, Mapping[str, Any]] = {OUTDOORS: MILD}
    by_area = {area.area_id: room for area, room in zip(listing.areas, rooms)}
    elsewhere = Room(HOME, HOME, HOME)
    if any(entity.area_id not in by_area for entity in entities):
        rooms = (*rooms, elsewhere)
    for entity in entities:
        name, room = names[entity.entity_id], by_area.get(entity.area_id or "", elsewhere)
        if (text := listing.sources.get(SCRIPTS, {}).get(entity.entity_id)) is not None:
            entity = entity.model_copy(update={"lasts": script_duration(text)})
        measures = entity.entity_id in measuring
        device, link, values, more = _make_device(entity, name, room, listing.sources[FORMS], measures)
        devices.append(device)
        whole = link if device.name == entity.name else link.model_copy(update={"name": entity.name})
        links[entity.entity_id], state[entity.entity_id] = whole, values
        notes += more
    for room in rooms:
        told = {quantity: _measured_air(one, quantity) for quantity, one in air.get(room.id, {}).items()}
        state[room.id] = MILD | told
    zone = listing.sources[CONFIG].get("time_zone")
    known = zone is None or getattr(Origin(system=SYSTEM, version="", zone=zone).time_zone, "key", None) == zone
    if not known:
        why = f"this machine does not know the time zone '{zone}', so the clock shows UTC"
        notes.append(ImportNote("", "time_zone", why))
    aliases = {by_area[area.area_id].id: area.aliases for area in listing.areas if area.aliases}
    origin = Origin(
        system=SYSTEM,
        version=listing.version,
        zone=zone if known else None,
        devices={did: link for did, link in links.items() if link != Link()},
        rooms=aliases,
        storeys=storeys_from_floors(listing),
        beside={entity: Beside(**told) for entity, told in listing.sources.get(BESIDE, {}).items()},
    )
    times = [row["last_updated"] for row in listing.sources[STATES] if row.get("last_updated")]
    newest = max(map(datetime.fromisoformat, times), default=None)
    clock = local_clock(newest, origin.time_zone) if newest else ELSEWHERE
    texts = ReadableTexts.of_listing(listing)
    held = find_held_states([*texts.automations.values(), *texts.scripts.values()])
    since = {row["entity_id"]: seconds_in_state(row, newest) for row in listing.sources[STATES]}
    for place, device in enumerate(devices):
        if device.did in held:
            devices[place], values = count_held_states(device, held[device.did], since.get(device.did) or 0)
            state[device.did] = {**state[device.did], **values}
    home = Home.build_home(rooms, devices, state, clock, origin=origin)
    notes += add_automations(home, listing, texts)
    return ImportedHome(home, listing, tuple(notes))


def _make_device(
    entity: ListedEntity, name: str, room: Room, forms: Forms, measures: bool
) -> tuple[Device, Link, dict[str, Any], list[ImportNote]]:
    """The device of an entity, with its names there, its values, and what was not understood.

    It is of the first product that works: that of its domain, a generic one, or its bare state.
    """
    failed: list[ImportNote] = []
    makers = (
        partial(product_of_entity, entity, forms, measures),
        partial(product_of_entity, entity, forms, measures, generic=True),
        partial(bare_product, entity),
    )
    for make in makers:
        try:
            spec, link, notes = make()
            device = Device(entity.entity_id, name, room, spec)
            values = _values_to_begin_with(device, entity, link, notes)
            # it is tried for a while in a home of its own
            state = {OUTDOORS: MILD, room.id: MILD, device.did: values}
            Home.build_home((room,), (device,), state, ELSEWHERE).advance(TRIED)
            return device, link, values, [*failed, *notes]
        except Exception as error:  # whatever one entity says, the others are imported
            if len(failed) == 2:
                raise
            why = f"it cannot be made of what the entity says, so a plainer one stands for it ({error})"
            failed.append(ImportNote(entity.entity_id, "product", why))
    raise AssertionError("the last product is made or raises")


def _values_to_begin_with(device: Device, entity: ListedEntity, link: Link, notes: list[ImportNote]) -> dict[str, Any]:
    """The values of a device: what its state shows, how the rest starts, and the least possible where neither is told."""
    readings = readings_from_state(device, entity.state, entity.attributes, link)
    values = device.spec.complete_values(
        values_to_start_from(device, {path: reading.value for path, reading in readings.items()})
    )
    for path, reading in readings.items():
        if not reading.exact:
            why = f"its value {reading.shown!r} does not fit; here it begins as {reading.value!r}"
            notes.append(ImportNote(entity.entity_id, f"attribute {link.attributes.get(path, path)}", why, minor=True))
    for path, (_, attribute) in device.spec.attribute_index.items():
        if path in values:
            continue
        low = attribute.range[0] if attribute.range else 0
        plain = {"bool": False, "int": int(low), "float": low, "str": "x" * int(low), "hex": "#000000", "list": ()}
        first = attribute.options[0] if attribute.options else plain.get(attribute.type)
        values[path] = default = None if attribute.nullable else first
        if not attribute.internal:
            theirs = link.attributes.get(path, path)
            now = entity.state if path == "state" else entity.attributes.get(theirs)
            why = f"its value {now!r} does not fit" if now is not None else "it has no value now"
            why = f"{why}; here it begins as {default!r}"
            notes.append(ImportNote(entity.entity_id, f"attribute {theirs}", why, minor=True))
    return values


def _measuring_entities(area: Mapping[str, Any], entities: tuple[ListedEntity, ...]) -> dict[str, ListedEntity]:
    """By quantity, the entity that tells the air of an area: its owner's choice, else the first sensor, else a device."""
    inside = [entity for entity in entities if entity.area_id == area["area_id"]]
    found: dict[str, ListedEntity] = {}
    for quantity, key in AIR.items():
        chosen = [entity for entity in entities if entity.entity_id == area.get(key)]
        alike = [entity for entity in inside if entity.attributes.get("device_class") == quantity]
        sensors = [entity for entity in alike if entity.domain == "sensor"]
        others = [entity for entity in inside if f"current_{quantity}" in entity.attributes]
        candidates = (one for one in (*chosen, *sensors, *others) if _measured_air(one, quantity) is not None)
        if (entity := next(candidates, None)) is not None:
            found[quantity] = entity
    return found


def _measured_air(entity: ListedEntity, quantity: str) -> float | None:
    """What an entity says of the air, in the units of rooms; None if that is no air of a room."""
    told = entity.attributes.get(f"current_{quantity}", entity.state)
    unit = entity.attributes.get("unit_of_measurement") or temperature_unit(entity)
    try:
        value = float(told)
        value = (value - 32) / 1.8 if quantity == "temperature" and unit == "°F" else value
        checked: float = ROOM_STATE[quantity].check_value(value)
    except (TypeError, ValueError, OverflowError, Refused):
        return None
    return checked


MOST = 20  # rows of the table
SHOWN = 3  # entities, or minor parts, that a row names
WEIGHT = {"automation": 1, "attribute": 2, "service": 3}  # of a part, by its first word; the rest comes first


def import_report_path(home: Path) -> Path:
    """The file beside a home file: `home.import.json` of `home.json`."""
    return home.with_suffix(REPORT)


def write_import_report(imported: ImportedHome, path: Path) -> None:
    """Write everything that was not understood, with what was imported in numbers."""
    write_atomic(path, json.dumps(build_import_report(imported), indent=1, ensure_ascii=False) + "\n", PRIVATE)


def build_import_report(imported: ImportedHome) -> dict[str, Any]:
    """The figures of an import, and every note."""
    plan = imported.home.plan
    domains = Counter(entity_domain(device.did) for device in plan.devices)
    return {
        "homeassistant": imported.listing.version,
        "rooms": len(plan.rooms),
        "devices": dict(sorted(domains.items())),
        "automations": len(imported.home.rules),
        "automations_for_the_guard_alone": len(plan.origin.hidden) if plan.origin else 0,
        "not_understood": [_note_as_json(note) for note in sorted(imported.notes, key=_note_weight) if not note.minor],
        "minor": [_note_as_json(note) for note in imported.notes if note.minor],
    }


def _note_as_json(note: ImportNote) -> dict[str, str]:
    return {"entity": note.entity, "part": note.part, "why": note.why}


def _note_weight(note: ImportNote) -> int:
    """How late a note is told: what matters most to a person is told first."""
    return WEIGHT.get(note.part.partition(" ")[0], 0)


def import_notes_table(imported: ImportedHome) -> Table:
    """The notes, those of the same part and reason in one row, and all that is minor in one."""
    alike: dict[tuple[str, str], list[ImportNote]] = defaultdict(list)
    for note in imported.notes:
        if not note.minor:
            alike[note.part, note.why].append(note)
    parts_column, ids_column = (Column(title, overflow="fold") for title in ("what", "entities"))  # a long name is not cut
    made = Table(parts_column, "why", ids_column, title="not understood")
    rows = sorted(alike.items(), key=lambda item: (_note_weight(item[1][0]), -len(item[1])))
    for (part, why), notes in rows[:MOST]:
        made.add_row(part, why, _list_some([note.entity for note in notes]))
    if len(rows) > MOST:
        made.add_row("...", f"{len(rows) - MOST} more rows are in the file", "")
    minor = [note for note in imported.notes if note.minor]
    if minor:
        parts = [f"{part.partition(' ')[2]} {count}" for part, count in Counter(note.part for note in minor).most_common()]
        what = f"{len(minor)} details, such as values that are not told now"
        made.add_row("minor", what, _list_some(parts))
    return made


def _list_some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


ADDRESS = ("http://", "https://")


def fetch_listing(source: str, variable: str) -> Listing:
    """The listing of a Home Assistant at an address, or of a folder of its files. Raises `InputError`."""
    if not source.startswith(ADDRESS):
        return fixtures.load_listing(Path(source))
    try:
        return asyncio.run(_ask_home(source, variable))
    except HomeAssistantError as error:
        raise InputError(str(error), where=source) from None


async def _ask_home(url: str, variable: str) -> Listing:
    async with connect_client(url, read_token(variable)) as client:
        return await with_state_history(client, await with_automation_texts(client, await client.read_listing()))


def import_home_to_file(source: str, out: Path, variable: str, everything: bool, save: Path | None) -> ImportedHome:
    """Import a home, and write its file, the report beside it, and the listing if a folder is given to save it."""
    imported = import_home(fetch_listing(source, variable), everything)
    if save is not None:
        fixtures.save_listing(imported.listing, save)
    write_import_report(imported, import_report_path(out))
    save_home(imported.home, out)
    return imported
