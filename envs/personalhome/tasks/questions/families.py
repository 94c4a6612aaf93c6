"""Families of questions: which programs can be asked of a household.

A family yields every candidate that its tables suggest. Whether a candidate has exactly one answer is found by running it.

Invariants: candidates come in the order of the tables, so a seed draws the same ones; the slots of a candidate are all that
its sentence names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from homerl.envs.personalhome.sim.vocabulary import FACT_UNITS
from homerl.envs.personalhome.tasks.questions.household_tables import HouseholdTables
from homerl.envs.personalhome.tasks.questions.question_programs import (
    ColumnValues,
    Expression,
    Extreme,
    Follow,
    OnlyValue,
    RowCount,
    Shared,
    TableRows,
    Total,
    UsualValue,
    ValueGap,
    Where,
    YearsSince,
    only_value,
    rows_where,
)

MEMORIES, EVENTS, MEMBERS = TableRows("memories"), TableRows("events"), TableRows("members")
DONE = ("cooked", "used", "travelled", "complained", "ill", "bought", "celebrated", "cared", "repaired", "learned")
OBJECT = {"used": "appliance", "repaired": "appliance"}  # what a deed is done to; of other kinds it is `what`
SUMMED = ("travelled", "ill", "used", "bought")  # kinds of deeds whose values are added


@dataclass(frozen=True)
class Deed:
    """Something that people do, as a question names it: the kind of fact, and what it is done to (None: anything)."""

    kind: str
    object: str | None = None


@dataclass(frozen=True)
class QuestionSlot:
    """What a sentence names: a value and what kind of thing it is, such as `person` or `dishes`."""

    kind: str
    value: Any


@dataclass(frozen=True)
class QuestionCandidate:
    """A question that might be asked. `answer` is the kind of its answer."""

    family: str
    program: Expression
    slots: Mapping[str, QuestionSlot]
    answer: str


Slots = Mapping[str, tuple[str, Any]]  # name -> the kind and the value of a `QuestionSlot`
Row = tuple[str, Expression, Slots, str]  # the fields of a `QuestionCandidate`
Family = Callable[[HouseholdTables], Iterator[Row]]
FAMILIES: list[Family] = []


def register_family(function: Family) -> Family:
    """Register a function that yields the fields of candidates: name, program, slots, and kind of the answer.

    Example:
        @register_family
        def pet_questions(tables):
            for row in tables.rows["pets"]:
                yield "pet_age", only_value(rows_where(PETS, pet=row["pet"]), "age"), {"pet": ("pet", row["pet"])}, "years"
    """
    FAMILIES.append(function)
    return function


def make_slots(slots: Slots) -> dict[str, QuestionSlot]:
    """The slots of a sentence from their kinds and values."""
    return {name: QuestionSlot(kind, value) for name, (kind, value) in slots.items()}


def question_candidates(tables: HouseholdTables) -> list[QuestionCandidate]:
    """All candidates of all families."""
    rows = (row for family in FAMILIES for row in family(tables))
    return [QuestionCandidate(name, program, make_slots(slots), answer) for name, program, slots, answer in rows]


def _number_kind(unit: str | None) -> str:
    """The kind of an answer that is a number in a unit."""
    return f"number:{unit}" if unit else "number"


def _object_column(kind: str) -> str:
    return OBJECT.get(kind, "what")


def _object_kind(kind: str) -> str:
    """The kind of an answer that says what a deed is done to."""
    return OBJECT.get(kind) or f"what:{kind}"


def _count_deeds(tables: HouseholdTables) -> Counter[tuple[str, Deed]]:
    """How often each person did, and remembers, each deed."""
    deeds: Counter[tuple[str, Deed]] = Counter()
    for row in tables.rows["memories"]:
        done_to = row[_object_column(row["kind"])]
        if row["kind"] in DONE and row["who"] is not None and done_to is not None:
            deeds[row["who"], Deed(row["kind"], done_to)] += 1
    return deeds


def _deed_rows(deed: Deed, who: str | None = None) -> Expression:
    """The memories of a deed, of one person or of all."""
    rows = rows_where(MEMORIES, kind=deed.kind, **({"who": who} if who is not None else {}))
    return rows if deed.object is None else Where(rows, _object_column(deed.kind), deed.object)


def _latest_value(rows: Expression, column: str) -> Expression:
    return only_value(Extreme(rows, "time"), column)


# Looking up


@register_family
def people_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Occupation and age of a person, and who has an occupation or a hobby."""
    for row in tables.rows["members"]:
        one, slots = rows_where(MEMBERS, who=row["who"]), {"who": ("person", row["who"])}
        yield "occupation_of", only_value(one, "occupation"), slots, "occupations"
        yield "age_of", only_value(one, "age"), slots, "years"
    for table, column, kind in (("members", "occupation", "occupations"), ("hobbies", "hobby", "hobbies")):
        for value in dict.fromkeys(row[column] for row in tables.rows[table]):
            who = only_value(Where(TableRows(table), column, value), "who")
            yield f"who_has_{column}", who, {"what": (kind, value)}, "person"


