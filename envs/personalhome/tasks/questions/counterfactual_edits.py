"""Counterfactuals: one factor of a household is changed, and the program runs again (PersonalHomeBench 3.2, I.2).

Invariants: an edit changes one factor, and nothing that does not exist comes into being; whether the answer changes is
computed. An edit that leaves no single answer, or one that what else is told would change, is no counterfactual.

Counterfactuals that do not name what they make true: as somebody else, where something else stands, three years later.

Who is asked must look up another row or an old value, and work the new one out.

Invariants: those of `edits.py`; `reads` of an edit are the rows that its sentence goes by.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal

from homerl.envs.personalhome.tasks.questions.families import DONE, OBJECT, Deed, QuestionSlot
from homerl.envs.personalhome.tasks.questions.household_tables import HouseholdTables, Row
from homerl.envs.personalhome.tasks.questions.question_programs import Expression, NoAnswer, run_settled

Factor = Literal["time", "actor", "activity", "appliance", "location", "sensor", "routine", "environment", "value"]
SHIFTS = (-40, -15, -6, 6, 15, 40)  # days by which a memory is moved
YEARS = (2, 3, 4)


@dataclass(frozen=True)
class FactorEdit:
    """A change of one factor. `frame` names its sentence, `slots` what it names; `tables` is the other household.

    `reads` are the ids of rows from which the sentence takes values that it does not name.
    """

    factor: Factor
    frame: str
    slots: Mapping[str, QuestionSlot]
    tables: HouseholdTables
    reads: tuple[str, ...] = ()


Editor = Callable[[HouseholdTables, random.Random], Iterator[tuple[str, FactorEdit]]]
EDITORS: list[Editor] = []


def register_editor(function: Editor) -> Editor:
    """Register a function that gives edits, each with the id of the row that it changes."""
    EDITORS.append(function)
    return function


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
    program: Expression, tables: HouseholdTables, groups: Mapping[str, Sequence[str]], say: Say, rng: random.Random
) -> tuple[Counterfactual, Counterfactual] | None:
    """One counterfactual that changes the answer and one that does not; None if there is no such pair.

    `groups` are the keys of `vocabulary.yaml` by group. Those that do not state their answer are preferred, and of these the
    near ones, which edit a table that the program reads.
    """
    base = program.run_on(tables)
    near = {id.partition(":")[0] for id in base.evidence}
    drawn = list(draw_edits(tables, groups, rng))
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
            outcomes[changed] = found if kept is None or not found.stated else kept
        if len(outcomes) == 2 and not any(one.stated for one in outcomes.values()):
            break
    return (outcomes[True], outcomes[False]) if len(outcomes) == 2 else None


def draw_edits(
    tables: HouseholdTables, groups: Mapping[str, Sequence[str]], rng: random.Random
) -> Iterator[tuple[str, FactorEdit]]:
    """Edits of everything in a household, each with the id of the row that it changes."""
    for row in tables.rows["memories"]:
        if row["kind"] in DONE and row["who"] and row[OBJECT.get(row["kind"], "what")]:
            yield from ((row["id"], edit) for edit in _of_memory(tables, row, groups, rng))
    yield from _of_events(tables, rng)
    yield from _of_people(tables, groups, rng)
    yield from _of_devices(tables, rng)
    for row in tables.rows["weather"]:
        new = _elsewhere(row, rng)
        slots = {"quantity": QuestionSlot("weather", (row["side"], row["quantity"])), "new": QuestionSlot("number", new)}
        rows = tuple({**r, "value": new} if r is row else r for r in tables.rows["weather"])
        yield row["id"], FactorEdit("environment", "weather_value", slots, _with(tables, "weather", rows))
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


def _of_memory(
    tables: HouseholdTables, row: Row, groups: Mapping[str, Sequence[str]], rng: random.Random
) -> Iterator[FactorEdit]:
    object_column = OBJECT.get(row["kind"], "what")
    deed = Deed(row["kind"], row[object_column])
    told = {
        "who": QuestionSlot("person", row["who"]),
        "deed": QuestionSlot("deed", deed),
        "old": QuestionSlot("date", row["date"]),
    }

    def edit(factor: Factor, frame: str, changes: Row | None, **slots: QuestionSlot) -> FactorEdit:
        return FactorEdit(
            factor, f"memory_{frame}", {**told, **slots}, tables.with_edited_rows("memories", row["id"], changes)
        )

    moved = row["time"] + timedelta(days=rng.choice(SHIFTS))
    if moved < tables.now - timedelta(days=1):
        yield edit("time", "time", {"time": moved, "date": moved.date()}, new=QuestionSlot("date", moved.date()))
    if others := [one["who"] for one in tables.rows["members"] if one["who"] != row["who"]]:
        other = rng.choice(others)
        yield edit("actor", "actor", {"who": other}, other=QuestionSlot("person", other))
    if object_column == "appliance":
        owned = [one["appliance"] for one in tables.rows["appliances"] if one["appliance"] != row["appliance"]]
        replaced: Sequence[str] = owned
    else:
        replaced = [key for key in groups[row["kind"]] if key != row["what"]]
    if replaced:
        key = rng.choice(replaced)
        factor: Factor = "appliance" if object_column == "appliance" else "activity"
        yield edit(factor, "object", {object_column: key}, other_deed=QuestionSlot("deed", Deed(row["kind"], key)))
    if row["value"] is not None:
        new = row["value"] + rng.choice((1, 2, 3))
        changes = {"value": new}
        yield edit("value", "amount", changes, value=QuestionSlot("number", row["value"]), new=QuestionSlot("number", new))
    yield edit("routine", "gone", None)


def _of_events(tables: HouseholdTables, rng: random.Random) -> Iterator[tuple[str, FactorEdit]]:
    people = [row["who"] for row in tables.rows["members"]]
    rooms = list(dict.fromkeys(row["room"] for row in tables.rows["appliances"]))
    for row in tables.rows["events"]:
        old = {"old": QuestionSlot("moment", row["time"])}
        if row["who"] and len(people) > 1:
            other = rng.choice([one for one in people if one != row["who"]])
            slots = {**old, "who": QuestionSlot("person", row["who"]), "other": QuestionSlot("person", other)}
            yield (
                row["id"],
                FactorEdit("actor", "event_actor", slots, tables.with_edited_rows("events", row["id"], {"who": other})),
            )
        if row["room"] and (elsewhere := [room for room in rooms if room != row["room"]]):
            new = rng.choice(elsewhere)
            slots = {**old, "room": QuestionSlot("room", row["room"]), "new": QuestionSlot("room", new)}
            yield (
                row["id"],
                FactorEdit("location", "event_room", slots, tables.with_edited_rows("events", row["id"], {"room": new})),
            )
        moved = row["time"] - timedelta(hours=rng.choice((1, 2, 3, 5)))
        changes = {"time": moved, "date": moved.date()}
        slots = {**old, "new": QuestionSlot("moment", moved)}
        yield row["id"], FactorEdit("time", "event_time", slots, tables.with_edited_rows("events", row["id"], changes))


def _of_people(
    tables: HouseholdTables, groups: Mapping[str, Sequence[str]], rng: random.Random
) -> Iterator[tuple[str, FactorEdit]]:
    for row in tables.rows["members"]:
        new = rng.choice([key for key in groups["occupations"] if key != row["occupation"]])
        slots = {"who": QuestionSlot("person", row["who"]), "new": QuestionSlot("occupations", new)}
        yield (
            row["id"],
            FactorEdit(
                "routine", "member_occupation", slots, tables.with_edited_rows("members", row["id"], {"occupation": new})
            ),
        )
    for row in tables.rows["hobbies"]:
        slots = {"who": QuestionSlot("person", row["who"]), "what": QuestionSlot("hobbies", row["hobby"])}
        rows = tuple(one for one in tables.rows["hobbies"] if one is not row)
        yield row["id"], FactorEdit("routine", "member_hobby", slots, _with(tables, "hobbies", rows))
    for row in tables.rows["life"]:
        moved = row["date"] - timedelta(days=rng.choice((400, 800, 1500)))
        slots = {
            "who": QuestionSlot("person", row["who"]),
            "what": QuestionSlot("life_events", row["kind"]),
            "old": QuestionSlot("date", row["date"]),
            "new": QuestionSlot("date", moved),
        }
        yield row["id"], FactorEdit("time", "life_date", slots, tables.with_edited_row("life", row, {"date": moved}))
    for row in tables.rows["pets"]:
        new_age = row["age"] + rng.choice((1, 2))
        slots = {"pet": QuestionSlot("pet", row["pet"]), "new": QuestionSlot("number", new_age)}
        yield row["id"], FactorEdit("value", "pet_age", slots, tables.with_edited_rows("pets", row["id"], {"age": new_age}))
    years = rng.choice(YEARS)
    for id in ("member:all", "pet:all"):
        yield id, FactorEdit("time", "years_later", {"years": QuestionSlot("number", years)}, tables.years_later(years))


def _of_devices(tables: HouseholdTables, rng: random.Random) -> Iterator[tuple[str, FactorEdit]]:
    rooms = list(dict.fromkeys(row["room"] for row in tables.rows["appliances"]))
    for table, name in (("appliances", "appliance"), ("sensors", "sensor")):
        for row in tables.rows[table]:
            if elsewhere := [room for room in rooms if room != row["room"]]:
                new = rng.choice(elsewhere)
                slots = {name: QuestionSlot(name, row[name]), "new": QuestionSlot("room", new)}
                edited = tables.with_edited_rows(table, row["id"], {"room": new})
                yield row["id"], FactorEdit("location", f"{name}_room", slots, edited)
    for row in tables.rows["states"]:
        if isinstance(row["value"], int | float) and not isinstance(row["value"], bool):
            value = round(row["value"] + rng.choice((-2, -1, 1, 2)), 2)
            low, high = row["range"] or (0, value)
            if not low <= value <= high:
                continue
            slots = {
                "appliance": QuestionSlot("appliance", row["appliance"]),
                "attribute": QuestionSlot("attribute", row["attribute"]),
                "new": QuestionSlot("number", value),
            }
            yield (
                row["id"],
                FactorEdit("value", "state_value", slots, tables.with_edited_row("states", row, {"value": value})),
            )
    for row in tables.rows["sensors"]:
        lost = [one["id"] for one in tables.rows["events"] if one["sensor"] == row["sensor"]]
        edited = tables.with_edited_rows("readings", f"state:{row['sensor']}", None)
        for id in lost:
            edited = edited.with_edited_rows("events", id, None)
        slots = {"sensor": QuestionSlot("sensor", row["sensor"])}
        yield next(iter(lost), row["id"]), FactorEdit("sensor", "sensor_fault", slots, edited)


def _with(tables: HouseholdTables, table: str, rows: tuple[Row, ...]) -> HouseholdTables:
    return replace(tables, rows={**tables.rows, table: rows})


STEPS = (1, 2, 3, 5, 10)  # by which a number is higher or lower
SHARES = (0.1, 0.2, 0.3)  # the same for a share


@register_editor
def swap_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[tuple[str, FactorEdit]]:
    """Somebody has another's occupation, or a device stands where another does; or the two have changed places."""
    yield from _like_another(tables, "members", "who", "occupation", "member_occupation", "routine", rng)
    yield from _like_another(tables, "appliances", "appliance", "room", "appliance_room", "location", rng)
    yield from _like_another(tables, "sensors", "sensor", "room", "sensor_room", "location", rng)


