"""Counterfactuals: one factor of a household is changed, and the program runs again (PersonalHomeBench 3.2, I.2).

Some edits name what they make true. Others make somebody to be as somebody else, something stand where something else does,
or something happen years later: who is asked must look up another row or an old value, and work the new one out. In the
present scene they change who acted, where, when, with what, whether at all, what was heard and seen.

Invariants:
- An edit changes one factor, and nothing that does not exist comes into being. Whether the answer changes is computed.
- An edit is no counterfactual if it leaves no single answer, or if everything else that agents are told would change it.
- `reads` of an edit are the rows from which its sentence takes values.
- An edit of an event of the scene changes all its rows alike. Its sentence names one event, so nothing is edited that
  happens twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from homerl.envs.personalhome.sim.household import same_day_in_year
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary
from homerl.envs.personalhome.tasks.questions.families import (
    ACT,
    ACTOR,
    DONE,
    THING,
    ZONE,
    Deed,
    Slots,
    has_number,
    key_group,
    object_column,
)
from homerl.envs.personalhome.tasks.questions.question_programs import (
    TABLES,
    Expression,
    HouseholdTables,
    NoAnswer,
    Row,
    run_settled,
    values_elsewhere,
)

SHIFTS = (-40, -15, -6, 6, 15, 40)  # days by which a memory is moved
YEARS = (2, 3, 4)
STEPS = (1, 2, 3, 5, 10)  # by which a number is higher or lower
SHARES = (0.1, 0.2, 0.3)  # the same for a share


@dataclass(frozen=True)
class FactorEdit:
    """A change of one factor. `frame` names its sentence, `slots` what it names; `tables` is the other household.

    `reads` are the ids of rows from which the sentence takes values that it does not name.
    """

    frame: str
    slots: Slots
    tables: HouseholdTables
    reads: tuple[str, ...] = ()


# The id of the row that is changed, and the fields of a `FactorEdit`.
EditRow = tuple[str, str, Slots, HouseholdTables] | tuple[str, str, Slots, HouseholdTables, tuple[str, ...]]
Editor = Callable[[HouseholdTables, random.Random], Iterator[EditRow]]
EDITORS: list[Editor] = []


def register_editor(function: Editor) -> Editor:
    """Register a function that yields the id of a row and the fields of an edit.

    Example:
        @register_editor
        def rename_edits(tables, rng):
            for row in tables.rows["pets"]:
                edited = tables.with_edited_rows("pets", row["id"], {"age": 3})
                yield row["id"], "pet_age", {"pet": ("pet", row["pet"]), "new": ("number", 3)}, edited
    """
    EDITORS.append(function)
    return function


def draw_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[tuple[str, FactorEdit]]:
    """Edits of everything in a household, each with the id of the row that it changes."""
    for edits_of in EDITORS:
        for id, frame, slots, *rest in edits_of(tables, rng):
            yield id, FactorEdit(frame, slots, *rest)


Say = Callable[[FactorEdit, Any], tuple[str, bool]]  # an assumption in words, and whether these state an answer


@dataclass(frozen=True)
class Counterfactual:
    """An edit in words, and the answer in the household that it makes.

    `stated` tells whether the words name the answer, so that no question is left.
    """

    edit: FactorEdit
    answer: Any
    changed: bool
    condition: str
    stated: bool


def find_counterfactual_pair(
    program: Expression, tables: HouseholdTables, say: Say, rng: random.Random
) -> tuple[Counterfactual, Counterfactual] | None:
    """One counterfactual that changes the answer and one that does not; None if there is no such pair.

    Those that do not state their answer are preferred, and of these the near ones, which edit a table that the program
    reads.
    """
    base = program.run_on(tables)
    near = {id.partition(":")[0] for id in base.evidence}
    drawn = list(draw_edits(tables, rng))
    rng.shuffle(drawn)
    drawn.sort(key=lambda pair: pair[0].partition(":")[0] not in near)  # stable: near ones first, in drawn order
    outcomes: dict[bool, Counterfactual] = {}
    for _, edit in drawn:
        try:
            answer = run_settled(program, edit.tables).value
        except NoAnswer:
            continue
        changed = answer != base.value
        kept = outcomes.get(changed)
        if kept is None or kept.stated:
            found = Counterfactual(edit, answer, changed, *say(edit, answer))
            # An assumption that states its answer leaves no question. It is kept only until a better one is found.
            outcomes[changed] = found if kept is None or not found.stated else kept
        if len(outcomes) == 2 and not any(one.stated for one in outcomes.values()):
            break
    return (outcomes[True], outcomes[False]) if len(outcomes) == 2 else None


@register_editor
def memory_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """Somebody did something on another day, somebody else did it, it was something else, took longer, or never was."""
    for row in tables.rows["memories"]:
        id, kind, who = row["id"], row["kind"], row["who"]
        column = object_column(kind)
        if kind not in DONE or not who or not row[column]:
            continue
        told: Slots = {"who": ("person", who), "deed": ("deed", Deed(kind, row[column])), "old": ("date", row["date"])}
        moved = row["time"] + timedelta(days=rng.choice(SHIFTS))
        if moved < tables.now - timedelta(days=1):
            edited = tables.with_edited_rows("memories", id, {"time": moved, "date": moved.date()})
            yield id, "memory_time", {**told, "new": ("date", moved.date())}, edited
        if others := [one["who"] for one in tables.rows["members"] if one["who"] != who]:
            other = rng.choice(others)
            edited = tables.with_edited_rows("memories", id, {"who": other})
            yield id, "memory_actor", {**told, "other": ("person", other)}, edited
        if column == "appliance":
            owned = [one["appliance"] for one in tables.rows["appliances"]]
            replaced = [appliance for appliance in owned if appliance != row["appliance"]]
        else:
            replaced = [key for key in load_vocabulary().group_keys(key_group(f"what:{kind}")) if key != row["what"]]
        if replaced:
            key = rng.choice(replaced)
            edited = tables.with_edited_rows("memories", id, {column: key})
            yield id, "memory_object", {**told, "other_deed": ("deed", Deed(kind, key))}, edited
        if row["value"] is not None:
            new = row["value"] + rng.choice((1, 2, 3))
            slots: Slots = {**told, "value": ("number", row["value"]), "new": ("number", new)}
            yield id, "memory_amount", slots, tables.with_edited_rows("memories", id, {"value": new})
        yield id, "memory_gone", told, tables.with_edited_rows("memories", id, None)


@register_editor
def event_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """An event had somebody else in it, or was in another room, or at another time."""
    people = [row["who"] for row in tables.rows["members"]]
    rooms = list(dict.fromkeys(row["room"] for row in tables.rows["appliances"]))
    for row in tables.rows["events"]:
        id, old = row["id"], ("moment", row["time"])
        if row["who"] and len(people) > 1:
            other = rng.choice([one for one in people if one != row["who"]])
            slots: Slots = {"old": old, "who": ("person", row["who"]), "other": ("person", other)}
            yield id, "event_actor", slots, tables.with_edited_rows("events", id, {"who": other})
        if row["room"] and (elsewhere := [room for room in rooms if room != row["room"]]):
            new = rng.choice(elsewhere)
            slots = {"old": old, "room": ("room", row["room"]), "new": ("room", new)}
            yield id, "event_room", slots, tables.with_edited_rows("events", id, {"room": new})
        moved = row["time"] - timedelta(hours=rng.choice((1, 2, 3, 5)))
        edited = tables.with_edited_rows("events", id, {"time": moved, "date": moved.date()})
        yield id, "event_time", {"old": old, "new": ("moment", moved)}, edited


@register_editor
def people_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """Another occupation, one hobby less, another date of a life, an older pet; or everybody is some years older."""
    for row in tables.rows["members"]:
        new = rng.choice([key for key in load_vocabulary().group_keys("occupations") if key != row["occupation"]])
        slots: Slots = {"who": ("person", row["who"]), "new": ("occupations", new)}
        edited = tables.with_edited_rows("members", row["id"], {"occupation": new})
        yield row["id"], "member_occupation", slots, edited
    for row in tables.rows["hobbies"]:
        slots = {"who": ("person", row["who"]), "what": ("hobbies", row["hobby"])}
        yield row["id"], "member_hobby", slots, tables.with_edited_row("hobbies", row, None)
    for row in tables.rows["life"]:
        moved = row["date"] - timedelta(days=rng.choice((400, 800, 1500)))
        slots = {"who": ("person", row["who"]), "what": ("life_events", row["kind"])}
        slots |= {"old": ("date", row["date"]), "new": ("date", moved)}
        yield row["id"], "life_date", slots, tables.with_edited_row("life", row, {"date": moved})
    for row in tables.rows["pets"]:
        age = row["age"] + rng.choice((1, 2))
        slots = {"pet": ("pet", row["pet"]), "new": ("number", age)}
        yield row["id"], "pet_age", slots, tables.with_edited_rows("pets", row["id"], {"age": age})
    years = rng.choice(YEARS)
    # The ids name no row. Their tables make the edit a near one for programs that read ages.
    for id in ("member:all", "pet:all"):
        yield id, "years_later", {"years": ("number", years)}, tables.years_later(years)


@register_editor
def device_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """A device in another room, another number of an appliance, or a sensor that is broken."""
    rooms = list(dict.fromkeys(row["room"] for row in tables.rows["appliances"]))
    for table, name in (("appliances", "appliance"), ("sensors", "sensor")):
        for row in tables.rows[table]:
            if elsewhere := [room for room in rooms if room != row["room"]]:
                new = rng.choice(elsewhere)
                edited = tables.with_edited_rows(table, row["id"], {"room": new})
                yield row["id"], f"{name}_room", {name: (name, row[name]), "new": ("room", new)}, edited
    for row in tables.rows["states"]:
        if has_number(row):
            value = round(row["value"] + rng.choice((-2, -1, 1, 2)), 2)
            low, high = row["range"] or (0, value)
            if low <= value <= high:
                slots: Slots = {"appliance": ("appliance", row["appliance"]), "attribute": ("attribute", row["attribute"])}
                edited = tables.with_edited_row("states", row, {"value": value})
                yield row["id"], "state_value", {**slots, "new": ("number", value)}, edited
    for row in tables.rows["sensors"]:
        # Without the sensor there are no readings of it, and no events that it noticed.
        lost = [one["id"] for one in tables.rows["events"] if one["sensor"] == row["sensor"]]
        edited = tables.with_edited_rows("readings", f"state:{row['sensor']}", None)
        for id in lost:
            edited = edited.with_edited_rows("events", id, None)
        id = next(iter(lost), row["id"])
        yield id, "sensor_fault", {"sensor": ("sensor", row["sensor"])}, edited


@register_editor
def weather_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """Another value that is possible: a share stays a share, and only temperatures fall below 0."""
    for row in tables.rows["weather"]:
        steps = (-0.3, -0.2, 0.2, 0.3) if row["quantity"] == "sunny" else (-3, -2, 2, 3)
        values = [round(row["value"] + step, 2) for step in steps]
        least, most = _weather_range(row["quantity"])
        new = float(rng.choice([value for value in values if least <= value <= most]))
        slots: Slots = {"quantity": ("weather", (row["side"], row["quantity"])), "new": ("number", new)}
        yield row["id"], "weather_value", slots, tables.with_edited_row("weather", row, {"value": new})


def _weather_range(quantity: str) -> tuple[float, float]:
    """The least and the most that is possible."""
    least = -100.0 if quantity == "temperature" else 0.0
    return least, {"sunny": 1.0, "humidity": 100.0, "odor": 5.0}.get(quantity, float("inf"))


# Edits that do not name what they make true


@register_editor
def swap_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """Somebody has another's occupation, or a device stands where another does; or the two have changed places."""
    yield from _copy_and_swap(tables, "members", "who", "occupation", rng)
    yield from _copy_and_swap(tables, "appliances", "appliance", "room", rng)
    yield from _copy_and_swap(tables, "sensors", "sensor", "room", rng)