@register_family
def extremes_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What the oldest and the youngest person do."""
    if len(tables.rows["members"]) > 1:
        for name, largest in (("oldest", True), ("youngest", False)):
            occupation = only_value(Extreme(MEMBERS, "age", largest), "occupation")
            yield f"occupation_of_{name}", occupation, {}, "occupations"


@register_family
def pet_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Age and animal of a pet."""
    for row in tables.rows["pets"]:
        one, slots = rows_where(TableRows("pets"), pet=row["pet"]), {"pet": ("pet", row["pet"])}
        yield "pet_age", only_value(one, "age"), slots, "years"
        yield "pet_animal", only_value(one, "animal"), slots, "animals"


@register_family
def place_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Where an appliance or a sensor is."""
    for table, column in (("appliances", "appliance"), ("sensors", "sensor")):
        for row in tables.rows[table]:
            place = only_value(Where(TableRows(table), column, row[column]), "room")
            yield f"place_of_{column}", place, {column: (column, row[column])}, "room"


@register_family
def state_questions(tables: HouseholdTables) -> Iterator[Row]:
    """A number that an appliance is at, or that a sensor reads."""
    for table, column in (("states", "appliance"), ("readings", "sensor")):
        for row in tables.rows[table]:
            if isinstance(row["value"], bool) or not isinstance(row["value"], int | float):
                continue
            value = only_value(rows_where(TableRows(table), **{column: row[column], "attribute": row["attribute"]}), "value")
            slots = {column: (column, row[column]), "attribute": ("attribute", row["attribute"])}
            yield f"state_of_{column}", value, slots, _number_kind(row["unit"])


@register_family
def weather_questions(tables: HouseholdTables) -> Iterator[Row]:
    """The weather outside and the air inside."""
    for row in tables.rows["weather"]:
        value = only_value(rows_where(TableRows("weather"), side=row["side"], quantity=row["quantity"]), "value")
        kind = "share" if row["quantity"] == "sunny" else _number_kind(row["unit"])
        yield f"weather_{row['side']}_{row['quantity']}", value, {}, kind


@register_family
def life_event_questions(tables: HouseholdTables) -> Iterator[Row]:
    """When something happened in a life, and how many years ago."""
    for row in tables.rows["life"]:
        day = only_value(rows_where(TableRows("life"), who=row["who"], kind=row["kind"]), "date")
        slots = {"who": ("person", row["who"]), "what": ("life_events", row["kind"])}
        yield "date_of_life_event", day, slots, "date"
        yield "years_since_life_event", YearsSince(day), slots, "span"


# Remembering


@register_family
def deed_time_questions(tables: HouseholdTables) -> Iterator[Row]:
    """How often a person did something, and when last.

    Most deeds were done once, so 1 would be a good guess. Of those, only as many are asked for as were done twice.
    """
    deeds = _count_deeds(tables)
    once = [deed for deed, count in deeds.items() if count == 1]
    twice = sum(count == 2 for count in deeds.values())
    counted = {deed for deed, count in deeds.items() if count > 1}
    counted |= {once[at * len(once) // twice] for at in range(twice) if once}
    for who, deed in deeds:
        rows, slots = _deed_rows(deed, who), {"who": ("person", who), "deed": ("deed", deed)}
        if (who, deed) in counted:
            yield "times", RowCount(rows), slots, "times"
        yield "last_day", _latest_value(rows, "date"), slots, "date"


@register_family
def deed_kind_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What a person did last, what most often, and how much in all."""
    for who, kind in dict.fromkeys((who, deed.kind) for who, deed in _count_deeds(tables)):
        rows, column, slots = _deed_rows(Deed(kind), who), _object_column(kind), {"who": ("person", who)}
        yield f"last_{kind}", _latest_value(rows, column), slots, _object_kind(kind)
        yield f"usually_{kind}", UsualValue(ColumnValues(rows, column)), slots, _object_kind(kind)
        if kind in SUMMED:
            yield f"total_{kind}", Total(ColumnValues(rows, "value")), slots, _number_kind(FACT_UNITS[kind])