def _like_another(
    tables: HouseholdTables, table: str, name: str, column: str, frame: str, factor: Factor, rng: random.Random
) -> Iterator[tuple[str, FactorEdit]]:
    """Edits that give a row the value of another one, or two rows each other's. A sensor may join an appliance."""
    kind = "person" if name == "who" else name
    for row in tables.rows[table]:
        others = _different(tables.rows[table], row, column)
        beside = others or (_different(tables.rows["appliances"], row, column) if name == "sensor" else [])
        if beside:
            other = rng.choice(beside)
            other_kind, other_name = (kind, name) if name in other else ("appliance", "appliance")
            slots = {name: QuestionSlot(kind, row[name]), "other": QuestionSlot(other_kind, other[other_name])}
            edited = tables.with_edited_rows(table, row["id"], {column: other[column]})
            yield row["id"], FactorEdit(factor, f"{frame}_of", slots, edited, (other["id"],))
        if others:
            other = rng.choice(others)
            slots = {name: QuestionSlot(kind, row[name]), "other": QuestionSlot(kind, other[name])}
            edited = tables.with_edited_rows(table, row["id"], {column: other[column]})
            edited = edited.with_edited_rows(table, other["id"], {column: row[column]})
            yield row["id"], FactorEdit(factor, f"{frame}_swapped", slots, edited, (row["id"], other["id"]))


