"""Counterfactuals of the present scene: who acted, where, when, with what, whether at all, what was heard and seen.

Invariants: those of `counterfactual_edits.py`; an edit of an event changes all rows of the event alike; the sentence of an
edit names one event only, so nothing is edited that happens twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from homerl.envs.personalhome.tasks.questions.counterfactual_edits import EditRow, Factor, register_editor
from homerl.envs.personalhome.tasks.questions.families import Slots
from homerl.envs.personalhome.tasks.questions.household_tables import TABLES, HouseholdTables, Row
from homerl.envs.personalhome.tasks.questions.question_wording import values_elsewhere
from homerl.envs.personalhome.tasks.questions.scene_families import ACT, ACTOR, THING, ZONE

STEP = 0.5  # seconds, as transcripts have them
EVENTS = tuple(table for table in TABLES if table not in ("scene_things", "scene_looks"))  # tables with a column `event`


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
        yield id, "actor", "scene_actor", slots, edit(lambda one: _rename_in_row(one, act.who, other))
    # The objects of a scene are the things that have a colour. They alone can be moved.
    things = [one["thing"] for one in tables.rows["scene_things"] if one["attribute"] == "colour"]
    if act.what in things and (free := [thing for thing in things if thing not in (act.what, act.at)]):
        thing = rng.choice(free)
        slots = {**told, "what": (THING, act.what), "other": (THING, thing)}
        yield id, "activity", "scene_object", slots, edit(lambda one: _rename_in_row(one, act.what, thing))
    if act.zone is None and (zones := _other_values(tables, "scene_acts", "zone", row["zone"])):
        zone = rng.choice(zones)
        slots = {**told, "zone": (ZONE, row["zone"]), "new": (ZONE, zone)}
        edited = edit(
            lambda one: {**one, "zone": zone, **({"act": replace(one["act"], place=zone)} if "act" in one else {})}
        )
        yield id, "location", "scene_place", slots, edited
    end = max(one["end"] for one in tables.rows["scene_acts"])
    begin = STEP * rng.randrange(int((end + 10) / STEP))
    if begin not in {one["start"] for name in EVENTS for one in tables.rows[name]}:
        slots = {**told, "old": ("number", row["start"]), "new": ("number", begin)}
        later = begin - row["start"]
        edited = edit(lambda one: {**one, "start": one["start"] + later, "end": one["end"] + later})
        yield id, "time", "scene_time", slots, edited
    yield id, "routine", "scene_gone", told, edit(lambda one: None)


def _edit_sound(tables: HouseholdTables, row: Row, rng: random.Random) -> Iterator[EditRow]:
    id, told = row["id"], {"sound": ("scene:sound", row["sound"]), "zone": (ZONE, row["zone"])}

    def edit(changes: Mapping[str, Any] | None) -> HouseholdTables:
        """The tables with the row of the sound changed, or without it. What is done in the same event stays."""

        def change(one: Row) -> Row | None:
            if "sound" not in one:
                return one
            return None if changes is None else {**one, **changes}

        return _change_event(tables, row["event"], change)

    yield id, "environment", "scene_silent", told, edit(None)
    heard = {one["sound"] for one in tables.rows["scene_sounds"]}
    sound = rng.choice([sound for sound in values_elsewhere("scene:sound") if sound not in heard])
    yield id, "environment", "scene_other_sound", {**told, "other": ("scene:sound", sound)}, edit({"sound": sound})
    if zones := _other_values(tables, "scene_acts", "zone", row["zone"]):
        zone = rng.choice(zones)
        yield id, "location", "scene_sound_place", {**told, "new": (ZONE, zone)}, edit({"zone": zone})


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
            factor: Factor = "location" if attribute == "zone" else "value"
            yield row["id"], factor, f"scene_set_{attribute}", slots, tables.with_edited_row(table, row, {"value": new})


def _change_event(tables: HouseholdTables, event: str, change: Callable[[Row], Row | None]) -> HouseholdTables:
    """The tables with the rows of an event changed. `change` gives None for a row that goes."""
    rows = dict(tables.rows)
    for name in EVENTS:
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
