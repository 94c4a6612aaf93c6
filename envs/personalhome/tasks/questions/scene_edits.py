"""Counterfactuals of the present scene: who acted, where, when, with what, whether at all, what was heard and seen.

Invariants: those of `edits.py`; an edit of an event changes all rows of the event alike; the sentence of an edit names one
event only, so nothing is edited that happens twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from homerl.envs.personalhome.tasks.questions.counterfactual_edits import Factor, FactorEdit, register_editor
from homerl.envs.personalhome.tasks.questions.families import QuestionSlot
from homerl.envs.personalhome.tasks.questions.household_tables import TABLES, HouseholdTables, Row, SceneAct
from homerl.envs.personalhome.tasks.questions.question_wording import values_elsewhere
from homerl.envs.personalhome.tasks.questions.scene_families import act_slot

STEP = 0.5  # seconds, as transcripts have them
EVENTS = tuple(table for table in TABLES if table not in ("scene_things", "scene_looks"))  # tables with a column `event`
Change = Callable[[Row], Mapping[str, Any] | None]  # what becomes of a row; None removes it


@register_editor
def present_scene_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[tuple[str, FactorEdit]]:
    """Edits of everything in a scene, each with the id of the row that it changes."""
    often = Counter(row["act"] for row in tables.rows["scene_acts"])
    for row in tables.rows["scene_acts"]:
        if often[row["act"]] == 1:
            yield from ((row["id"], edit) for edit in _of_act(tables, row, rng))
    heard = Counter((row["sound"], row["zone"]) for row in tables.rows["scene_sounds"])
    for row in tables.rows["scene_sounds"]:
        if heard[row["sound"], row["zone"]] == 1:
            yield from ((row["id"], edit) for edit in _of_sound(tables, row, rng))
    yield from _of_setting(tables, rng)


def _of_act(tables: HouseholdTables, row: Row, rng: random.Random) -> Iterator[FactorEdit]:
    act, event = row["act"], row["event"]
    told = {"act": act_slot(act)}

    def edit(factor: Factor, frame: str, change: Change, **slots: QuestionSlot) -> FactorEdit:
        return FactorEdit(factor, f"scene_{frame}", {**told, **slots}, _changed(tables, event, change))

    if others := _others(tables, "scene_looks", "who", act.who):
        other = rng.choice(others)
        slots = {"who": QuestionSlot("scene:actor", act.who), "other": QuestionSlot("scene:actor", other)}
        yield edit("actor", "actor", lambda one: _renamed(one, act.who, other), **slots)
    things = _movable(tables)
    if act.what in things and (free := [thing for thing in things if thing not in (act.what, act.at)]):
        new = rng.choice(free)
        slots = {"what": QuestionSlot("scene:thing", act.what), "other": QuestionSlot("scene:thing", new)}
        yield edit("activity", "object", lambda one: _renamed(one, act.what, new), **slots)
    if act.zone is None and (zones := _others(tables, "scene_acts", "zone", row["zone"])):
        zone = rng.choice(zones)
        slots = {"zone": QuestionSlot("scene:zone", row["zone"]), "new": QuestionSlot("scene:zone", zone)}
        yield edit("location", "place", lambda one: _placed(one, zone), **slots)
    end = max(one["end"] for one in tables.rows["scene_acts"])
    begin = STEP * rng.randrange(int((end + 10) / STEP))
    if begin not in {one["start"] for name in EVENTS for one in tables.rows[name]}:
        slots = {"old": QuestionSlot("number", row["start"]), "new": QuestionSlot("number", begin)}
        yield edit("time", "time", lambda one: _moved(one, begin - row["start"]), **slots)
    yield edit("routine", "gone", lambda one: None)


def _of_sound(tables: HouseholdTables, row: Row, rng: random.Random) -> Iterator[FactorEdit]:
    slots = {"sound": QuestionSlot("scene:sound", row["sound"]), "zone": QuestionSlot("scene:zone", row["zone"])}

    def edit(factor: Factor, frame: str, changes: Mapping[str, Any] | None, **more: QuestionSlot) -> FactorEdit:
        change: Change = lambda one: one if "sound" not in one else None if changes is None else {**one, **changes}  # noqa: E731
        return FactorEdit(factor, f"scene_{frame}", {**slots, **more}, _changed(tables, row["event"], change))

    yield edit("environment", "silent", None)
    heard = {one["sound"] for one in tables.rows["scene_sounds"]}
    new = rng.choice([sound for sound in values_elsewhere("scene:sound") if sound not in heard])
    yield edit("environment", "other_sound", {"sound": new}, other=QuestionSlot("scene:sound", new))
    if zones := _others(tables, "scene_acts", "zone", row["zone"]):
        zone = rng.choice(zones)
        yield edit("location", "sound_place", {"zone": zone}, new=QuestionSlot("scene:zone", zone))


def _of_setting(tables: HouseholdTables, rng: random.Random) -> Iterator[tuple[str, FactorEdit]]:
    """Edits of what people look like, and of what is around them."""
    zones = list(dict.fromkeys(row["zone"] for row in tables.rows["scene_acts"]))
    for table, owner, kind in (("scene_looks", "who", "scene:actor"), ("scene_things", "thing", "scene:thing")):
        for row in tables.rows[table]:
            attribute, old = row["attribute"], row["value"]
            value = "scene:zone" if attribute == "zone" else f"scene:look:{attribute}"
            pool: Sequence[str] = zones if attribute == "zone" else values_elsewhere(value)
            others = [one for one in pool if one != old]
            if attribute in ("colour", "position") or not others:  # captions call a thing by its colour
                continue
            new = rng.choice(others)
            slots = {"old": QuestionSlot(value, old), "new": QuestionSlot(value, new)}
            if attribute != "light":
                slots["what"] = QuestionSlot(kind, row[owner])
            factor: Factor = "location" if attribute == "zone" else "value"
            edited = tables.with_edited_row(table, row, {"value": new})
            yield row["id"], FactorEdit(factor, f"scene_set_{attribute}", slots, edited)


def _changed(tables: HouseholdTables, event: str, change: Change) -> HouseholdTables:
    """The tables with the rows of an event changed."""
    rows = {
        name: tuple(new for row in tables.rows[name] if (new := change(row) if row["event"] == event else row) is not None)
        for name in EVENTS
    }
    return replace(tables, rows={**tables.rows, **rows})


def _renamed(row: Row, old: str, new: str) -> Row:
    """The row with somebody or something else in all places of one."""
    if "act" in row:
        act: SceneAct = row["act"]
        named = {name: new for name in ("who", "what", "at") if getattr(act, name) == old}
        return {**row, **named, "act": replace(act, **named)}
    return {name: new if value == old and name in ("thing", "value") else value for name, value in row.items()}


def _placed(row: Row, zone: str) -> Row:
    return {**row, "zone": zone, **({"act": replace(row["act"], place=zone)} if "act" in row else {})}


def _moved(row: Row, seconds: float) -> Row:
    return {**row, "start": row["start"] + seconds, "end": row["end"] + seconds}


def _others(tables: HouseholdTables, table: str, column: str, value: str | None) -> list[str]:
    """The other values of a column; none for a value that is missing."""
    found = dict.fromkeys(row[column] for row in tables.rows[table])
    return [one for one in found if one != value and one is not None] if value else []


def _movable(tables: HouseholdTables) -> list[str]:
    """The objects of the scene, which have a colour."""
    return [row["thing"] for row in tables.rows["scene_things"] if row["attribute"] == "colour"]