def _different(rows: Sequence[Row], row: Row, column: str) -> list[Row]:
    return [one for one in rows if one[column] != row[column]]


@register_editor
def shift_edits(tables: HouseholdTables, rng: random.Random) -> Iterator[tuple[str, FactorEdit]]:
    """An event of a life lies some years earlier or later; a state or the weather is higher or lower."""
    once = Counter((row["who"], row["kind"]) for row in tables.rows["life"])
    for row in tables.rows["life"]:
        years = rng.choice(YEARS)
        slots = {
            "who": QuestionSlot("person", row["who"]),
            "what": QuestionSlot("life_events", row["kind"]),
            "years": QuestionSlot("number", years),
        }
        for name, moved in (("earlier", _years_on(row["date"], -years)), ("later", _years_on(row["date"], years))):
            if once[row["who"], row["kind"]] == 1 and moved < tables.now.date():
                yield (
                    row["id"],
                    FactorEdit("time", f"life_{name}", slots, tables.with_edited_row("life", row, {"date": moved})),
                )
    for row in tables.rows["states"]:
        if isinstance(row["value"], int | float) and not isinstance(row["value"], bool):
            low, high = row["range"] or (0, float("inf"))
            slots = {
                "appliance": QuestionSlot("appliance", row["appliance"]),
                "attribute": QuestionSlot("attribute", row["attribute"]),
            }
            yield from _shifted(tables, "states", row, STEPS, (low, high), slots, rng)
    for row in tables.rows["weather"]:
        steps = SHARES if row["quantity"] == "sunny" else STEPS[:3]
        slots = {"quantity": QuestionSlot("weather", (row["side"], row["quantity"]))}
        yield from _shifted(tables, "weather", row, steps, weather_range(row["quantity"]), slots, rng)


def _shifted(
    tables: HouseholdTables,
    table: str,
    row: Row,
    steps: Sequence[float],
    bounds: tuple[float, float],
    slots: dict[str, QuestionSlot],
    rng: random.Random,
) -> Iterator[tuple[str, FactorEdit]]:
    """A number that is higher, and one that is lower, as far as its bounds allow."""
    factor: Factor = "environment" if table == "weather" else "value"
    for name, sign in (("higher", 1), ("lower", -1)):
        fitting = [step for step in steps if bounds[0] <= round(row["value"] + sign * step, 2) <= bounds[1]]
        if fitting:
            step = rng.choice(fitting)
            edited = tables.with_edited_row(table, row, {"value": round(row["value"] + sign * step, 2)})
            frame = f"{'weather' if table == 'weather' else 'state'}_{name}"
            yield row["id"], FactorEdit(factor, frame, {**slots, "step": QuestionSlot("number", step)}, edited)


def _years_on(day: date, years: int) -> date:
    return day.replace(year=day.year + years, day=min(day.day, 28) if day.month == 2 else day.day)