def _copy_and_swap(tables: HouseholdTables, table: str, name: str, column: str, rng: random.Random) -> Iterator[EditRow]:
    """Edits that give a row the value of another one, or two rows each other's. A sensor may join an appliance."""
    kind, frame = ("person", "member_occupation") if name == "who" else (name, f"{name}_room")
    for row in tables.rows[table]:
        id, slot = row["id"], (kind, row[name])
        # A swap of equal values would change nothing.
        others = [one for one in tables.rows[table] if one[column] != row[column]]
        beside = others
        if name == "sensor" and not others:
            beside = [one for one in tables.rows["appliances"] if one[column] != row[column]]
        if beside:
            other = rng.choice(beside)
            other_slot = (kind, other[name]) if name in other else ("appliance", other["appliance"])
            edited = tables.with_edited_rows(table, id, {column: other[column]})
            yield id, f"{frame}_of", {name: slot, "other": other_slot}, edited, (other["id"],)
        if others:
            other = rng.choice(others)
            edited = tables.with_edited_rows(table, id, {column: other[column]})
            edited = edited.with_edited_rows(table, other["id"], {column: row[column]})
            slots = {name: slot, "other": (kind, other[name])}
            yield id, f"{frame}_swapped", slots, edited, (id, other["id"])


@register_editor
def shift_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """An event of a life lies some years earlier or later; a state or the weather is higher or lower."""
    once = Counter((row["who"], row["kind"]) for row in tables.rows["life"])
    for row in tables.rows["life"]:
        years, day = rng.choice(YEARS), row["date"]
        slots: Slots = {"who": ("person", row["who"]), "what": ("life_events", row["kind"]), "years": ("number", years)}
        for name, year in (("earlier", day.year - years), ("later", day.year + years)):
            moved = same_day_in_year(day, year)
            if once[row["who"], row["kind"]] == 1 and moved < tables.now.date():
                yield row["id"], f"life_{name}", slots, tables.with_edited_row("life", row, {"date": moved})
    for row in tables.rows["states"]:
        if has_number(row):
            slots = {"appliance": ("appliance", row["appliance"]), "attribute": ("attribute", row["attribute"])}
            yield from _shift_number(tables, "states", row, STEPS, row["range"] or (0, float("inf")), slots, rng)
    for row in tables.rows["weather"]:
        steps = SHARES if row["quantity"] == "sunny" else STEPS[:3]
        slots = {"quantity": ("weather", (row["side"], row["quantity"]))}
        yield from _shift_number(tables, "weather", row, steps, _weather_range(row["quantity"]), slots, rng)


