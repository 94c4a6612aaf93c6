"""Counterfactuals: one factor of a household is changed, and the program runs again (PersonalHomeBench 3.2, I.2).

Invariants: an edit changes one factor, and nothing that does not exist comes into being; whether the answer changes is
computed. An edit that leaves no single answer, or one that what else is told would change, is no counterfactual.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from homerl.envs.personalhome.tasks.questions.families import DONE, OBJECT, Deed, Slot
from homerl.envs.personalhome.tasks.questions.programs import Expression, NoAnswer, settled
from homerl.envs.personalhome.tasks.questions.tables import Row, Tables

Factor = Literal["time", "actor", "activity", "appliance", "location", "sensor", "routine", "environment", "value"]
SHIFTS = (-40, -15, -6, 6, 15, 40)  # days by which a memory is moved
YEARS = (2, 3, 4)


@dataclass(frozen=True)
class Edit:
    """A change of one factor. `frame` names its sentence, `slots` what it names; `tables` is the other household.

    `reads` are the ids of rows from which the sentence takes values that it does not name.
    """

    factor: Factor
    frame: str
    slots: Mapping[str, Slot]
    tables: Tables
    reads: tuple[str, ...] = ()


Editor = Callable[[Tables, random.Random], Iterator[tuple[str, Edit]]]
EDITORS: list[Editor] = []


def editor(function: Editor) -> Editor:
    """Register a function that gives edits, each with the id of the row that it changes."""
    EDITORS.append(function)
    return function


Say = Callable[[Edit, Any], tuple[str, bool]]  # an assumption in words, and whether these state an answer


@dataclass(frozen=True)
class Counterfactual:
    """An edit in words, and the answer in the household that it makes.

    `stated` tells whether the words name the answer, so that no question is left.
    """

    edit: Edit
    answer: Any
    changed: bool
    condition: str
    stated: bool


def counterfactuals(
    program: Expression, tables: Tables, groups: Mapping[str, Sequence[str]], say: Say, rng: random.Random
) -> tuple[Counterfactual, Counterfactual] | None:
    """One counterfactual that changes the answer and one that does not; None if there is no such pair.

    `groups` are the keys of `vocabulary.yaml` by group. Those that do not state their answer are preferred, and of these the
    near ones, which edit a table that the program reads.
    """
    base = program.run(tables)
    near = {id.partition(":")[0] for id in base.evidence}
    drawn = list(edits(tables, groups, rng))
    rng.shuffle(drawn)
    drawn.sort(key=lambda pair: pair[0].partition(":")[0] not in near)  # stable: near ones first, in drawn order
    outcomes: dict[bool, Counterfactual] = {}
    for _, edit in drawn:
        try:
            answer = settled(program, edit.tables).value
        except NoAnswer:
            continue
        changed = answer != base.value
        kept = outcomes.get(changed)
        if kept is None or kept.stated:
            found = Counterfactual(edit, answer, changed, *say(edit, answer))
            outcomes[changed] = found if kept is None or not found.stated else kept
        if len(outcomes) == 2 and not any(one.stated for one in outcomes.values()):
            break
    return (outcomes[True], outcomes[False]) if len(outcomes) == 2 else None


def edits(tables: Tables, groups: Mapping[str, Sequence[str]], rng: random.Random) -> Iterator[tuple[str, Edit]]:
    """Edits of everything in a household, each with the id of the row that it changes."""
    for row in tables.rows["memories"]:
        if row["kind"] in DONE and row["who"] and row[OBJECT.get(row["kind"], "what")]:
            yield from ((row["id"], edit) for edit in _of_memory(tables, row, groups, rng))
    yield from _of_events(tables, rng)
    yield from _of_people(tables, groups, rng)
    yield from _of_devices(tables, rng)
    for row in tables.rows["weather"]:
        new = _elsewhere(row, rng)
        slots = {"quantity": Slot("weather", (row["side"], row["quantity"])), "new": Slot("number", new)}
        rows = tuple({**r, "value": new} if r is row else r for r in tables.rows["weather"])
        yield row["id"], Edit("environment", "weather_value", slots, _with(tables, "weather", rows))
    for each in EDITORS:
        yield from each(tables, rng)


def _elsewhere(row: Row, rng: random.Random) -> float:
    """Another value of the weather that is possible: a share stays a share, and only temperatures fall below 0."""
    steps = (-0.3, -0.2, 0.2, 0.3) if row["quantity"] == "sunny" else (-3, -2, 2, 3)
    values = [round(row["value"] + step, 2) for step in steps]
    least, most = weather_range(row["quantity"])
    return float(rng.choice([value for value in values if least <= value <= most]))


def weather_range(quantity: str) -> tuple[float, float]:
    """The least and the most that is possible."""
    least = -100.0 if quantity == "temperature" else 0.0
    return least, {"sunny": 1.0, "humidity": 100.0, "odor": 5.0}.get(quantity, float("inf"))


def _of_memory(tables: Tables, row: Row, groups: Mapping[str, Sequence[str]], rng: random.Random) -> Iterator[Edit]:
    object_column = OBJECT.get(row["kind"], "what")
    deed = Deed(row["kind"], row[object_column])
    told = {"who": Slot("person", row["who"]), "deed": Slot("deed", deed), "old": Slot("date", row["date"])}

    def edit(factor: Factor, frame: str, changes: Row | None, **slots: Slot) -> Edit:
        return Edit(factor, f"memory_{frame}", {**told, **slots}, tables.edited("memories", row["id"], changes))

    moved = row["time"] + timedelta(days=rng.choice(SHIFTS))
    if moved < tables.now - timedelta(days=1):
        yield edit("time", "time", {"time": moved, "date": moved.date()}, new=Slot("date", moved.date()))
    if others := [one["who"] for one in tables.rows["members"] if one["who"] != row["who"]]:
        other = rng.choice(others)
        yield edit("actor", "actor", {"who": other}, other=Slot("person", other))
    if object_column == "appliance":
        owned = [one["appliance"] for one in tables.rows["appliances"] if one["appliance"] != row["appliance"]]
        replaced: Sequence[str] = owned
    else:
        replaced = [key for key in groups[row["kind"]] if key != row["what"]]
    if replaced:
        key = rng.choice(replaced)
        factor: Factor = "appliance" if object_column == "appliance" else "activity"
        yield edit(factor, "object", {object_column: key}, other_deed=Slot("deed", Deed(row["kind"], key)))
    if row["value"] is not None:
        new = row["value"] + rng.choice((1, 2, 3))
        changes = {"value": new}
        yield edit("value", "amount", changes, value=Slot("number", row["value"]), new=Slot("number", new))
    yield edit("routine", "gone", None)


def _of_events(tables: Tables, rng: random.Random) -> Iterator[tuple[str, Edit]]:
    people = [row["who"] for row in tables.rows["members"]]
    rooms = list(dict.fromkeys(row["room"] for row in tables.rows["appliances"]))
    for row in tables.rows["events"]:
        old = {"old": Slot("moment", row["time"])}
        if row["who"] and len(people) > 1:
            other = rng.choice([one for one in people if one != row["who"]])
            slots = {**old, "who": Slot("person", row["who"]), "other": Slot("person", other)}
            yield row["id"], Edit("actor", "event_actor", slots, tables.edited("events", row["id"], {"who": other}))
        if row["room"] and (elsewhere := [room for room in rooms if room != row["room"]]):
            new = rng.choice(elsewhere)
            slots = {**old, "room": Slot("room", row["room"]), "new": Slot("room", new)}
            yield row["id"], Edit("location", "event_room", slots, tables.edited("events", row["id"], {"room": new}))
        moved = row["time"] - timedelta(hours=rng.choice((1, 2, 3, 5)))
        changes = {"time": moved, "date": moved.date()}
        slots = {**old, "new": Slot("moment", moved)}
        yield row["id"], Edit("time", "event_time", slots, tables.edited("events", row["id"], changes))


def _of_people(tables: Tables, groups: Mapping[str, Sequence[str]], rng: random.Random) -> Iterator[tuple[str, Edit]]:
    for row in tables.rows["members"]:
        new = rng.choice([key for key in groups["occupations"] if key != row["occupation"]])
        slots = {"who": Slot("person", row["who"]), "new": Slot("occupations", new)}
        yield (
            row["id"],
            Edit("routine", "member_occupation", slots, tables.edited("members", row["id"], {"occupation": new})),
        )
    for row in tables.rows["hobbies"]:
        slots = {"who": Slot("person", row["who"]), "what": Slot("hobbies", row["hobby"])}
        rows = tuple(one for one in tables.rows["hobbies"] if one is not row)
        yield row["id"], Edit("routine", "member_hobby", slots, _with(tables, "hobbies", rows))
    for row in tables.rows["life"]:
        moved = row["date"] - timedelta(days=rng.choice((400, 800, 1500)))
        slots = {
            "who": Slot("person", row["who"]),
            "what": Slot("life_events", row["kind"]),
            "old": Slot("date", row["date"]),
            "new": Slot("date", moved),
        }
        yield row["id"], Edit("time", "life_date", slots, tables.with_row("life", row, {"date": moved}))
    for row in tables.rows["pets"]:
        new_age = row["age"] + rng.choice((1, 2))
        slots = {"pet": Slot("pet", row["pet"]), "new": Slot("number", new_age)}
        yield row["id"], Edit("value", "pet_age", slots, tables.edited("pets", row["id"], {"age": new_age}))
    years = rng.choice(YEARS)
    for id in ("member:all", "pet:all"):
        yield id, Edit("time", "years_later", {"years": Slot("number", years)}, tables.later(years))


def _of_devices(tables: Tables, rng: random.Random) -> Iterator[tuple[str, Edit]]:
    rooms = list(dict.fromkeys(row["room"] for row in tables.rows["appliances"]))
    for table, name in (("appliances", "appliance"), ("sensors", "sensor")):
        for row in tables.rows[table]:
            if elsewhere := [room for room in rooms if room != row["room"]]:
                new = rng.choice(elsewhere)
                slots = {name: Slot(name, row[name]), "new": Slot("room", new)}
                edited = tables.edited(table, row["id"], {"room": new})
                yield row["id"], Edit("location", f"{name}_room", slots, edited)
    for row in tables.rows["states"]:
        if isinstance(row["value"], int | float) and not isinstance(row["value"], bool):
            value = round(row["value"] + rng.choice((-2, -1, 1, 2)), 2)
            low, high = row["range"] or (0, value)
            if not low <= value <= high:
                continue
            slots = {
                "appliance": Slot("appliance", row["appliance"]),
                "attribute": Slot("attribute", row["attribute"]),
                "new": Slot("number", value),
            }
            yield row["id"], Edit("value", "state_value", slots, tables.with_row("states", row, {"value": value}))
    for row in tables.rows["sensors"]:
        lost = [one["id"] for one in tables.rows["events"] if one["sensor"] == row["sensor"]]
        edited = tables.edited("readings", f"state:{row['sensor']}", None)
        for id in lost:
            edited = edited.edited("events", id, None)
        slots = {"sensor": Slot("sensor", row["sensor"])}
        yield next(iter(lost), row["id"]), Edit("sensor", "sensor_fault", slots, edited)


def _with(tables: Tables, table: str, rows: tuple[Row, ...]) -> Tables:
    return replace(tables, rows={**tables.rows, table: rows})
