"""Families of questions: which programs can be asked of a household.

A family yields every candidate that its tables suggest; whether a candidate has exactly one answer is found by running it.

Invariants: candidates come in the order of the tables, so a seed draws the same ones; a slot of a candidate is all that its
sentence names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from homerl.envs.personalhome.tasks.questions.household_tables import HouseholdTables, Row
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
)

MEMORIES, EVENTS, MEMBERS = TableRows("memories"), TableRows("events"), TableRows("members")
DONE = ("cooked", "used", "travelled", "complained", "ill", "bought", "celebrated", "cared", "repaired", "learned")
OBJECT = {"used": "appliance", "repaired": "appliance"}  # what a deed is done to; of other kinds it is `what`
MEASURED = {"travelled": "day", "ill": "day", "used": "minute", "bought": "currency"}  # the unit of `value` by kind


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


Family = Callable[[HouseholdTables], Iterator[QuestionCandidate]]
FAMILIES: list[Family] = []


def register_family(function: Family) -> Family:
    """Register a family."""
    FAMILIES.append(function)
    return function


def question_candidates(tables: HouseholdTables) -> list[QuestionCandidate]:
    """All candidates of all families."""
    return [candidate for each in FAMILIES for candidate in each(tables)]


def _number(unit: str | None) -> str:
    """The kind of a number in a unit."""
    return f"number:{unit}" if unit else "number"


def _person(who: str) -> QuestionSlot:
    return QuestionSlot("person", who)


def _people(tables: HouseholdTables) -> list[str]:
    return [row["who"] for row in tables.rows["members"]]


def _deeds(tables: HouseholdTables) -> Counter[tuple[str, Deed]]:
    """How often somebody did, and remembers, each deed."""
    return Counter(
        (row["who"], Deed(row["kind"], row[_object(row["kind"])])) for row in tables.rows["memories"] if _is_deed(row)
    )


def _is_deed(row: Row) -> bool:
    return row["kind"] in DONE and row["who"] is not None and row[_object(row["kind"])] is not None


def _object(kind: str) -> str:
    return OBJECT.get(kind, "what")


def _of(deed: Deed, who: str | None = None) -> Expression:
    """The memories of a deed, of one person or of all."""
    rows: Expression = Where(MEMORIES, "kind", deed.kind)
    if who is not None:
        rows = Where(rows, "who", who)
    return rows if deed.object is None else Where(rows, _object(deed.kind), deed.object)


def _latest(rows: Expression, column: str) -> Expression:
    return OnlyValue(ColumnValues(Extreme(rows, "time"), column))


# Looking up


@register_family
def people_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Occupation and age of a person, and who has an occupation or a hobby."""
    for row in tables.rows["members"]:
        one = Where(MEMBERS, "who", row["who"])
        for column, kind in (("occupation", "occupations"), ("age", "years")):
            yield QuestionCandidate(f"{column}_of", OnlyValue(ColumnValues(one, column)), {"who": _person(row["who"])}, kind)
    for table, column, kind in (("members", "occupation", "occupations"), ("hobbies", "hobby", "hobbies")):
        for value in dict.fromkeys(row[column] for row in tables.rows[table]):
            rows = Where(TableRows(table), column, value)
            yield QuestionCandidate(
                f"who_has_{column}", OnlyValue(ColumnValues(rows, "who")), {"what": QuestionSlot(kind, value)}, "person"
            )


@register_family
def extremes_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What the oldest and the youngest person do."""
    for name, largest in (("oldest", True), ("youngest", False)):
        if len(tables.rows["members"]) > 1:
            yield QuestionCandidate(
                f"occupation_of_{name}",
                OnlyValue(ColumnValues(Extreme(MEMBERS, "age", largest), "occupation")),
                {},
                "occupations",
            )


@register_family
def pet_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Age and animal of a pet."""
    for row in tables.rows["pets"]:
        one = Where(TableRows("pets"), "pet", row["pet"])
        for column, kind in (("age", "years"), ("animal", "animals")):
            yield QuestionCandidate(
                f"pet_{column}", OnlyValue(ColumnValues(one, column)), {"pet": QuestionSlot("pet", row["pet"])}, kind
            )


