"""A household as tables, and programs over them that answer questions.

Each row has an `id`, which names what a tool shows when it shows the row: `member:h1_2`, `memory:17`, `appliance:oven`.

What is done, heard and seen in the video of the present scene has tables of its own. `scene_acts` and `scene_sounds` tell
what happens, without its times; `scene_acts_timed` and `scene_sounds_timed` are the same rows for programs that read times,
in seconds from the start of the video. `scene_states` tells what state somebody or something is in from a time on,
`scene_things` what does not change, `scene_looks` what people look like.

A program is an expression. It gives rows (`TableRows`, `Where`, `Extreme`, `Follow`), values (`ColumnValues`, `Shared`) or
one value (`OnlyValue`, `Total`, ...). Its result carries the evidence: the ids of the rows that it comes from. The evidence
of a filter is the rows that it keeps; that of a maximum is all rows that it compared.

Invariants:
- Only what an agent can see is in a table (`household_view.py`), or what it can compute from that.
- A row of the scene is a fact that a scene tool can show. Rows of one event share its name.
- Without a transcript the tables of the scene are empty.
- No value is a list, so a person with three hobbies has three rows in `hobbies`.
- Tables never change, and an edit gives new ones.
- A program reads nothing but the tables. It has exactly one answer, or raises `NoAnswer` (nothing is left, or two are tied).
- `count_operations` counts its steps (PersonalHomeBench 3.2, difficulty).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timedelta
from itertools import starmap
from typing import Any, Literal

from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.sim.household import Fact, Household, same_day_in_year, years_between
from homerl.envs.personalhome.sim.household_state import device_kind
from homerl.envs.personalhome.sim.household_view import WEATHER_UNITS
from homerl.envs.personalhome.sim.scene.scene_scripts import load_caption_words, load_stage
from homerl.envs.personalhome.sim.scene.transcript import Transcript
from homerl.envs.personalhome.sim.scene.transcript_writer import GROUPS
from homerl.envs.personalhome.sim.tools.scene_tools import readable_ids
from homerl.envs.personalhome.tasks.blueprint import Difficulty

Row = Mapping[str, Any]  # the values are str, int, float, bool, date, datetime or None
TABLES = (
    "scene_acts", "scene_acts_timed", "scene_sounds", "scene_sounds_timed", "scene_states", "scene_things", "scene_looks",
)  # fmt: skip
THINGS = ("zone", "finish", "colour", "position", "light")  # attributes of things that stay as they are
LOOKS = ("hair", "top", "top_colour", "bottom", "bottom_colour", "feet")


@dataclass(frozen=True)
class SceneAct:
    """Something that is done, as a caption says it: the action, who does it, to what, at what.

    `zone` is where, if the caption's words for the action name it. `place` is where in any case; it makes no difference.
    """

    do: str
    who: str | None = None
    what: str | None = None
    at: str | None = None
    zone: str | None = None
    place: str | None = field(default=None, compare=False)


def _collect_rows(names: Iterable[str], named_rows: Iterable[tuple[str, Row]]) -> dict[str, tuple[Row, ...]]:
    """The tables of some names, from rows that come with the names of their tables."""
    found: dict[str, list[Row]] = {name: [] for name in names}
    for table, row in named_rows:
        found[table].append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def _scene_rows(transcript: Transcript) -> Iterator[tuple[str, Row]]:
    """Each row with its table, in the order of the facts."""
    known = readable_ids(transcript)
    for fact in transcript.facts:
        id = f"scene:{fact.id}"
        if id not in known:
            continue
        # A tool may show a fact with its time or without. A program that reads times rests on calls that show them.
        timed = f"{id}.time" if f"{id}.time" in known else id
        span = {"event": fact.event_id, "start": fact.ts_start, "end": fact.ts_end}
        if fact.action is not None:
            at = fact.value if fact.attribute == "at" else None
            named = fact.zone if "{zone}" in load_caption_words(transcript.language).actions[fact.action] else None
            act = SceneAct(fact.action, fact.actor, fact.object, at, named, fact.zone)
            row = {"do": act.do, "who": act.who, "what": act.what, "at": at, "zone": act.place, "act": act, **span}
            yield "scene_acts", {"id": id, **row}
            yield "scene_acts_timed", {"id": timed, **row}
        elif fact.sound is not None:
            row = {"sound": fact.sound, "zone": fact.zone, **span}
            yield "scene_sounds", {"id": id, **row}
            yield "scene_sounds_timed", {"id": timed, **row}
        elif fact.attribute in THINGS:
            yield "scene_things", {"id": id, "thing": fact.object, "attribute": fact.attribute, "value": fact.value}
        elif fact.attribute in LOOKS:
            yield "scene_looks", {"id": id, "who": fact.actor, "attribute": fact.attribute, "value": fact.value}
        else:
            owner = {"thing": fact.actor or fact.object, "attribute": fact.attribute, "value": fact.value}
            yield "scene_states", {"id": timed, **owner, **span}


TOGETHER = ("travelled", "celebrated")  # what companions did as well
USES = ("cooked", "adjusted")  # who did so has used the appliance as well
FACT = ("kind", "who", "pet", "appliance", "sensor", "room", "what", "value", "unit")


@dataclass(frozen=True)
class HouseholdTables:
    """All tables of a household by name, and its clock.

    `told` are the rows of `memories` and `events` with everything else that agents are told of the kind: in memories the
    last day's events, and in both what companions did, and that who cooks or adjusts uses an appliance.
    """

    now: datetime
    rows: Mapping[str, tuple[Row, ...]]
    told: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)

    def with_edited_rows(self, table: str, id: str, changes: Row | None) -> HouseholdTables:
        """The tables with some values of the rows of an id replaced, or without these rows if there are no changes.

        What is told of this row changes, too, where it has the value that the row had: a companion stays who it is.
        """
        old = next((row for row in self.rows[table] if row["id"] == id), {})
        told = {name: _edit_rows(rows, id, changes, old) for name, rows in self.told.items()}
        return replace(self, rows={**self.rows, table: _edit_rows(self.rows[table], id, changes, old)}, told=told)

    def with_edited_row(self, table: str, row: Row, changes: Row | None) -> HouseholdTables:
        """The tables with some values of this row replaced, or without it if there are no changes.

        Other rows may have its id, as all rows of a household's weather have one.
        """
        edited = [{**row, **changes}] if changes is not None else []
        rows = (new for one in self.rows[table] for new in (edited if one is row else [one]))
        return replace(self, rows={**self.rows, table: tuple(rows)})

    def years_later(self, years: int) -> HouseholdTables:
        """The tables some years later: everybody is older, and nothing else has happened."""
        rows = dict(self.rows)
        for table in ("members", "pets"):
            rows[table] = tuple({**row, "age": row["age"] + years} for row in rows[table])
        return replace(self, now=same_day_in_year(self.now, self.now.year + years), rows=rows)

    def with_told_rows(self) -> HouseholdTables:
        """The tables with everything that is told in place of the memories and events."""
        return replace(self, rows={**self.rows, **self.told})


def _edit_rows(rows: Iterable[Row], id: str, changes: Row | None, old: Row) -> tuple[Row, ...]:
    """The rows with those of an id changed where they have an old value, or without them if there are no changes."""
    if changes is None:
        return tuple(row for row in rows if row["id"] != id)
    edited: list[Row] = []
    for row in rows:
        changed = {name: new for name, new in changes.items() if row["id"] == id and row[name] == old[name]}
        edited.append({**row, **changed} if row["id"] == id else row)
    return tuple(edited)


def make_household_tables(household: Household) -> HouseholdTables:
    """The tables of a household at its start."""
    memories = [(f"memory:{n}", one.time, one.fact) for n, one in enumerate(household.memories)]
    events = [(f"event:{n}", one.time, one.fact) for n, one in enumerate(household.context.events)]
    tables = {
        **_collect_rows(("members", "hobbies", "life", "pets", "weather"), _profile_rows(household)),
        "memories": tuple(starmap(_fact_row, memories)),
        "events": tuple(starmap(_fact_row, events)),
        **_collect_rows(("appliances", "sensors", "states", "readings"), _device_rows(household)),
        **_collect_rows(TABLES, _scene_rows(household.transcript) if household.transcript is not None else ()),
    }
    told = {"memories": tuple(_told_rows([*memories, *events])), "events": tuple(_told_rows(events))}
    return HouseholdTables(household.now, tables, told)


def _profile_rows(household: Household) -> Iterator[tuple[str, Row]]:
    """Each row about people, pets and the weather, with its table."""
    for one in household.members:
        id, who, age = f"member:{one.member_id}", one.member_id, one.age(household.now.date())
        row = {"id": id, "who": who, "name": one.name, "role": one.role, "age": age, "gender": one.gender}
        yield "members", {**row, "occupation": one.occupation}
        yield from (("hobbies", {"id": id, "who": who, "hobby": hobby}) for hobby in one.hobbies)
        for it in one.major_events:
            yield "life", {"id": f"life:{who}", "who": who, "date": it.date, "kind": it.kind}
    for pet in household.pets:
        yield "pets", {"id": f"pet:{pet.name}", "pet": pet.name, "animal": pet.animal, "age": pet.age}
    for side, air in household.context.weather:
        for quantity, value in air:
            unit = WEATHER_UNITS[quantity]
            yield "weather", {"id": "weather", "side": side, "quantity": quantity, "value": value, "unit": unit}


def _told_rows(facts: Iterable[tuple[str, datetime, Fact]]) -> Iterator[Row]:
    """The rows of facts: of trips and celebrations once for each companion too, of cooking and adjusting also as a use.

    How many minutes such a use took is not told.
    """
    for id, time, fact in facts:
        row = _fact_row(id, time, fact)
        yield row
        if fact.kind in TOGETHER:
            yield from ({**row, "who": other} for other in fact.others)
        if fact.kind in USES and fact.appliance:
            yield {**row, "kind": "used", "what": None, "value": None, "unit": None}


def _fact_row(id: str, time: datetime, fact: Fact) -> Row:
    return {"id": id, "time": time, "date": time.date(), **{name: getattr(fact, name) for name in FACT}}


def _device_rows(household: Household) -> Iterator[tuple[str, Row]]:
    """Each device in `appliances` or `sensors`, and each of its values in `states` or `readings`."""
    home = home_from_json(household.home)
    for device in home.plan.devices:
        kind = device_kind(device)
        owned, values = ("sensors", "readings") if kind == "sensor" else ("appliances", "states")
        row = {kind: device.did, "kind": device.spec.category}
        yield owned, {"id": f"{kind}:{device.did}", **row, "room": device.room.id}
        for path, value in home.state_of(device.did).items():
            _, attribute = device.spec.attribute_index[path]
            measured = {"attribute": path, "value": value, "unit": attribute.unit, "range": attribute.range}
            yield values, {"id": f"state:{device.did}", **row, **measured}


def days_between(first: date | datetime, second: date | datetime) -> int:
    """Whole days from one date to another, without sign."""
    one, other = (value.date() if isinstance(value, datetime) else value for value in (first, second))
    return abs((other - one) // timedelta(days=1))


# What a kind of answer may be

CHANGING = ("power", "door", "condition", "use")  # attributes of things whose state may change
VALUES = {  # kind -> the (table, column) pairs whose values are of this kind, those of the scene first
    "actor": (("scene_acts", "who"), ("scene_looks", "who"), ("members", "who"), ("pets", "pet")),
    "thing": (("scene_acts", "what"), ("scene_acts", "at")),
    "spot": (("scene_acts", "at"), ("scene_acts", "who")),
    "zone": (("scene_acts", "zone"), ("scene_sounds", "zone"), ("appliances", "room"), ("sensors", "room")),
    "sound": (("scene_sounds", "sound"),),
    "act": (("scene_acts", "act"),),
}
TYPED = {  # kind -> (table, column, attributes) where rows of these attributes have values of this kind
    "thing": (("scene_things", "thing", ("colour", "finish", "zone")),),
    "spot": (("scene_things", "thing", ("zone",)),),
    "state": (("scene_states", "value", CHANGING),),
    "posture": (("scene_states", "value", ("posture",)),),
}
SCENE = "scene:"  # begins the kinds whose words are those of the scene


def values_in_scene(kind: str, tables: HouseholdTables) -> list[Any]:
    """The values of a kind in the tables, those of the scene first."""
    name = kind.removeprefix(SCENE)
    pairs = VALUES.get(name, ())
    found = [row[column] for table, column in pairs for row in tables.rows[table] if row[column] is not None]
    for table, column, attributes in TYPED.get(name, ()):
        found += [row[column] for row in tables.rows[table] if row["attribute"] in attributes]
    if name.startswith("look:"):
        rows = [*tables.rows["scene_looks"], *tables.rows["scene_things"]]
        found += [row["value"] for row in rows if row["attribute"] == name.removeprefix("look:")]
    return found


def values_elsewhere(kind: str) -> list[Any]:
    """The values of a kind that scenes may have, in a fixed order."""
    name = kind.removeprefix(SCENE)
    keys = load_stage()
    if name == "sound":
        return list(keys.sounds)
    if name in ("state", "posture"):
        attributes = CHANGING if name == "state" else ("posture",)
        after = [value for action in keys.actions.values() for _, attribute, value in action.sets if attribute in attributes]
        return list(dict.fromkeys([*after, *(keys.before[value] for value in after if value in keys.before)]))
    if not name.startswith("look:"):
        return []
    attribute = name.removeprefix("look:")
    return list(getattr(keys, {"finish": "finishes", "light": "light"}.get(attribute, GROUPS[attribute])))


MOST_STEPS: dict[Difficulty, int] = {"simple": 3, "medium": 5, "hard": 10}


class NoAnswer(Exception):
    """A program has no answer, or more than one."""


@dataclass(frozen=True)
class ProgramResult:
    """What an expression gives: rows, values or one value, and the ids of the rows that it comes from.

    The ids of rows that it gives are not among these: who reads the rows adds them.
    """

    value: Any
    evidence: frozenset[str] = frozenset()

    @property
    def evidence_with_rows(self) -> frozenset[str]:
        """The evidence, with the rows that it gives."""
        return self.evidence | {row["id"] for row in self.value}


@dataclass(frozen=True)
class Expression:
    """A part of a program. A subclass is one operation."""

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """Its result. Raises `NoAnswer`."""
        raise NotImplementedError

    def all_expressions(self) -> Iterator[Expression]:
        """Itself and all expressions within it."""
        yield self
        for one in fields(self):
            if isinstance(part := getattr(self, one.name), Expression):
                yield from part.all_expressions()


def run_settled(program: Expression, tables: HouseholdTables) -> ProgramResult:
    """What a program finds. Raises `NoAnswer` as well if everything that agents are told would give another answer."""
    found = program.run_on(tables)
    if program.run_on(tables.with_told_rows()).value != found.value:
        raise NoAnswer("what else is told changes the answer")
    return found


def count_operations(program: Expression) -> int:
    """The number of operations. Naming a table and saying that there is one value are none."""
    return sum(not isinstance(part, TableRows | OnlyValue) for part in program.all_expressions())


def program_difficulty(program: Expression) -> Difficulty | None:
    """The difficulty by steps: up to 3, 4 and 5, 6 to 10; None for more."""
    count = count_operations(program)
    return next((name for name, most in MOST_STEPS.items() if count <= most), None)


# Rows


@dataclass(frozen=True)
class TableRows(Expression):
    """All rows of a table."""

    name: str

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """The rows."""
        return ProgramResult(list(tables.rows[self.name]))


COMPARISONS = {"=": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class Where(Expression):
    """The rows whose column compares to a value, which is given or computed."""

    rows: Expression
    column: str
    value: Any
    by: Literal["=", "!=", ">", "<"] = "="

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """The rows that are kept."""
        rows, compare = self.rows.run_on(tables), COMPARISONS[self.by]
        wanted = self.value.run_on(tables) if isinstance(self.value, Expression) else ProgramResult(self.value)
        # A value that is missing compares to nothing, not even by "!=".
        kept = [row for row in rows.value if row[self.column] is not None and compare(row[self.column], wanted.value)]
        # The rows that are dropped are no evidence: who reads the kept ones need not have seen the others.
        return ProgramResult(kept, rows.evidence | wanted.evidence)


@dataclass(frozen=True)
class Extreme(Expression):
    """The one row with the largest or smallest value of a column: the latest, the oldest."""

    rows: Expression
    column: str
    largest: bool = True

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """A list of the one row. Its evidence is all rows that were compared."""
        rows = self.rows.run_on(tables)
        known = [row for row in rows.value if row[self.column] is not None]
        # Two rows that share the extreme value are a tie, for which there is no single answer.
        best = (max if self.largest else min)((row[self.column] for row in known), default=None)
        return ProgramResult([_require_single(row for row in known if row[self.column] == best)], rows.evidence_with_rows)


@dataclass(frozen=True)
class Follow(Expression):
    """The rows of a table whose column is among the values."""

    values: Expression
    table: str
    column: str

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """The rows of the table."""
        values = self.values.run_on(tables)
        wanted = values.value if isinstance(values.value, list) else [values.value]
        rows = [row for row in tables.rows[self.table] if row[self.column] in wanted]
        return ProgramResult(rows, values.evidence)


# Values


@dataclass(frozen=True)
class ColumnValues(Expression):
    """The values of a column, without those that are missing."""

    rows: Expression
    column: str

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """A list of values."""
        rows = self.rows.run_on(tables)
        values = [row[self.column] for row in rows.value if row[self.column] is not None]
        return ProgramResult(values, rows.evidence_with_rows)


@dataclass(frozen=True)
class Shared(Expression):
    """The values that two lists have in common."""

    first: Expression
    second: Expression

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """A list of values, each once, in the order of the first list."""
        one, other = self.first.run_on(tables), self.second.run_on(tables)
        shared = [value for value in dict.fromkeys(one.value) if value in other.value]
        return ProgramResult(shared, one.evidence | other.evidence)


# One value


@dataclass(frozen=True)
class OnlyValue(Expression):
    """The one value of a list."""

    values: Expression

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """The value. Raises `NoAnswer` unless the list has one value, however often."""
        values = self.values.run_on(tables)
        return ProgramResult(_require_single(dict.fromkeys(values.value)), values.evidence)


@dataclass(frozen=True)
class RowCount(Expression):
    """The number of rows, 1 or more: nobody asks how often a thing happened that never did."""

    rows: Expression

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """A whole number."""
        rows = self.rows.run_on(tables)
        if not rows.value:
            raise NoAnswer("there is nothing to count")
        return ProgramResult(len(rows.value), rows.evidence_with_rows)


@dataclass(frozen=True)
class Total(Expression):
    """The sum of numbers."""

    values: Expression

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """A number."""
        values = self.values.run_on(tables)
        if not values.value:
            raise NoAnswer("there is nothing to add")
        return ProgramResult(sum(values.value), values.evidence)


@dataclass(frozen=True)
class UsualValue(Expression):
    """The most frequent value of a list."""

    values: Expression

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """The value. Raises `NoAnswer` if two are equally frequent, or none occurs twice."""
        values = self.values.run_on(tables)
        ranked = Counter(values.value).most_common(2)
        if not ranked or ranked[0][1] < 2 or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
            raise NoAnswer("no value is the most frequent")
        return ProgramResult(ranked[0][0], values.evidence)


@dataclass(frozen=True)
class ValueGap(Expression):
    """How far two numbers are apart, or two dates in days; 0 is no answer, since the question supposes a difference."""

    first: Expression
    second: Expression

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """A number above 0."""
        one, other = self.first.run_on(tables), self.second.run_on(tables)
        number = isinstance(one.value, int | float)
        value = abs(one.value - other.value) if number else days_between(one.value, other.value)
        if not value:
            raise NoAnswer("there is no difference")
        return ProgramResult(round(value, 2), one.evidence | other.evidence)


@dataclass(frozen=True)
class YearsSince(Expression):
    """Whole years from a date to now."""

    value: Expression

    def run_on(self, tables: HouseholdTables) -> ProgramResult:
        """A whole number of years."""
        found = self.value.run_on(tables)
        return ProgramResult(years_between(found.value, tables.now.date()), found.evidence)


def _require_single(values: Iterable[Any]) -> Any:
    found = list(values)
    if len(found) != 1:
        raise NoAnswer("there is no value" if not found else "there is more than one value")
    return found[0]


# Frequent forms


def rows_where(rows: Expression, **wanted: Any) -> Expression:
    """The rows whose columns have some values: `rows_where(TableRows("pets"), pet="Milo")`."""
    for column, value in wanted.items():
        rows = Where(rows, column, value)
    return rows


def only_value(rows: Expression, column: str) -> Expression:
    """The one value that a column has in all rows."""
    return OnlyValue(ColumnValues(rows, column))
