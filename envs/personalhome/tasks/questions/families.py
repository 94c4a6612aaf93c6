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

from homerl.envs.personalhome.tasks.questions.programs import (
    Column,
    Count,
    Difference,
    Expression,
    Extreme,
    Follow,
    Shared,
    Table,
    The,
    Total,
    Usual,
    Where,
    YearsSince,
)
from homerl.envs.personalhome.tasks.questions.tables import Row, Tables

MEMORIES, EVENTS, MEMBERS = Table("memories"), Table("events"), Table("members")
DONE = ("cooked", "used", "travelled", "complained", "ill", "bought", "celebrated", "cared", "repaired", "learned")
OBJECT = {"used": "appliance", "repaired": "appliance"}  # what a deed is done to; of other kinds it is `what`
MEASURED = {"travelled": "day", "ill": "day", "used": "minute", "bought": "currency"}  # the unit of `value` by kind


@dataclass(frozen=True)
class Deed:
    """Something that people do, as a question names it: the kind of fact, and what it is done to (None: anything)."""

    kind: str
    object: str | None = None


@dataclass(frozen=True)
class Slot:
    """What a sentence names: a value and what kind of thing it is, such as `person` or `dishes`."""

    kind: str
    value: Any


@dataclass(frozen=True)
class Candidate:
    """A question that might be asked. `answer` is the kind of its answer."""

    family: str
    program: Expression
    slots: Mapping[str, Slot]
    answer: str


Family = Callable[[Tables], Iterator[Candidate]]
FAMILIES: list[Family] = []


def family(function: Family) -> Family:
    """Register a family."""
    FAMILIES.append(function)
    return function


def candidates(tables: Tables) -> list[Candidate]:
    """All candidates of all families."""
    return [candidate for each in FAMILIES for candidate in each(tables)]


def _number(unit: str | None) -> str:
    """The kind of a number in a unit."""
    return f"number:{unit}" if unit else "number"


def _person(who: str) -> Slot:
    return Slot("person", who)


def _people(tables: Tables) -> list[str]:
    return [row["who"] for row in tables.rows["members"]]


def _deeds(tables: Tables) -> Counter[tuple[str, Deed]]:
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
    return The(Column(Extreme(rows, "time"), column))


# Looking up


@family
def of_people(tables: Tables) -> Iterator[Candidate]:
    """Occupation and age of a person, and who has an occupation or a hobby."""
    for row in tables.rows["members"]:
        one = Where(MEMBERS, "who", row["who"])
        for column, kind in (("occupation", "occupations"), ("age", "years")):
            yield Candidate(f"{column}_of", The(Column(one, column)), {"who": _person(row["who"])}, kind)
    for table, column, kind in (("members", "occupation", "occupations"), ("hobbies", "hobby", "hobbies")):
        for value in dict.fromkeys(row[column] for row in tables.rows[table]):
            rows = Where(Table(table), column, value)
            yield Candidate(f"who_has_{column}", The(Column(rows, "who")), {"what": Slot(kind, value)}, "person")


@family
def of_extremes(tables: Tables) -> Iterator[Candidate]:
    """What the oldest and the youngest person do."""
    for name, largest in (("oldest", True), ("youngest", False)):
        if len(tables.rows["members"]) > 1:
            yield Candidate(
                f"occupation_of_{name}", The(Column(Extreme(MEMBERS, "age", largest), "occupation")), {}, "occupations"
            )


@family
def of_pets(tables: Tables) -> Iterator[Candidate]:
    """Age and animal of a pet."""
    for row in tables.rows["pets"]:
        one = Where(Table("pets"), "pet", row["pet"])
        for column, kind in (("age", "years"), ("animal", "animals")):
            yield Candidate(f"pet_{column}", The(Column(one, column)), {"pet": Slot("pet", row["pet"])}, kind)


@family
def of_places(tables: Tables) -> Iterator[Candidate]:
    """Where an appliance or a sensor is."""
    for table, column in (("appliances", "appliance"), ("sensors", "sensor")):
        for row in tables.rows[table]:
            one = Where(Table(table), column, row[column])
            yield Candidate(f"place_of_{column}", The(Column(one, "room")), {column: Slot(column, row[column])}, "room")


@family
def of_states(tables: Tables) -> Iterator[Candidate]:
    """A number that an appliance is at, or that a sensor reads."""
    for table, column in (("states", "appliance"), ("readings", "sensor")):
        for row in tables.rows[table]:
            if isinstance(row["value"], bool) or not isinstance(row["value"], int | float):
                continue
            one = Where(Where(Table(table), column, row[column]), "attribute", row["attribute"])
            slots = {column: Slot(column, row[column]), "attribute": Slot("attribute", row["attribute"])}
            yield Candidate(f"state_of_{column}", The(Column(one, "value")), slots, _number(row["unit"]))


@family
def of_weather(tables: Tables) -> Iterator[Candidate]:
    """The weather outside and the air inside."""
    for row in tables.rows["weather"]:
        one = Where(Where(Table("weather"), "side", row["side"]), "quantity", row["quantity"])
        kind = "share" if row["quantity"] == "sunny" else _number(row["unit"])
        yield Candidate(f"weather_{row['side']}_{row['quantity']}", The(Column(one, "value")), {}, kind)


@family
def of_lives(tables: Tables) -> Iterator[Candidate]:
    """When something happened in a life, and how many years ago."""
    for row in tables.rows["life"]:
        one = The(Column(Where(Where(Table("life"), "who", row["who"]), "kind", row["kind"]), "date"))
        slots = {"who": _person(row["who"]), "what": Slot("life_events", row["kind"])}
        yield Candidate("date_of_life_event", one, slots, "date")
        yield Candidate("years_since_life_event", YearsSince(one), slots, "span")