@register_family
def place_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Where an appliance or a sensor is."""
    for table, column in (("appliances", "appliance"), ("sensors", "sensor")):
        for row in tables.rows[table]:
            one = Where(TableRows(table), column, row[column])
            yield QuestionCandidate(
                f"place_of_{column}",
                OnlyValue(ColumnValues(one, "room")),
                {column: QuestionSlot(column, row[column])},
                "room",
            )


@register_family
def state_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """A number that an appliance is at, or that a sensor reads."""
    for table, column in (("states", "appliance"), ("readings", "sensor")):
        for row in tables.rows[table]:
            if isinstance(row["value"], bool) or not isinstance(row["value"], int | float):
                continue
            one = Where(Where(TableRows(table), column, row[column]), "attribute", row["attribute"])
            slots = {column: QuestionSlot(column, row[column]), "attribute": QuestionSlot("attribute", row["attribute"])}
            yield QuestionCandidate(f"state_of_{column}", OnlyValue(ColumnValues(one, "value")), slots, _number(row["unit"]))


@register_family
def weather_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """The weather outside and the air inside."""
    for row in tables.rows["weather"]:
        one = Where(Where(TableRows("weather"), "side", row["side"]), "quantity", row["quantity"])
        kind = "share" if row["quantity"] == "sunny" else _number(row["unit"])
        yield QuestionCandidate(f"weather_{row['side']}_{row['quantity']}", OnlyValue(ColumnValues(one, "value")), {}, kind)


@register_family
def life_event_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """When something happened in a life, and how many years ago."""
    for row in tables.rows["life"]:
        one = OnlyValue(ColumnValues(Where(Where(TableRows("life"), "who", row["who"]), "kind", row["kind"]), "date"))
        slots = {"who": _person(row["who"]), "what": QuestionSlot("life_events", row["kind"])}
        yield QuestionCandidate("date_of_life_event", one, slots, "date")
        yield QuestionCandidate("years_since_life_event", YearsSince(one), slots, "span")


# Remembering


@register_family
def deed_time_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """How often a person did something, and when last."""
    deeds = _deeds(tables)
    counted = _counted(deeds)
    for who, deed in deeds:
        slots = {"who": _person(who), "deed": QuestionSlot("deed", deed)}
        if (who, deed) in counted:
            yield QuestionCandidate("times", RowCount(_of(deed, who)), slots, "times")
        yield QuestionCandidate("last_day", _latest(_of(deed, who), "date"), slots, "date")


def _counted(deeds: Counter[tuple[str, Deed]]) -> set[tuple[str, Deed]]:
    """The deeds whose count is asked for: of those that were done once only as many as were done twice.

    Most were done once, so 1 would be a good guess.
    """
    once = [deed for deed, count in deeds.items() if count == 1]
    twice = sum(count == 2 for count in deeds.values())
    often = {deed for deed, count in deeds.items() if count > 1}
    return often | {once[at * len(once) // twice] for at in range(twice) if once}


@register_family
def deed_kind_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What a person did last, what most often, and how much in all."""
    for who, kind in dict.fromkeys((who, deed.kind) for who, deed in _deeds(tables)):
        rows, slots = _of(Deed(kind), who), {"who": _person(who)}
        answer = OBJECT.get(kind) or f"what:{kind}"
        yield QuestionCandidate(f"last_{kind}", _latest(rows, _object(kind)), slots, answer)
        yield QuestionCandidate(f"usually_{kind}", UsualValue(ColumnValues(rows, _object(kind))), slots, answer)
        if kind in MEASURED:
            yield QuestionCandidate(f"total_{kind}", Total(ColumnValues(rows, "value")), slots, _number(MEASURED[kind]))


@register_family
def setting_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """To what an appliance was last set, and by whom."""
    rows_set = {(row["appliance"], row["what"]): row for row in tables.rows["memories"] if row["kind"] == "adjusted"}
    for (appliance, what), row in rows_set.items():
        rows = Where(Where(Where(MEMORIES, "kind", "adjusted"), "appliance", appliance), "what", what)
        slots = {"appliance": QuestionSlot("appliance", appliance), "what": QuestionSlot("quantities", what)}
        yield QuestionCandidate("last_setting", _latest(rows, "value"), slots, _number(row["unit"]))
        yield QuestionCandidate("who_set_last", _latest(rows, "who"), slots, "person")