def _shift_number(
    tables: HouseholdTables,
    table: str,
    row: Row,
    steps: Sequence[float],
    bounds: tuple[float, float],
    slots: Slots,
    rng: random.Random,
) -> Iterator[EditRow]:
    """A number that is higher, and one that is lower, as far as its bounds allow."""
    for name, sign in (("higher", 1), ("lower", -1)):
        fitting = [step for step in steps if bounds[0] <= round(row["value"] + sign * step, 2) <= bounds[1]]
        if fitting:
            step = rng.choice(fitting)
            edited = tables.with_edited_row(table, row, {"value": round(row["value"] + sign * step, 2)})
            frame = f"{'weather' if table == 'weather' else 'state'}_{name}"
            yield row["id"], frame, {**slots, "step": ("number", step)}, edited


HALF_SECOND = 0.5  # seconds, as transcripts have them
EVENT_TABLES = tuple(
    table for table in TABLES if table not in ("scene_things", "scene_looks")
)  # tables with a column `event`


@register_editor
def present_scene_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """Edits of everything in a scene, each with the id of the row that it changes."""
    often = Counter(row["act"] for row in tables.rows["scene_acts"])
    for row in tables.rows["scene_acts"]:
        if often[row["act"]] == 1:
            yield from _edit_act(tables, row, rng)
    heard = Counter((row["sound"], row["zone"]) for row in tables.rows["scene_sounds"])
    for row in tables.rows["scene_sounds"]:
        if heard[row["sound"], row["zone"]] == 1:
            yield from _edit_sound(tables, row, rng)
    yield from _edit_setting(tables, rng)