# Remembering


@family
def of_times(tables: Tables) -> Iterator[Candidate]:
    """How often a person did something, and when last."""
    deeds = _deeds(tables)
    counted = _counted(deeds)
    for who, deed in deeds:
        slots = {"who": _person(who), "deed": Slot("deed", deed)}
        if (who, deed) in counted:
            yield Candidate("times", Count(_of(deed, who)), slots, "times")
        yield Candidate("last_day", _latest(_of(deed, who), "date"), slots, "date")


def _counted(deeds: Counter[tuple[str, Deed]]) -> set[tuple[str, Deed]]:
    """The deeds whose count is asked for: of those that were done once only as many as were done twice.

    Most were done once, so 1 would be a good guess.
    """
    once = [deed for deed, count in deeds.items() if count == 1]
    twice = sum(count == 2 for count in deeds.values())
    often = {deed for deed, count in deeds.items() if count > 1}
    return often | {once[at * len(once) // twice] for at in range(twice) if once}


@family
def of_kinds(tables: Tables) -> Iterator[Candidate]:
    """What a person did last, what most often, and how much in all."""
    for who, kind in dict.fromkeys((who, deed.kind) for who, deed in _deeds(tables)):
        rows, slots = _of(Deed(kind), who), {"who": _person(who)}
        answer = OBJECT.get(kind) or f"what:{kind}"
        yield Candidate(f"last_{kind}", _latest(rows, _object(kind)), slots, answer)
        yield Candidate(f"usually_{kind}", Usual(Column(rows, _object(kind))), slots, answer)
        if kind in MEASURED:
            yield Candidate(f"total_{kind}", Total(Column(rows, "value")), slots, _number(MEASURED[kind]))


@family
def of_settings(tables: Tables) -> Iterator[Candidate]:
    """To what an appliance was last set, and by whom."""
    rows_set = {(row["appliance"], row["what"]): row for row in tables.rows["memories"] if row["kind"] == "adjusted"}
    for (appliance, what), row in rows_set.items():
        rows = Where(Where(Where(MEMORIES, "kind", "adjusted"), "appliance", appliance), "what", what)
        slots = {"appliance": Slot("appliance", appliance), "what": Slot("quantities", what)}
        yield Candidate("last_setting", _latest(rows, "value"), slots, _number(row["unit"]))
        yield Candidate("who_set_last", _latest(rows, "who"), slots, "person")


@family
def of_recent_events(tables: Tables) -> Iterator[Candidate]:
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
            yield Candidate(f"last_{kind}_event", _latest(rows, name), {"what": Slot(slot, value)}, found)


# Putting together


@family
def of_two_people(tables: Tables) -> Iterator[Candidate]:
    """What two people have in common, and how much more often one did something."""
    hobbies = Table("hobbies")
    for one, other in permutations(_people(tables), 2):
        slots = {"who": _person(one), "other": _person(other)}
        if one < other:
            shared = Shared(Column(Where(hobbies, "who", one), "hobby"), Column(Where(hobbies, "who", other), "hobby"))
            yield Candidate("shared_hobby", The(shared), slots, "hobbies")
        for kind in DONE:
            more = Difference(Count(_of(Deed(kind), one)), Count(_of(Deed(kind), other)))
            yield Candidate("more_often", more, {**slots, "deed": Slot("deed", Deed(kind))}, "times")
        for kind in ("travelled", "ill"):
            apart = Difference(*(Total(Column(_of(Deed(kind), who), "value")) for who in (one, other)))
            yield Candidate(f"difference_{kind}", apart, slots, _number("day"))


@family
def of_last_doers(tables: Tables) -> Iterator[Candidate]:
    """Occupation and age of whoever did something last."""
    for deed in dict.fromkeys(deed for _, deed in _deeds(tables)):
        doer = Follow(Column(Extreme(_of(deed), "time"), "who"), "members", "who")
        for column, answer in (("occupation", "occupations"), ("age", "years")):
            yield Candidate(f"{column}_of_last", The(Column(doer, column)), {"deed": Slot("deed", deed)}, answer)


@family
def of_days_apart(tables: Tables) -> Iterator[Candidate]:
    """Days between the last times that a person did two things, and what came first after the other."""
    deeds = _deeds(tables)
    for who in _people(tables):
        kinds = dict.fromkeys(deed.kind for doer, deed in deeds if doer == who)
        for one, other in permutations(kinds, 2):
            slots = {"who": _person(who), "deed": Slot("deed", Deed(one)), "other": Slot("deed", Deed(other))}
            last = _latest(_of(Deed(other), who), "time")
            if one < other:
                yield Candidate("days_apart", Difference(_latest(_of(Deed(one), who), "time"), last), slots, _number("day"))
            first = Extreme(Where(_of(Deed(one), who), "time", last, ">"), "time", largest=False)
            answer = OBJECT.get(one) or f"what:{one}"
            yield Candidate(f"first_after_{one}", The(Column(first, _object(one))), slots, answer)


@family
def of_breakdowns(tables: Tables) -> Iterator[Candidate]:
    """Who repaired what broke last, and where that stands."""
    broken = The(Column(Extreme(Where(MEMORIES, "kind", "broke"), "time"), "appliance"))
    repairs = Where(Where(MEMORIES, "kind", "repaired"), "appliance", broken)
    yield Candidate("who_repaired_last_broken", _latest(repairs, "who"), {}, "person")
    yield Candidate("day_repaired_last_broken", _latest(repairs, "date"), {}, "date")
    for who in _people(tables):
        used = Column(Extreme(_of(Deed("used"), who), "time"), "appliance")
        place = The(Column(Follow(used, "appliances", "appliance"), "room"))
        yield Candidate("place_of_last_used", place, {"who": _person(who)}, "room")