@register_family
def recent_event_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Who entered a room last, and what was last measured or noticed."""
    for kind, column, name, answer in (
        ("entered", "room", "who", "person"),
        ("measured", "what", "value", "number"),
        ("noticed", "what", "room", "room"),
        ("used", "appliance", "who", "person"),
    ):
        slot = {"room": "room", "appliance": "appliance", "what": "quantities" if kind == "measured" else "signs"}[column]
        events = {row[column]: row for row in tables.rows["events"] if row["kind"] == kind and row[column]}
        for value, row in events.items():
            found = _number(row["unit"]) if answer == "number" else answer
            rows = Where(Where(EVENTS, "kind", kind), column, value)
            yield QuestionCandidate(f"last_{kind}_event", _latest(rows, name), {"what": QuestionSlot(slot, value)}, found)


# Putting together


@register_family
def two_people_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """What two people have in common, and how much more often one did something."""
    hobbies = TableRows("hobbies")
    for one, other in permutations(_people(tables), 2):
        slots = {"who": _person(one), "other": _person(other)}
        if one < other:
            shared = Shared(
                ColumnValues(Where(hobbies, "who", one), "hobby"), ColumnValues(Where(hobbies, "who", other), "hobby")
            )
            yield QuestionCandidate("shared_hobby", OnlyValue(shared), slots, "hobbies")
        for kind in DONE:
            more = ValueGap(RowCount(_of(Deed(kind), one)), RowCount(_of(Deed(kind), other)))
            yield QuestionCandidate("more_often", more, {**slots, "deed": QuestionSlot("deed", Deed(kind))}, "times")
        for kind in ("travelled", "ill"):
            apart = ValueGap(*(Total(ColumnValues(_of(Deed(kind), who), "value")) for who in (one, other)))
            yield QuestionCandidate(f"difference_{kind}", apart, slots, _number("day"))


@register_family
def last_doer_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Occupation and age of whoever did something last."""
    for deed in dict.fromkeys(deed for _, deed in _deeds(tables)):
        doer = Follow(ColumnValues(Extreme(_of(deed), "time"), "who"), "members", "who")
        for column, answer in (("occupation", "occupations"), ("age", "years")):
            yield QuestionCandidate(
                f"{column}_of_last", OnlyValue(ColumnValues(doer, column)), {"deed": QuestionSlot("deed", deed)}, answer
            )


@register_family
def days_apart_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Days between the last times that a person did two things, and what came first after the other."""
    deeds = _deeds(tables)
    for who in _people(tables):
        kinds = dict.fromkeys(deed.kind for doer, deed in deeds if doer == who)
        for one, other in permutations(kinds, 2):
            slots = {
                "who": _person(who),
                "deed": QuestionSlot("deed", Deed(one)),
                "other": QuestionSlot("deed", Deed(other)),
            }
            last = _latest(_of(Deed(other), who), "time")
            if one < other:
                yield QuestionCandidate(
                    "days_apart", ValueGap(_latest(_of(Deed(one), who), "time"), last), slots, _number("day")
                )
            first = Extreme(Where(_of(Deed(one), who), "time", last, ">"), "time", largest=False)
            answer = OBJECT.get(one) or f"what:{one}"
            yield QuestionCandidate(f"first_after_{one}", OnlyValue(ColumnValues(first, _object(one))), slots, answer)


@register_family
def breakdown_questions(tables: HouseholdTables) -> Iterator[QuestionCandidate]:
    """Who repaired what broke last, and where that stands."""
    broken = OnlyValue(ColumnValues(Extreme(Where(MEMORIES, "kind", "broke"), "time"), "appliance"))
    repairs = Where(Where(MEMORIES, "kind", "repaired"), "appliance", broken)
    yield QuestionCandidate("who_repaired_last_broken", _latest(repairs, "who"), {}, "person")
    yield QuestionCandidate("day_repaired_last_broken", _latest(repairs, "date"), {}, "date")
    for who in _people(tables):
        used = ColumnValues(Extreme(_of(Deed("used"), who), "time"), "appliance")
        place = OnlyValue(ColumnValues(Follow(used, "appliances", "appliance"), "room"))
        yield QuestionCandidate("place_of_last_used", place, {"who": _person(who)}, "room")