@register_family
def setting_questions(tables: HouseholdTables) -> Iterator[Row]:
    """To what an appliance was last set, and by whom."""
    rows_set = {(row["appliance"], row["what"]): row for row in tables.rows["memories"] if row["kind"] == "adjusted"}
    for (appliance, what), row in rows_set.items():
        rows = rows_where(MEMORIES, kind="adjusted", appliance=appliance, what=what)
        slots = {"appliance": ("appliance", appliance), "what": ("quantities", what)}
        yield "last_setting", _latest_value(rows, "value"), slots, _number_kind(row["unit"])
        yield "who_set_last", _latest_value(rows, "who"), slots, "person"


@register_family
def recent_event_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Who entered a room last, and what was last measured or noticed."""
    for kind, column, slot, name, answer in (
        ("entered", "room", "room", "who", "person"),
        ("measured", "what", "quantities", "value", "number"),
        ("noticed", "what", "signs", "room", "room"),
        ("used", "appliance", "appliance", "who", "person"),
    ):
        events = {row[column]: row for row in tables.rows["events"] if row["kind"] == kind and row[column]}
        for value, row in events.items():
            found = _latest_value(rows_where(EVENTS, **{"kind": kind, column: value}), name)
            answer_kind = _number_kind(row["unit"]) if answer == "number" else answer
            yield f"last_{kind}_event", found, {"what": (slot, value)}, answer_kind


# Putting together


@register_family
def two_people_questions(tables: HouseholdTables) -> Iterator[Row]:
    """What two people have in common, and how much more often one did something."""
    for pair in permutations([row["who"] for row in tables.rows["members"]], 2):
        slots = {"who": ("person", pair[0]), "other": ("person", pair[1])}
        if pair[0] < pair[1]:
            shared = Shared(*(ColumnValues(rows_where(TableRows("hobbies"), who=who), "hobby") for who in pair))
            yield "shared_hobby", OnlyValue(shared), slots, "hobbies"
        for kind in DONE:
            more = ValueGap(*(RowCount(_deed_rows(Deed(kind), who)) for who in pair))
            yield "more_often", more, {**slots, "deed": ("deed", Deed(kind))}, "times"
        for kind in ("travelled", "ill"):
            apart = ValueGap(*(Total(ColumnValues(_deed_rows(Deed(kind), who), "value")) for who in pair))
            yield f"difference_{kind}", apart, slots, _number_kind("day")


@register_family
def last_doer_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Occupation and age of whoever did something last."""
    for deed in dict.fromkeys(deed for _, deed in _count_deeds(tables)):
        doer = Follow(ColumnValues(Extreme(_deed_rows(deed), "time"), "who"), "members", "who")
        yield "occupation_of_last", only_value(doer, "occupation"), {"deed": ("deed", deed)}, "occupations"
        yield "age_of_last", only_value(doer, "age"), {"deed": ("deed", deed)}, "years"


@register_family
def days_apart_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Days between the last times that a person did two things, and what came first after the other."""
    deeds = _count_deeds(tables)
    for who in (row["who"] for row in tables.rows["members"]):
        kinds = dict.fromkeys(deed.kind for doer, deed in deeds if doer == who)
        for one, other in permutations(kinds, 2):
            slots = {"who": ("person", who), "deed": ("deed", Deed(one)), "other": ("deed", Deed(other))}
            rows, last = _deed_rows(Deed(one), who), _latest_value(_deed_rows(Deed(other), who), "time")
            if one < other:
                yield "days_apart", ValueGap(_latest_value(rows, "time"), last), slots, _number_kind("day")
            first = Extreme(Where(rows, "time", last, ">"), "time", largest=False)
            yield f"first_after_{one}", only_value(first, _object_column(one)), slots, _object_kind(one)


@register_family
def breakdown_questions(tables: HouseholdTables) -> Iterator[Row]:
    """Who repaired what broke last, and where that stands."""
    broken = _latest_value(rows_where(MEMORIES, kind="broke"), "appliance")
    repairs = rows_where(MEMORIES, kind="repaired", appliance=broken)
    yield "who_repaired_last_broken", _latest_value(repairs, "who"), {}, "person"
    yield "day_repaired_last_broken", _latest_value(repairs, "date"), {}, "date"
    for who in (row["who"] for row in tables.rows["members"]):
        used = ColumnValues(Extreme(_deed_rows(Deed("used"), who), "time"), "appliance")
        place = only_value(Follow(used, "appliances", "appliance"), "room")
        yield "place_of_last_used", place, {"who": ("person", who)}, "room"
