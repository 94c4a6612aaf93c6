"""Tables of figures as plain data, for the terminal and for a page.

Invariant: a missing figure is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from homerl.envs.personalhome.bench.figures import ScoreFigure
from homerl.envs.personalhome.tasks.metrics import CUTS, HIGHEST_SCORE, WORST_RANK_SUM


@dataclass(frozen=True)
class FigureUnit:
    """How a figure is written: times `factor`, with `digits` decimals and perhaps its sign. `top` is the bar's end."""

    factor: float = 100.0
    digits: int = 1
    signed: bool = False
    top: float | None = 1.0

    def format_value(self, value: float) -> str:
        """A value in this unit, with a minus that is as wide as a plus."""
        return f"{self.factor * value:{'+' if self.signed else ''}.{self.digits}f}".replace("-", "−")


PERCENT, POINTS = FigureUnit(), FigureUnit(signed=True, top=None)
SHARE, RANKS, SCORE = FigureUnit(1.0, 3), FigureUnit(1.0, 2, top=WORST_RANK_SUM), FigureUnit(1.0, 2, top=HIGHEST_SCORE)
UNITS = {"RRS": RANKS, "validity": SHARE, "executed": SHARE, "RPJ abs": SCORE, "RPJ members": SCORE, "RPJ home": SCORE}
UNITS |= dict.fromkeys((f"MAP@{k}" for k in CUTS), SHARE)


@dataclass(frozen=True)
class FigureCell:
    """A figure as text. `bar` has its low, mean and high end as shares of the unit's range, if it has one."""

    text: str
    interval: str = ""
    n: int | None = None
    bar: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class FigureLine:
    """A line of a table. A missing figure is None."""

    label: str
    cells: tuple[FigureCell | None, ...]

    @property
    def case_counts(self) -> tuple[str, ...]:
        """The number of cases of each cell, once if it is the same in all."""
        return tuple(dict.fromkeys(str(cell.n) for cell in self.cells if cell and cell.n is not None))


@dataclass(frozen=True)
class FigureTable:
    """A table: the heads of its columns, and lines. `notes` stand below it."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[FigureLine, ...]
    notes: tuple[str, ...] = ()


def figure_to_cell(figure: ScoreFigure | None, unit: FigureUnit) -> FigureCell | None:
    """A figure as a cell."""
    if figure is None:
        return None
    between = f"{unit.format_value(figure.low)} to {unit.format_value(figure.high)}"
    bar = None if unit.top is None else tuple(value / unit.top for value in (figure.low, figure.mean, figure.high))
    return FigureCell(unit.format_value(figure.mean), between, figure.n, bar)  # type: ignore[arg-type]