def _edit_act(tables: HouseholdTables, row: Row, rng: random.Random) -> Iterator[EditRow]:
    id, act = row["id"], row["act"]
    told: Slots = {"act": (ACT, act)}

    def edit(change: Callable[[Row], Row | None]) -> HouseholdTables:
        return _change_event(tables, row["event"], change)

    if others := _other_values(tables, "scene_looks", "who", act.who):
        other = rng.choice(others)
        slots: Slots = {**told, "who": (ACTOR, act.who), "other": (ACTOR, other)}
        yield id, "scene_actor", slots, edit(lambda one: _rename_in_row(one, act.who, other))
    # The objects of a scene are the things that have a colour. They alone can be moved.
    things = [one["thing"] for one in tables.rows["scene_things"] if one["attribute"] == "colour"]
    if act.what in things and (free := [thing for thing in things if thing not in (act.what, act.at)]):
        thing = rng.choice(free)
        slots = {**told, "what": (THING, act.what), "other": (THING, thing)}
        yield id, "scene_object", slots, edit(lambda one: _rename_in_row(one, act.what, thing))
    if act.zone is None and (zones := _other_values(tables, "scene_acts", "zone", row["zone"])):
        zone = rng.choice(zones)
        slots = {**told, "zone": (ZONE, row["zone"]), "new": (ZONE, zone)}
        edited = edit(
            lambda one: {**one, "zone": zone, **({"act": replace(one["act"], place=zone)} if "act" in one else {})}
        )
        yield id, "scene_place", slots, edited
    end = max(one["end"] for one in tables.rows["scene_acts"])
    begin = HALF_SECOND * rng.randrange(int((end + 10) / HALF_SECOND))
    if begin not in {one["start"] for name in EVENT_TABLES for one in tables.rows[name]}:
        slots = {**told, "old": ("number", row["start"]), "new": ("number", begin)}
        later = begin - row["start"]
        edited = edit(lambda one: {**one, "start": one["start"] + later, "end": one["end"] + later})
        yield id, "scene_time", slots, edited
    yield id, "scene_gone", told, edit(lambda one: None)


