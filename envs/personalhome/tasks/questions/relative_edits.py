"""Counterfactuals that do not name what they make true: as somebody else, where something else stands, three years later.

Who is asked must look up another row or an old value, and work the new one out.

Invariants: those of `edits.py`; `reads` of an edit are the rows that its sentence goes by.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

from homerl.envs.personalhome.tasks.questions.edits import YEARS, Factor, FactorEdit, register_editor, weather_range
from homerl.envs.personalhome.tasks.questions.families import QuestionSlot
from homerl.envs.personalhome.tasks.questions.tables import HouseholdTables, Row

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
