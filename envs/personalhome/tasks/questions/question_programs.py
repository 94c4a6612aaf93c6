"""Programs that answer questions: expressions over the tables of a household.

An expression gives rows (`TableRows`, `Where`, `Extreme`, `Follow`), values (`ColumnValues`, `Shared`) or one value
(`OnlyValue`, `Total`, ...). Its result carries the evidence: the ids of the rows that it comes from. The evidence of a
filter is the rows that it keeps; that of a maximum is all rows that it compared.

Invariants: a program has exactly one answer, or raises `NoAnswer` (nothing is left, or two are tied); it reads nothing but
the tables; `count_operations` counts its steps (PersonalHomeBench 3.2, difficulty).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from homerl.envs.personalhome.sim.household import years_between
from homerl.envs.personalhome.tasks.questions.household_tables import HouseholdTables, days_between

Difficulty = Literal["simple", "medium", "hard"]
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
        for field in fields(self):
            if isinstance(part := getattr(self, field.name), Expression):
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