def _edit_sound(tables: HouseholdTables, row: Row, rng: random.Random) -> Iterator[EditRow]:
    id, told = row["id"], {"sound": ("scene:sound", row["sound"]), "zone": (ZONE, row["zone"])}

    def edit(changes: Mapping[str, Any] | None) -> HouseholdTables:
        """The tables with the row of the sound changed, or without it. What is done in the same event stays."""

        def change(one: Row) -> Row | None:
            if "sound" not in one:
                return one
            return None if changes is None else {**one, **changes}

        return _change_event(tables, row["event"], change)

    yield id, "scene_silent", told, edit(None)
    heard = {one["sound"] for one in tables.rows["scene_sounds"]}
    sound = rng.choice([sound for sound in values_elsewhere("scene:sound") if sound not in heard])
    yield id, "scene_other_sound", {**told, "other": ("scene:sound", sound)}, edit({"sound": sound})
    if zones := _other_values(tables, "scene_acts", "zone", row["zone"]):
        zone = rng.choice(zones)
        yield id, "scene_sound_place", {**told, "new": (ZONE, zone)}, edit({"zone": zone})


def _edit_setting(tables: HouseholdTables, rng: random.Random) -> Iterator[EditRow]:
    """Edits of what people look like, and of what is around them."""
    zones = list(dict.fromkeys(row["zone"] for row in tables.rows["scene_acts"]))
    for table, owner, kind in (("scene_looks", "who", ACTOR), ("scene_things", "thing", THING)):
        for row in tables.rows[table]:
            attribute, old = row["attribute"], row["value"]
            value = ZONE if attribute == "zone" else f"scene:look:{attribute}"
            pool: Sequence[str] = zones if attribute == "zone" else values_elsewhere(value)
            others = [one for one in pool if one != old]
            if attribute in ("colour", "position") or not others:  # captions call a thing by its colour
                continue
            new = rng.choice(others)
            slots: Slots = {"old": (value, old), "new": (value, new)}
            if attribute != "light":
                slots = {**slots, "what": (kind, row[owner])}
            yield row["id"], f"scene_set_{attribute}", slots, tables.with_edited_row(table, row, {"value": new})


def _change_event(tables: HouseholdTables, event: str, change: Callable[[Row], Row | None]) -> HouseholdTables:
    """The tables with the rows of an event changed. `change` gives None for a row that goes."""
    rows = dict(tables.rows)
    for name in EVENT_TABLES:
        changed = (change(row) if row["event"] == event else row for row in rows[name])
        rows[name] = tuple(row for row in changed if row is not None)
    return replace(tables, rows=rows)


def _rename_in_row(row: Row, old: str, new: str) -> Row:
    """The row with somebody or something else in all places of one."""
    if "act" in row:
        named = {name: new for name in ("who", "what", "at") if getattr(row["act"], name) == old}
        return {**row, **named, "act": replace(row["act"], **named)}
    return {name: new if value == old and name in ("thing", "value") else value for name, value in row.items()}


def _other_values(tables: HouseholdTables, table: str, column: str, value: str | None) -> list[str]:
    """The other values of a column; none for a value that is missing."""
    found = dict.fromkeys(row[column] for row in tables.rows[table])
    return [one for one in found if one != value and one is not None] if value else []
